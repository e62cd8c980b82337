"""Problems for callers who are not authorized; and the sites that CORS allows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.problems import Problem, not_allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI

REALM = "go_scheduler"


def without_token() -> Problem:
    """401 for a request without a token."""
    detail = "send a token or an API key: Authorization: Bearer …"
    return _challenge(401, "unauthenticated", "Not authenticated", detail)


def bad_token(reason: str) -> Problem:
    """401 for a token that is not taken.

    Args:
        reason: The reason, in ASCII without quotes, as a header repeats it.
    """
    error = f', error="invalid_token", error_description="{reason}"'
    detail = f"the token is not taken: {reason}"
    return _challenge(401, "token", "Not authenticated", detail, error)


def bad_request(reason: str) -> Problem:
    """400 for credentials that break RFC 6750."""
    error = ', error="invalid_request"'
    return _challenge(400, "credentials", "Bad credentials", reason, error)


def _challenge(
    status: int, slug: str, title: str, detail: str, error: str = ""
) -> Problem:
    headers = {"WWW-Authenticate": f'Bearer realm="{REALM}"{error}'}
    return Problem(status, slug, title, detail, headers=headers)


def provider_away() -> Problem:
    """503: the keys of the issuer cannot be fetched, so no token can be checked."""
    return Problem(
        503,
        "issuer-away",
        "Issuer away",
        "tokens cannot be checked at present: the issuer's keys cannot be fetched",
        headers={"Retry-After": "5"},
    )


def wrong_type(types: Sequence[str]) -> Problem:
    """415: only bodies of these types are read; the first is the usual one."""
    return Problem(
        415,
        "media-type",
        "Unsupported Media Type",
        f"a body must say Content-Type: {types[0]}",
        headers={"Accept": ", ".join(types)},
    )


def not_here(detail: str) -> Problem:
    """403: without authentication, nobody may send this request."""
    return not_allowed("not-local", detail)


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SENT = ("Authorization", "Content-Type", "If-Match", "If-None-Match")
_HEADERS_READ = ("ETag", "Location", "Retry-After", "WWW-Authenticate")


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


def allow_origins(app: FastAPI, origins: Collection[str]) -> None:
    """Allow pages of these sites to read answers (CORS)."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(origins),
            allow_methods=_METHODS,
            allow_headers=_SENT,
            expose_headers=_HEADERS_READ,
        )
