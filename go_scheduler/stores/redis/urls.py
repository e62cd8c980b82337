"""What a URL says of the servers that a Redis store is on."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from go_scheduler.errors import ConfigurationError

_SCHEMES = ("redis", "rediss", "redis+sentinel", "redis+cluster")
_OPTIONS = {"tls", "tls_ca"}
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
    """

    kind: str
    hosts: tuple[tuple[str, int], ...]
    master: str = ""
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None

    def __str__(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        path = f"{self.master}/{self.database}" if self.master else str(self.database)
        return f"{self.kind}://{hosts}/{path}"


def parse(url: str) -> Address:
    """What a URL says.

    Raises:
        ConfigurationError: It names no Redis. The URL is not repeated.
    """
    try:
        return _parse(url)
    # What it is raised from would repeat a part of it.
    except (ValueError, IndexError, AttributeError):
        raise ConfigurationError(f"the URL of a Redis store is like {_LIKE}") from None


def _parse(url: str) -> Address:
    parts = urlsplit(url)
    kind = parts.scheme
    options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    if kind not in _SCHEMES or parts.fragment or not options.keys() <= _OPTIONS:
        raise ValueError
    logged_in, _, hosts = parts.netloc.rpartition("@")
    username, _, password = logged_in.partition(":")
    path = [unquote(each) for each in parts.path.split("/") if each]
    master = path.pop(0) if kind == "redis+sentinel" else ""
    found = tuple(_host(each, 26379 if master else 6379) for each in hosts.split(","))
    if len(path) > 1 or (len(found) > 1 and "+" not in kind):
        raise ValueError
    database = int(path[0]) if path else 0
    if database < 0 or (database and kind == "redis+cluster"):
        raise ValueError
    return Address(
        kind=kind,
        hosts=found,
        master=master,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=kind == "rediss" or options.get("tls") == ["true"],
        ca=options.get("tls_ca", [None])[0],
    )


def _host(text: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or default
