"""From a parsed phrase to its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.triggers.phrases.parts import AllOf, AnyOf, Every, Moment, Parts
from go_scheduler.triggers.phrases.phrase_words import PhraseError, Word, ambiguous
from go_scheduler.triggers.phrases.reading_bounds import BoundsReader
from go_scheduler.triggers.phrases.reading_days import DaysReader
from go_scheduler.triggers.words import WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lark import Token

    from go_scheduler.triggers.phrases.said import Said


class PartsReader(DaysReader, BoundsReader):
    """Reads a parsed phrase from its leaves up; each trigger in it is ``Parts``."""

    def __default_token__(self, token: Token) -> object:
        return token.value

    def start(self, children: list[Any]) -> object:
        """The whole phrase."""
        return children[0]

    def any_of(self, children: list[Any]) -> object:
        """Several phrases, of which each says when."""
        return AnyOf(children[::2])

    def all_of(self, children: list[Any]) -> object:
        """Several phrases that have to agree."""
        return AllOf(children[1::2])

    def trigger(self, children: list[Any]) -> Parts:
        """One phrase."""
        parts = Parts()
        for each in children:
            if "step" in each:
                raise PhraseError("write 'every' before a number of units")
            if "every" in each and parts.count is not None:
                raise PhraseError(_times_before_every(parts.count))
            parts.add(each)
        return parts

    def group(self, children: list[Any]) -> Said:
        """A phrase in brackets."""
        return {"group": children[1]}

    def every(self, children: list[Any]) -> Said:
        """``every`` and what follows it."""
        first, *rest = children
        if first.type == "ADVERB":
            return {"every": Every(1, first.value)}
        if first.type == "OTHER":
            return _every_other(rest[0]["weekdays"])
        if first.type == "NIGHTLY":
            return {"every": Every(1, "day"), "part": "night"}
        if first.type == "DAY_PARTS":
            return {"every": Every(1, "day"), "part": first.value}
        match rest:
            case [Word("UNIT", unit)]:
                return {"every": Every(1, unit)}
            case [Word("NUMBER", count), Word("UNIT", unit)]:
                return {"every": Every(count, unit)}
            case [Word("HALF", count), Word("UNIT", unit)]:
                return {"every": Every(count, unit)}
            case [Word("OTHER"), Word("UNIT", unit)]:
                return {"every": Every(2, unit)}
            case [Word("OTHER"), {"weekdays": days}]:
                return _every_other(days)
            case [Word("PART", part)]:
                return {"every": Every(1, "day"), "part": part}
            case [{"nth": _} as said]:
                return _every_nth(said)
            case [{"months": months}]:
                return {"months": months, "every": Every(1, "year")}
            case [{"step": step}]:
                return {"every": step}
            case [{"dates": dates}]:
                return {"dates": dates, "every": Every(1, "year")}
        return {"weekdays": rest[0]["weekdays"]}

    def often(self, children: list[Any]) -> Said:
        """So many times in each unit, which are named as well."""
        count, *number, unit = children
        if any(each.type == "NUMBER" and each.value != 1 for each in number):
            raise PhraseError("write how many times 'a day', 'a week' or 'a month'")
        return {"often": count.value, "every": Every(1, unit.value)}

    def day(self, children: list[Any]) -> Said:
        """One day, or one instant."""
        match children[-1]:
            case Word("TONIGHT"):
                return {"day": Moment(day=0), "part": "evening"}
            case Word("PART", part):
                return {"day": Moment(day=0), "part": part}
        return {"day": Moment(day=children[-1].value)}

    def later(self, children: list[Any]) -> Said:
        """How much later than now."""
        count, unit, *day = (
            each
            for each in children
            if each.type in ("NUMBER", "HALF", "UNIT", "TODAY")
        )
        length = Every(count.value, unit.value)
        if day and day[0].value:
            return {"later": _days_from(day[0].value, length)}
        return {"later": length}

    def delay(self, children: list[Any]) -> Said:
        """How long after each run."""
        return {"delay": Every(children[0].value, children[1].value)}


def _days_from(ahead: int, length: Every) -> Every:
    """How many days from today it is from another day on."""
    days = {"day": 1, "week": 7, "fortnight": 14}.get(length.unit)
    if days is None:
        raise PhraseError(
            "from another day than today only days and weeks can be counted"
        )
    return Every(length.number * days + ahead, "day")


def _every_other(days: frozenset[int]) -> Said:
    if len(days) == 5:
        raise PhraseError(
            ambiguous(
                "every other weekday",
                ("every monday, wednesday and friday", "every 2 weeks on weekdays"),
            )
        )
    return {"every": Every(2, "week"), "weekdays": days}


def _every_nth(said: Mapping[str, Any]) -> Said:
    """``every first monday``: of every month, unless it may mean a step as well."""
    if "every" in said or "months" in said:
        return said
    [nth, *more] = said["nth"]
    if more or nth.number in (1, -1):
        return {"nth": said["nth"], "every": Every(1, "month")}
    text = said["lone"]
    readings = [f"the {text} of every month"]
    if nth.weekdays is None:
        readings.insert(0, f"every {nth.number} days")
    elif len(nth.weekdays) == 1:
        day = WEEKDAYS[min(nth.weekdays)]
        readings.append(f"every {nth.number} weeks on {day}")
    raise PhraseError(ambiguous(f"every {text}", readings))


def _times_before_every(count: int) -> str:
    """The message for a number of times that may be those of each day or all."""
    if count == 1:
        return ambiguous("once", ("once every …", "every …, once"))
    in_all = f"every …, {count} times"
    return ambiguous(f"{count} times", (in_all, "every … at 09:00 and 17:00"))
