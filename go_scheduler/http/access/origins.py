"""Sites whose pages may call from a browser: none, but for those on a list."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware

from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from fastapi import FastAPI

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SENT = ("Authorization", "Content-Type", "If-Match", "If-None-Match")
_READ = ("ETag", "Location", "Retry-After", "WWW-Authenticate")


def checked_origins(origins: Collection[str]) -> frozenset[str]:
    """The origins of a configuration.

    Raises:
        ConfigurationError: One is none as browsers send them; ``*`` is none either.
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
    """Have browsers let pages of these sites read what is answered."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(origins),
            allow_methods=_METHODS,
            allow_headers=_SENT,
            expose_headers=_READ,
        )
