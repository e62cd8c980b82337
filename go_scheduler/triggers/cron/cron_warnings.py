"""Cron expressions that people get wrong: what they do, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.triggers.cron.fields import numbers
from go_scheduler.triggers.words import MONTHS, listed
from go_scheduler.triggers.years.cells import MONTH_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from go_scheduler.triggers.cron.fields import CronFields

_SIZES = {"second": 60, "minute": 60, "hour": 24}
_WHOLE = {"second": "minute", "minute": "hour", "hour": "day"}


def warnings(texts: Mapping[str, str], fields: CronFields) -> Iterator[str]:
    """Sentences about what the author of a cron expression may not have meant.

    Args:
        texts: The text of each field by its name.
        fields: What they match.
    """
    yield from _either_day(texts, fields)
    for name, size in _SIZES.items():
        yield from _uneven_steps(name, texts[name], size)
    yield from _short_months(texts["day-of-month"], fields)


def _either_day(texts: Mapping[str, str], fields: CronFields) -> Iterator[str]:
    if fields.days.either:
        of_month, of_week = texts["day-of-month"], texts["day-of-week"]
        yield (
            f"day-of-month {of_month} and day-of-week {of_week} are both set, so it"
            " fires on the days that match either of them; write * for one of them,"
            " or combine two triggers to fire only on days that match both"
        )


def _uneven_steps(name: str, text: str, size: int) -> Iterator[str]:
    for item in text.split(","):
        start, _, step = item.partition("/")
        if not step or "-" in start or size % int(step) == 0:
            continue
        whole = _WHOLE[name]
        smaller = max(each for each in range(1, int(step)) if size % each == 0)
        yield (
            f"{name} {item} begins anew with every {whole}, so the last step before"
            f" that is another one: {step} does not divide {size}; write a step that"
            f" does, such as */{smaller}, or use an IntervalTrigger"
        )


def _short_months(text: str, fields: CronFields) -> Iterator[str]:
    months = numbers(fields.months)
    for item in text.split(","):
        day = item.removesuffix("W")
        if day not in ("29", "30", "31"):
            continue
        if months == [2]:
            yield (
                "29 february exists in leap years alone; write L for the last day of"
                " february"
            )
        elif short := [each for each in months if MONTH_LENGTHS[each - 1] < int(day)]:
            names = listed([MONTHS[each - 1] for each in short])
            yield (
                f"day-of-month {item} passes over the months that have no such day:"
                f" {names}; write L for the last day of every month"
            )
