"""Which revision a request is about: ETag, If-Match, If-None-Match."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import Header

from go_scheduler.errors import ConflictError
from go_scheduler.http.problems import invalid

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.models import TaskDefinition

IfMatch = Annotated[
    str | None,
    Header(description="Only if it is as read: the `ETag` of that.", examples=['"3"']),
]
IfNoneMatch = Annotated[
    str | None, Header(description="`*`: only if there is none yet.", examples=["*"])
]

_TAG = r'(?:W/)?"[^"]*"'
_TAGS = re.compile(rf"\s*{_TAG}\s*(?:,\s*{_TAG}\s*)*")


def etag(definition: TaskDefinition) -> str:
    """The ETag of a definition: its revision."""
    return f'"{definition.revision}"'


def check_match(id: UUID, stored: TaskDefinition | None, given: str | None) -> None:
    """Refuse a request that is about another revision than the stored one.

    Args:
        id: The definition.
        stored: As it is; None: there is none.
        given: The If-Match of the request.

    Raises:
        ConflictError: It is.
        Problem: 422, that is no If-Match.
    """
    if given is None:
        return
    if given.strip() == "*":
        matches = stored is not None
    elif _TAGS.fullmatch(given):
        matches = stored is not None and etag(stored) in re.findall(_TAG, given)
    else:
        raise invalid(
            "If-Match", 'it must be an ETag as it was answered, such as "3", or *'
        )
    if not matches:
        tags = re.findall(r'"(\d{1,18})"', given)
        raise ConflictError(
            id,
            expected=int(tags[0]) if tags else None,
            revision=None if stored is None else stored.revision,
        )


def is_to_be_new(given: str | None) -> bool:
    """Whether an If-None-Match says that there is to be none.

    Raises:
        Problem: 422, it says something else.
    """
    if given is None:
        return False
    if given.strip() != "*":
        raise invalid("If-None-Match", "it must be *: only if there is none yet")
    return True
