"""Stand-ins, calendars and strategies for the tests of compound triggers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from go_scheduler.formatting import shown
from go_scheduler.triggers import CronTrigger, Trigger
from go_scheduler.triggers.calendars import Calendar, DateCalendar, register_calendar
from go_scheduler.triggers.combining import AnyOfTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
END = datetime.max.replace(tzinfo=UTC)
BEGINNING = datetime.min.replace(tzinfo=UTC)
ZONES = ("UTC", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe")
DAILY = CronTrigger("0 9 * * *", "America/New_York")
HOURLY = CronTrigger("0 * * * *", "America/New_York")


class Weekends(Calendar):
    """A user's own calendar, in two lines."""

    def includes(self, day: date) -> bool:
        return day.weekday() >= 5


class Computed(Calendar):
    """Answers with whatever a function says."""

    def __init__(self, answer: Callable[[date], Any]) -> None:
        self.answer = answer

    def includes(self, day: date) -> bool:
        return self.answer(day)  # type: ignore[no-any-return]


register_calendar("tests.weekends", Weekends())
register_calendar("tests.june", Computed(lambda day: day.month == 6))
register_calendar("tests.always", Computed(lambda day: True))
register_calendar("tests.never", Computed(lambda day: False))
register_calendar(
    "tests.may-2030", DateCalendar([(date(2030, 5, 1), date(2030, 5, 31))])
)


@dataclass(frozen=True)
class ListedTrigger(Trigger):
    """A third party's trigger that has no hash; it counts how often it is asked."""

    kind: ClassVar[str] = "tests.listed"
    asked: ClassVar[list[datetime]] = []

    times: list[str] = field(default_factory=list, hash=True)
    timezone: str | None = None

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
        times = map(datetime.fromisoformat, self.times)
        return min((each for each in times if each > after), default=None)

    def warnings(self, now: datetime) -> Sequence[str]:
        return [f"{len(self.times)} times"]


@dataclass(frozen=True)
class SteadyTrigger(Trigger):
    """A third party's trigger that is quick: every so many seconds since 1970."""

    kind: ClassVar[str] = "tests.steady"
    asked: ClassVar[list[datetime]] = []

    seconds: int
    offset: int = 0

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
        epoch = datetime(1970, 1, 1, tzinfo=UTC) + self.offset * SECOND
        every = self.seconds * SECOND
        return epoch + ((after - epoch) // every + 1) * every


@dataclass(frozen=True)
class WrongTrigger(Trigger):
    """A third party's trigger that does something wrong from a time on."""

    kind: ClassVar[str] = "tests.wrong"

    what: str = "raises"
    since: datetime = BEGINNING

    def next_fire_time(self, after: datetime) -> datetime | None:
        if after < self.since:
            return after + DAY
        if self.what == "raises":
            raise RuntimeError("out of order")
        answers: dict[str, Any] = {
            "is early": after - DAY,
            "stands still": after,
            "is naive": (after + DAY).replace(tzinfo=None),
            "is text": "tomorrow",
        }
        return answers[self.what]  # type: ignore[no-any-return]

    def anchored(self, now: datetime) -> Any:
        return {"anchors text": "me", "anchors another": WrongTrigger("x")}.get(
            self.what, self
        )


class NamelessTrigger(ListedTrigger):
    """Cannot be stored."""


def listed(*times: datetime, timezone: str | None = None) -> ListedTrigger:
    return ListedTrigger([each.isoformat() for each in times], timezone)


def days_of(calendar: Calendar, first: date, last: date) -> list[date]:
    days = map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
    return [day for day in days if calendar.includes(day)]


def days_of_year(calendar: Calendar, year: int) -> list[str]:
    found = days_of(calendar, date(year, 1, 1), date(year, 12, 31))
    return [f"{day:%m-%d}" for day in found]


def nested(trigger: Trigger, levels: int) -> Trigger:
    for _ in range(levels):
        trigger = AnyOfTrigger([trigger])
    return trigger


def brief(value: object) -> str:
    # Without its address, which is another one in each process.
    text = re.sub(r" at 0x[0-9a-f]+", "", shown(value))
    return text.encode("ascii", "replace").decode()[:40]


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to see")


LONG = "x" * 1_000_000
