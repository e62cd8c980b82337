"""Checks that a host, URL or request is of this machine (pure)."""

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


def check_local(request: Request, origins: Collection[str] = ()) -> None:
    """Refuse a request of another machine, of a proxy, or of a page in a browser.

    Without authentication every program on this machine may do everything. A web site
    must not: neither through a browser, whatever name it gives this machine (DNS
    rebinding), nor through a proxy.

    Args:
        request: The request; its body is not read.
        origins: Sites whose pages may call, such as ``http://localhost:3000``.

    Raises:
        Problem: 403, it may come from elsewhere; 415, any page may send such a body.
    """
    check_here(request, origins)
    _check_body(request.headers)


def check_here(request: Request, origins: Collection[str] = ()) -> None:
    """Do what ``check_local`` does, without the check of the body.

    Raises:
        Problem: 403, it may come from elsewhere.
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
