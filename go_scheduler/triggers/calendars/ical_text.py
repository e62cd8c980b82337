"""The text of an iCalendar file: read, checked, and split into events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icalendar import Event

MOST_BYTES = 2 * 1024 * 1024
"""The most bytes that an iCalendar file may have."""

_DEEPEST = 10


def read_text(source: object) -> str:
    """The text of an iCalendar file.

    Args:
        source: Text, bytes in UTF-8, or a path.

    Raises:
        InvalidTriggerError: It is none of these, cannot be read, or is too large.
    """
    if isinstance(source, Path):
        source = _read_file(source)
    if not isinstance(source, str | bytes):
        raise InvalidTriggerError(
            "an iCalendar file must be given as its text, its bytes, or a Path, not"
            f" {shown(source)}"
        )
    if len(source) > MOST_BYTES:
        raise InvalidTriggerError(
            f"the iCalendar file is larger than {MOST_BYTES // 1024**2} MiB; keep the"
            " events that matter"
        )
    if isinstance(source, bytes):
        try:
            source = source.decode()
        except UnicodeDecodeError as error:
            raise InvalidTriggerError(f"the iCalendar file: {error}") from None
    return source.removeprefix("\ufeff")


def split_events(text: str) -> Sequence[Event]:
    """The events of an iCalendar file, in their order.

    Raises:
        InvalidTriggerError: It is no iCalendar file, or not a whole one.
        ModuleNotFoundError: The extra ``calendars`` is not installed.
    """
    _check_structure(text)
    try:
        # It takes a quarter of a second to import, and few need it.
        from icalendar import Calendar, Event
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "iCalendar files need the extra 'calendars' of go_scheduler, which brings"
            f" {error.name}",
            name=error.name,
        ) from error

    try:
        # A text without an end of line would be taken for a path.
        calendars = Calendar.from_ical(f"{text}\r\n", multiple=True)
        components = [each for part in calendars for each in part.walk("VEVENT")]
    except Exception as error:
        raise InvalidTriggerError(
            f"the iCalendar file cannot be read: {str(error)[:200]}"
        ) from error
    return [each for each in components if isinstance(each, Event)]


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InvalidTriggerError(
            f"the iCalendar file cannot be read: {error}"
        ) from None


def _check_structure(text: str) -> None:
    """Refuse a file that is cut off, or whose parts overlap: the parser would not."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        word, _, name = line.rstrip().upper().partition(":")
        if word == "BEGIN":
            if (name == "VCALENDAR") == bool(opened) or len(opened) >= _DEEPEST:
                raise _misplaced(number, line)
            opened.append((name, number))
        elif word == "END" and (not opened or opened.pop()[0] != name):
            raise _misplaced(number, line)
    if opened:
        name, number = opened[-1]
        raise InvalidTriggerError(
            f"the iCalendar file: what begins in line {number}, {shown(name)}, never"
            " ends; it may have been cut off"
        )
    if "BEGIN:VCALENDAR" not in text.upper():
        raise InvalidTriggerError(
            "the iCalendar file has no BEGIN:VCALENDAR; it is of another kind"
        )


def _misplaced(number: int, line: str) -> InvalidTriggerError:
    return InvalidTriggerError(
        f"the iCalendar file: line {number}, {shown(line.strip())}, is out of place"
    )
