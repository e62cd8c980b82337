"""What a URL says of the servers that a Redis store is on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from go_scheduler.checks import check_name
from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SCHEMES = ("redis", "rediss", "redis+sentinel", "redis+cluster")
NAMESPACE = "go_scheduler"
"""Of a store of which nobody says another."""
_OPTIONS = ("namespace", "tls", "tls_ca")
_NUMBER = re.compile("[0-9]{1,9}")
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_HIGHEST_PORT = 65_535
_LIKE = (
    "redis://user:password@host:6379/0, rediss://… for TLS,"
    " redis+sentinel://host:26379,other:26379/name-of-master or"
    " redis+cluster://host:6379,other:6379"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Which servers, and how to be let in.

    Attributes:
        kind: One of ``redis``, ``rediss``, ``redis+sentinel`` and ``redis+cluster``.
        hosts: Names and ports: one, or some of the sentinels or of the cluster.
        master: What the sentinels call the master; else empty.
        database: Which of its databases.
        username: Who asks.
        password: By what that is known.
        tls: Whether connections are encrypted.
        ca: The file of whoever vouches for the servers; None: the machine's.
        namespace: What the keys of the store begin with.
    """

    kind: str
    hosts: tuple[tuple[str, int], ...]
    master: str = ""
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    namespace: str = NAMESPACE

    def __str__(self) -> str:
        hosts = ",".join(
            f"{f'[{host}]' if ':' in host else host}:{port}"
            for host, port in self.hosts
        )
        path = f"{self.master}/{self.database}" if self.master else str(self.database)
        option = ""
        if self.namespace != NAMESPACE:
            option = f"?namespace={quote(self.namespace, safe='')}"
        return f"{self.kind}://{hosts}/{path}{option}"


def parse(url: str, namespace: str | None = None) -> Address:
    """What a URL says.

    Args:
        url: Of a Redis store.
        namespace: What somebody says besides; None: nothing.

    Raises:
        ConfigurationError: It names no Redis, or another namespace. It says which part
            is wrong, and repeats none but the name of an option: any other may be of a
            password. Or the namespace cannot be part of a key.
    """
    if namespace is not None:
        _check_namespace("namespace", namespace)
    try:
        return _parse(url, namespace)
    # What it is raised from would repeat a part of it.
    except (ValueError, AttributeError) as error:
        ours = isinstance(error, ConfigurationError)
        what = f"{error}; one" if ours else "the URL of a Redis store"
        raise ConfigurationError(f"{what} is like {_LIKE}") from None


def _parse(url: str, namespace: str | None) -> Address:
    parts = urlsplit(url)
    kind = parts.scheme
    if kind not in _SCHEMES:
        raise ValueError
    if parts.fragment or "@" in parts.path + parts.query:
        raise _wrong(
            "has a # or, behind its host, an @: in a user or password write %40 for"
            " @, %2F for /, %3F for ? and %23 for #"
        )
    options = _options(parts.query)
    logged_in, _, hosts = parts.netloc.rpartition("@")
    username, _, password = logged_in.partition(":")
    master, database = _place(kind, parts.path)
    tls = kind == "rediss" or options.get("tls") == "true"
    ca = options.get("tls_ca")
    if ca is not None and not tls:
        raise _wrong(
            "has a tls_ca without TLS: begin it with rediss://, or add tls=true"
        )
    said = options.get("namespace", namespace or NAMESPACE)
    if said != (namespace or said):
        raise _wrong(
            f"has another namespace than the argument, {shown(namespace)}: say one"
        )
    return Address(
        kind=kind,
        hosts=_hosts(kind, hosts),
        master=master,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=tls,
        ca=ca,
        namespace=said,
    )


def _options(query: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in filter(None, query.split("&")):
        name, _, value = (
            unquote(part, errors="strict") for part in each.partition("=")
        )
        if name not in _OPTIONS:
            raise _wrong(f"has no option {shown(name)}, only namespace, tls and tls_ca")
        if name in found or not value:
            raise _wrong(f"has the option {name} more than once, or without a value")
        found[name] = value
    if found.get("tls", "true") not in ("true", "false"):
        raise _wrong("has an option tls that is neither true nor false")
    if (namespace := found.get("namespace")) is not None:
        _check_namespace("the namespace in the URL of a Redis store", namespace)
    return found


def _check_namespace(what: str, namespace: object) -> None:
    if set(check_name(what, namespace)) & set("{}"):
        raise ConfigurationError(
            f"{what} must be without braces: they mark the part of a key that all keys"
            " have in common"
        )


def _place(kind: str, path: str) -> tuple[str, int]:
    """What the sentinels call the master, and which database."""
    names = [unquote(each) for each in path.split("/") if each]
    master = ""
    if kind == "redis+sentinel":
        if not names:
            raise _wrong("has sentinels and not the name of their master")
        master = names.pop(0)
    if len(names) > 1 or not all(map(_NUMBER.fullmatch, names)):
        raise _wrong("has a database that is no whole number from 0, such as /0")
    database = int(names[0]) if names else 0
    if database and kind == "redis+cluster":
        raise _wrong("has a database, of which a cluster has 0 alone")
    return master, database


def _hosts(kind: str, text: str) -> tuple[tuple[str, int], ...]:
    hosts: Sequence[str] = text.split(",")
    if len(hosts) > 1 and "+" not in kind:
        raise _wrong("has several hosts, which only those of sentinels or a cluster do")
    if len(hosts) > 1 and not all(hosts):
        raise _wrong("has several hosts, and one is empty")
    return tuple(_host(each, 26379 if "sentinel" in kind else 6379) for each in hosts)


def _host(text: str, default: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    port = int((found and found[2]) or default)
    if found is None or not 0 < port <= _HIGHEST_PORT:
        raise _wrong(
            f"has a port that is no number from 1 to {_HIGHEST_PORT}, or an IPv6"
            " address without brackets"
        )
    return found[1].strip("[]").lower() or "localhost", port


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(f"the URL of a Redis store {what}")
