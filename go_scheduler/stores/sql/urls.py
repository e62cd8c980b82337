"""Database URLs, of one host or several. No error repeats one: it holds a password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sqlalchemy import URL, exc, make_url

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

# SQLAlchemy divides a URL in this way: a password goes on up to the first @.
_PARTS = re.compile(r"([\w+]+://(?:[^:/]*(?::[^@]*)?@)?)([^/?]*)(.*)", re.DOTALL)
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::(.*))?")
_PORT = re.compile("[0-9]{1,5}")
_HIGHEST_PORT = 65_535
_NO_PORT = f"a port that is no number from 1 to {_HIGHEST_PORT}"


def read_url(url: str | URL, *, example: str) -> URL:
    """A URL in its parts.

    Args:
        url: As users write it, or in its parts already.
        example: What one looks like, for the error.

    Raises:
        ConfigurationError: It is none, holds a NUL, or an option without a value.
    """
    refusal = ConfigurationError(f"no database URL, such as {example}")
    if not isinstance(url, str | URL):
        raise refusal
    if isinstance(url, str) and (parts := _PARTS.match(url)):
        _refuse_half_options(parts[3])
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise refusal from None
    _refuse_nul(parsed.render_as_string(hide_password=False))
    return parsed


def _refuse_half_options(rest: str) -> None:
    options = filter(None, rest.partition("?")[2].split("&"))
    if not all(value for _, _, value in (each.partition("=") for each in options)):
        # SQLAlchemy leaves it out, and nobody would know that it does nothing.
        raise ConfigurationError(
            "the URL has an option without a value: write ?name=value&other=value"
        )


def _refuse_nul(text: str) -> None:
    if "\0" in unquote(text):
        # The driver would connect with what is before it, to somewhere else.
        raise ConfigurationError("the URL holds a NUL")


def read_server_url(url: str | URL, *, example: str, port: int) -> URL:
    """The URL of a server, or of several that keep the same.

    Several are written as ``host1:port1,host2:port2``, or as libpq has it, after a
    ``?``: ``host=host1,host2&port=port1,port2``.

    Args:
        url: As users write it, or in its parts already.
        example: What one looks like, for the error.
        port: What is meant where several hosts have none.

    Returns:
        The URL; several hosts and their ports as libpq has them.

    Raises:
        ConfigurationError: It is none.
    """
    written: Sequence[str] = ()
    if isinstance(url, str) and (parts := _PARTS.match(url)) and "," in parts[2]:
        # SQLAlchemy takes them for one host.
        _refuse_nul(parts[2])
        written = parts[2].split(",")
        url = parts[1] + parts[3]
    parsed = read_url(url, example=example)
    hosts = written or _listed(parsed.query.get("host", parsed.host))
    if any("@" in each for each in hosts):
        raise ConfigurationError(
            "the URL's host holds an @: write one that belongs to the password as %40"
        )
    ports = _listed(parsed.query.get("port", parsed.port))
    if len(hosts) > 1 or len(ports) > 1:
        return _with_hosts(parsed, hosts, ports or [str(port)])
    if not all(map(_is_port, ports)):
        raise ConfigurationError(f"the URL names {_NO_PORT}")
    return parsed


def _listed(given: str | int | Sequence[str] | None) -> Sequence[str]:
    if given is None:
        return []
    return str(given).split(",") if isinstance(given, str | int) else given


def _with_hosts(url: URL, hosts: Sequence[str], ports: Sequence[str]) -> URL:
    if len(ports) == 1:
        ports = [*ports] * len(hosts)
    if len(ports) != len(hosts):
        raise ConfigurationError(
            f"the URL has {len(hosts)} hosts and {len(ports)} ports: write"
            " host1:port1,host2:port2"
        )
    servers = [_server(*each) for each in zip(hosts, ports, strict=True)]
    several = {
        "host": ",".join(host for host, _ in servers),
        "port": ",".join(port for _, port in servers),
    }
    return url.set(host=None, port=None, query={**url.query, **several})


def _server(host: str, port: str) -> tuple[str, str]:
    """A host and its port, of which the one that is written beside it counts."""
    if (bracketed := _BRACKETED.fullmatch(host)) is not None:
        host, port = bracketed[1], bracketed[2] or port
    elif host.count(":") == 1:
        host, _, own = host.partition(":")
        port = own or port
    if not host:
        raise ConfigurationError("the URL names several hosts, and one is empty")
    if not _is_port(port):
        raise ConfigurationError(f"the URL names several hosts, and {_NO_PORT}")
    return unquote(host), port


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and 0 < int(text) <= _HIGHEST_PORT
