"""The times of day that a rule allows, apart from INTERVAL."""

from __future__ import annotations

from array import array
from itertools import groupby
from typing import TYPE_CHECKING

from go_scheduler.triggers.years.cells import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule


def allowed_periods(rule: RecurrenceRule) -> bytes | None:
    """The allowed hours, minutes or seconds of a day, a byte each; None: all."""
    parts = _parts_of_day(rule)[: _depth(rule)]
    if not any(values for values, *_ in parts):
        return None
    mask = b"\1"
    for values, number, _ in reversed(parts):
        blank = bytes(len(mask))
        mask = b"".join(
            mask if not values or each in values else blank for each in range(number)
        )
    return mask


def offsets_of(rule: RecurrenceRule) -> Sequence[int]:
    """The seconds at which it fires within each hour, minute, second, or day."""
    offsets = array("I", [0])
    for values, _, length in _parts_of_day(rule)[_depth(rule) :]:
        offsets = array(
            "I", (offset + value * length for offset in offsets for value in values)
        )
    if not rule.positions or rule.picks_days:
        return offsets
    return next((times for _, times in pick([0], offsets, rule.positions)), ())


def _parts_of_day(rule: RecurrenceRule) -> Sequence[tuple[Sequence[int], int, int]]:
    """The allowed hours, minutes and seconds; how many there are; how long."""
    return (rule.hours, 24, 3600), (rule.minutes, 60, 60), (rule.seconds, 60, 1)


def _depth(rule: RecurrenceRule) -> int:
    """How many parts of the day FREQ counts, so that they limit and do not expand."""
    return {24: 1, 1440: 2, DAY: 3}.get(rule.periods_per_day, 0)


def pick(
    days: Sequence[int], offsets: Sequence[int], positions: Sequence[int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """The times of a period that BYSETPOS picks, by day."""
    total = len(days) * len(offsets)
    indexes = {each - 1 if each > 0 else total + each for each in positions}
    kept = sorted(index for index in indexes if 0 <= index < total)
    for number, group in groupby(kept, key=lambda index: index // len(offsets)):
        yield days[number], [offsets[index % len(offsets)] for index in group]


def ones(mask: bytes) -> Iterator[int]:
    """The indexes at which a mask is 1; they may be few."""
    index = mask.find(1)
    while index >= 0:
        yield index
        index = mask.find(1, index + 1)
