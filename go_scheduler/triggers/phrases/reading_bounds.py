"""From a parsed phrase to its times of day, and to where it begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lark import Token, Transformer

from go_scheduler.triggers.phrases.parts import Every, Moment, YearDay
from go_scheduler.triggers.phrases.phrase_words import PhraseError, Word
from go_scheduler.triggers.phrases.said import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.phrases.said import Said


class BoundsReader(Transformer[Token, object]):
    """Reads at what time, and within which bounds."""

    def at(self, children: list[Any]) -> Said:
        """Times of day."""
        return {"times": tuple(values_of(children))}

    def past(self, children: list[Any]) -> Said:
        """Minutes of the hour."""
        minutes = [each.value for each in children if each.type in ("MINUTE", "NUMBER")]
        units = [each.value for each in children if each.type == "UNIT"]
        if any(minute not in range(60) for minute in minutes):
            raise PhraseError(f"{minutes[0]} is no minute of the hour: write 0 to 59")
        if units not in ([], ["hour"], ["minute", "hour"]):
            raise PhraseError("only minutes past the hour can be given")
        return {"minutes": tuple(minutes)}

    def window(self, children: list[Any]) -> Said:
        """The first and the last time of day."""
        first, last = (
            each.value for each in children if each.type in ("TIME", "NUMBER")
        )
        return {"window": (first, last)}

    def part(self, children: list[Any]) -> Said:
        """In which part of the day."""
        return {"part": children[0].value}

    def aligned(self, children: list[Any]) -> Said:
        """By the clock on the wall, and at which minute of the hour."""
        minute = children[0].value
        return {"aligned": True} if minute is None else {"minutes": (minute,)}

    def except_weekdays(self, children: list[Any]) -> Said:
        """Not on some days of the week."""
        said = children[-1]
        return {"excluded": {name: said[name] for name in said if name != "lone"}}

    except_months = except_dates = except_group = except_weekdays

    def except_names(self, children: list[Any]) -> Said:
        """Not on the days of some calendars."""
        return {"excluded": {"names": children[-1]}}

    def only_names(self, children: list[Any]) -> Said:
        """On the days of some calendars."""
        return {"names": children[-1]}

    def names(self, children: list[Any]) -> Sequence[str]:
        """The names of calendars."""
        return tuple(values_of(children))

    def starting(self, children: list[Any]) -> Said:
        """When it starts."""
        return {"starting": children[1]}

    def span(self, children: list[Any]) -> Said:
        """When it starts and when it ends."""
        return {"starting": children[1], "until": children[3]}

    def until(self, children: list[Any]) -> Said:
        """When it ends."""
        return {"until": children[1]}

    def moment(self, children: list[Any]) -> Moment:
        """A day, a time of it, or both."""
        said: dict[str, Any] = {}
        for each in children:
            match each:
                case YearDay():
                    said["day"] = each
                case Word("TIME", value):
                    said["time"] = value
                case Word("INSTANT" | "DATE" | "TODAY" | "WEEKDAY", value):
                    said["day"] = value
        return Moment(**said)

    def in_duration(self, children: list[Any]) -> Moment:
        """So long from now."""
        return Moment(length=Every(children[1].value, children[2].value))

    def lasting(self, children: list[Any]) -> Said:
        """How long it goes on."""
        return {"lasting": Every(children[1].value, children[2].value)}

    def count(self, children: list[Any]) -> Said:
        """How many times it fires."""
        return {"count": children[0].value}

    def from_now(self, children: list[Any]) -> Said:
        """That it starts when it is scheduled."""
        return {"from_now": True}
