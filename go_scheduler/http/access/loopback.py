"""Checks of hosts, URLs, origins and requests: is it this machine, or a named one?"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.problems import Problem, not_allowed

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_LONGEST_SHOWN = 40
_PROXIED = ("forwarded", "via", "x-real-ip")


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a name or address is a loopback one."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def is_safe_url(url: object) -> bool:
    """Whether secrets may be sent there: by https, or to this machine."""
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def check_safe_url(url: str, *, unless: str = "") -> None:
    """Refuse to send a token to a URL where others could read it.

    Args:
        url: The URL of a server.
        unless: The way to send it anyway, for the message.

    Raises:
        ConfigurationError: Others could read the token.
    """
    if not is_safe_url(url):
        raise ConfigurationError(
            f"what says who you are is sent by https alone, or to this machine:"
            f" not to {url}{unless}"
        )


def checked_origins(origins: Collection[str]) -> frozenset[str]:
    """Check the origins of a configuration.

    Raises:
        ConfigurationError: An origin is not as browsers send it; ``*`` is none.
    """
    if isinstance(origins, str):
        raise ConfigurationError(f"origins must be a list: {shown(origins)}")
    for each in origins:
        parts = urlsplit(each)
        whole = f"{parts.scheme}://{parts.netloc}"
        if parts.scheme not in ("http", "https") or not parts.netloc or each != whole:
            raise ConfigurationError(
                "an origin is written as browsers send it, such as"
                f" https://tasks.example.org: {shown(each)}"
            )
    return frozenset(origins)


def check_local(request: Request, origins: Collection[str] = ()) -> None:
    """Refuse a request of another machine, of a proxy, or of a page in a browser.

    Without authentication every program on this machine may do everything. A web site
    must not: neither through a browser, whatever name it gives this machine (DNS
    rebinding), nor through a proxy.

    Args:
        request: The request; its body is not read.
        origins: Sites whose pages may call, such as ``http://localhost:3000``.

    Raises:
        Problem: 403, it may come from elsewhere.
    """
    headers = request.headers
    if request.client is not None and not is_loopback(request.client.host):
        raise _not_here("only this machine is answered")
    hosts = headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None or not is_loopback(match[1]):
        raise _not_here(
            "the Host must be localhost, or an address of this machine alone"
        )
    for name in headers:
        if name in _PROXIED or name.startswith("x-forwarded-"):
            raise _not_here(
                f"nothing is taken from a proxy, and {name[:_LONGEST_SHOWN]} is from"
                " one"
            )
    sent = headers.getlist("origin")
    if sent and all(each in origins for each in sent):
        return
    own = f"{request.scope['scheme']}://{hosts[0]}"
    if any(each.lower() != own.lower() for each in sent):
        raise _not_here("no page of another origin is answered")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise _not_here("no page of another site is answered")


def _not_here(detail: str) -> Problem:
    return not_allowed("not-local", f"without authentication {detail}")
