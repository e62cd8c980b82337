"""Loopback: what belongs to this machine alone, and what is taken for it (pure)."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.refusals import not_here, wrong_type

if TYPE_CHECKING:
    from collections.abc import Collection

    from fastapi import Request
    from starlette.datastructures import Headers

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_LONGEST_SHOWN = 40
_PROXIED = ("forwarded", "via", "x-real-ip")
_BODIES = (
    "application/json",
    "application/merge-patch+json",
    "application/jsonl",
    "application/x-ndjson",
)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's, and nobody else's."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def may_bind_openly(host: str) -> bool:
    """Whether a server may be bound to this host without authentication.

    ```python
    if access is None and not may_bind_openly(host):
        ...  # refuse to start: set up API keys or an issuer first
    ```

    Args:
        host: A name or address, as ``--host`` has it.
    """
    return is_loopback(host)


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
    """Refuse to send there what says who asks.

    Args:
        url: Of a server.
        unless: By what one may all the same, for the message.

    Raises:
        ConfigurationError: Others could read it on its way.
    """
    if not is_safe_url(url):
        raise ConfigurationError(
            f"what says who you are is sent by https alone, or to this machine:"
            f" not to {url}{unless}"
        )


def check_local(request: Request, origins: Collection[str] = ()) -> None:
    """Refuse what may come from elsewhere, or from a page that a browser shows.

    Without authentication every program on this machine may do everything, but no
    other machine, and no site that somebody here looks at: not through a browser, by
    whatever name the site gives this machine, nor through a proxy.

    Args:
        request: What was sent; its body is not read.
        origins: Sites whose pages may ask all the same, such as
            ``http://localhost:3000``.

    Raises:
        Problem: 403, it may be another's; 415, its body is one that any page may send.
    """
    check_here(request, origins)
    _check_body(request.headers)


def check_here(request: Request, origins: Collection[str] = ()) -> None:
    """Do what ``check_local`` does, but for the body.

    Raises:
        Problem: 403, it may be another's.
    """
    if request.client is not None and not is_loopback(request.client.host):
        raise not_here("without authentication only this machine is answered")
    headers = request.headers
    host = _check_host(headers)
    _check_proxies(headers)
    _check_origin(headers, f"{request.scope['scheme']}://{host}", origins)


def _check_host(headers: Headers) -> str:
    given = headers.getlist("host")
    match = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    if match is None or not is_loopback(match[1]):
        raise not_here(
            "without authentication the Host must be localhost, or an address of this"
            " machine alone"
        )
    return given[0]


def _check_proxies(headers: Headers) -> None:
    for name in headers:
        if name in _PROXIED or name.startswith("x-forwarded-"):
            raise not_here(
                "without authentication nothing is taken from a proxy, and"
                f" {name[:_LONGEST_SHOWN]} is from one"
            )


def _check_origin(headers: Headers, own: str, origins: Collection[str]) -> None:
    given = headers.getlist("origin")
    if given and all(each in origins for each in given):
        return
    if any(each.lower() != own.lower() for each in given):
        raise not_here("without authentication no page of another origin is answered")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise not_here("without authentication no page of another site is answered")


def _check_body(headers: Headers) -> None:
    has_body = (
        headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    )
    given = headers.get("content-type")
    if given is None and not has_body:
        return
    if (given or "").partition(";")[0].strip().lower() not in _BODIES:
        raise wrong_type(_BODIES)
