"""English phrases for schedules, read by a fixed grammar: nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.local_time import zone_key
from go_scheduler.triggers.phrases.building import Present
from go_scheduler.triggers.phrases.words import LONGEST, PhraseError

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo


@write_instead('parse_phrase("every weekday at 9:30", "Europe/Berlin")')
def parse_phrase(
    text: str, timezone: str | ZoneInfo = "UTC", now: datetime | None = None
) -> Trigger:
    """The trigger that an English phrase describes.

    It is one of this package's triggers. Some phrases count from the present time, such
    as ``every other tuesday at 9:34am`` from a certain Tuesday. This anchor is not part
    of the trigger's value. It stays the same from the first ``schedule()`` on. The
    trigger's ``describe()`` is a phrase for the same trigger.

    Args:
        text: At most 512 characters.
        timezone: Where its times are read: an IANA name, or a ``ZoneInfo``.
        now: The present time, aware; needed by phrases that count from it.

    Raises:
        InvalidTriggerError: The text does not fit the grammar, or has several meanings.
            The message says how much was understood, or which the meanings are.
    """
    if not isinstance(text, str):
        raise InvalidTriggerError(f"a phrase must be text, not {shown(text)}")
    if len(text) > LONGEST:
        raise InvalidTriggerError(
            f"a phrase has at most {LONGEST} characters, not {len(text)}:"
            f" {text[:40]!r}..."
        )
    key = zone_key(timezone)
    # The parser library is slow to import, and of no use without phrases.
    from go_scheduler.triggers.phrases.reading import read_phrase

    try:
        present = Present(key, None if now is None else utc(now, name="now"))
        return read_phrase(text, present)
    except PhraseError as error:
        if _is_cron(text):
            raise InvalidTriggerError(
                f"phrase {shown(text)}: it is a cron expression: use CronTrigger,"
                " --cron on the command line, or the field cron over HTTP"
            ) from None
        message = f"{error}{_understood(text, error.understood)}"
    except ConfigurationError as error:
        message = str(error)
    except OverflowError:
        message = "it lies outside of the years 1 to 9999"
    raise InvalidTriggerError(f"phrase {shown(text)}: {message}")


def _is_cron(text: str) -> bool:
    if "*" in text or text.startswith("@"):
        return True
    try:
        CronTrigger(text)
    except InvalidTriggerError:
        return False
    return True


def _understood(text: str, end: int | None) -> str:
    if end is None:
        return ""
    begin = text[:end].strip()
    return f"; understood so far: {begin!r}" if begin else "; nothing was understood"
