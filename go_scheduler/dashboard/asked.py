"""What is asked for by the query of a page, or a form: checked, or refused as such."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from go_scheduler.http.problems import invalid
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from go_scheduler.json import JSON

    Given = Mapping[str, str]

_Word = TypeVar("_Word", bound=str)
_YEARS = range(1900, 9900)
_LONGEST = 10_000


def text(given: Given, name: str) -> str | None:
    """A text without what is around it; None: nothing was given.

    Raises:
        Problem: 422, it is too long, or nothing that a store can keep.
    """
    found = given.get(name, "").strip()
    if len(found) > _LONGEST or "\0" in found:
        raise invalid(name, f"it must be a text of at most {_LONGEST} characters")
    return found or None


def word(given: Given, name: str, words: Collection[_Word]) -> _Word | None:
    """One of some words; None: nothing was given.

    Raises:
        Problem: 422, it is another.
    """
    found = text(given, name)
    for each in words:
        if each == found:
            return each
    if found is None:
        return None
    raise invalid(name, f"it must be one of {', '.join(words)}, not {shown(found)}")


def instant(given: Given, name: str) -> datetime | None:
    """A time, of UTC if it says nothing else; None: nothing was given.

    Raises:
        Problem: 422, it is none, or far from any that something fires at.
    """
    found = text(given, name)
    if found is None:
        return None
    try:
        # A + that nobody wrote as %2B has become a space.
        at = datetime.fromisoformat(found.replace(" ", "+") if "T" in found else found)
        if at.year in _YEARS:
            return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(
        name, f"it must be a time such as 2030-01-01T09:00, not {shown(found)}"
    )


def ids(given: Given, name: str, *, most: int) -> list[UUID]:
    """Ids with commas between them.

    Raises:
        Problem: 422, one is none, or they are too many.
    """
    found = [each for each in (text(given, name) or "").split(",") if each.strip()]
    if len(found) > most:
        raise invalid(name, f"it has {len(found)} ids; at most {most} are shown")
    try:
        return [UUID(each.strip()) for each in found]
    except ValueError:
        raise invalid(
            name, f"it must be ids with commas between them, not {shown(found)}"
        ) from None


def json_object(given: Given, name: str) -> Mapping[str, JSON] | None:
    """A JSON object; None: nothing was given.

    Raises:
        Problem: 422, it is none.
    """
    found = text(given, name)
    if found is None:
        return None
    try:
        value = json.loads(found)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        example = '{"a": 1}'
        raise invalid(
            name, f"it must be a JSON object such as {example}, not {shown(found)}"
        )
    return value
