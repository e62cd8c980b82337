"""Forms that change something: read, and taken from pages of the dashboard alone."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict

from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

TOKEN = "csrf"
"""The field that has the token of the page."""

HEADER = "X-CSRF-Token"
"""The header that may have it instead."""

_MEDIA_TYPE = "application/x-www-form-urlencoded"
_MOST_BYTES = 256 * 1024
_MOST_FIELDS = 100

Form = ImmutableMultiDict[str, str]


async def read_form(request: Request) -> Form:
    """The fields of a form.

    Raises:
        Problem: 413, it is too large; 415 or 400, it is none.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise Problem(415, "media-type", "Unsupported media type", "this takes a form")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise Problem(
                413, "too-large", "Too large", f"a form has {_MOST_BYTES} bytes at most"
            )
    try:
        fields = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Problem(
            400, "malformed", "Bad Request", "the form cannot be read"
        ) from None
    return ImmutableMultiDict(fields)


def check_token(request: Request, form: Form, token: str) -> None:
    """Refuse a form that was made for somebody else, or for an earlier session.

    Raises:
        Problem: 403.
    """
    given = request.headers.get(HEADER) or form.get(TOKEN, "")
    if not secrets.compare_digest(given.encode(), token.encode()):
        raise Problem(
            403,
            "old-page",
            "This page is too old",
            "it was made for an earlier session: go back, load it anew and try again",
        )
