"""User code that must type-check: a trigger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self, assert_type

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    TaskDefinition,
    Trigger,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class FullMoonTrigger(Trigger):
    """The six lines of the README."""

    kind: ClassVar[str] = "typing.full_moon"

    hour: int = 22

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + timedelta(days=29.53, hours=self.hour)


@dataclass(frozen=True, slots=True)
class WorkdayTrigger(Trigger):
    """Overwrites all there is to overwrite."""

    kind: ClassVar[str] = "typing.workday"
    recurring: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    every: timedelta
    since: datetime | None = field(default=None, compare=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + self.every

    def first_fire_time(self, now: datetime) -> datetime | None:
        return now

    def anchored(self, now: datetime) -> Self:
        return replace(self, since=now)

    def to_dict(self) -> Mapping[str, list[int]]:
        return {"every": [self.every.days, self.every.seconds]}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        return cls(timedelta(minutes=len(state)))


def definitions(at: datetime, zone: ZoneInfo) -> list[TaskDefinition]:
    triggers: list[Trigger] = [
        FullMoonTrigger(hour=23),
        WorkdayTrigger(timedelta(days=1)),
        CronTrigger("0 9 * * mon-fri"),
        CronTrigger("0 9 * * mon-fri", timezone="Europe/Vienna"),
        CronTrigger("0 9 * * mon-fri", timezone=zone),
        IntervalTrigger(timedelta(minutes=5)),
        IntervalTrigger(timedelta(minutes=5), anchor=at),
        IntervalTrigger(hours=1, minutes=0.5, anchor=at),
        CronTrigger(hour=9, minute="*/5", day_of_week="mon-fri", timezone=zone),
        DelayTrigger(timedelta(minutes=5)),
        DelayTrigger(seconds=5),
        ExecuteOnceTrigger(at),
    ]
    assert_type(triggers[0].next_fire_time(at), datetime | None)
    assert_type(FullMoonTrigger().anchored(at), FullMoonTrigger)
    return [TaskDefinition(trigger=trigger) for trigger in triggers]


class NoTrigger(Trigger):
    """Forgets the one method."""

    kind: ClassVar[str] = "typing.none"


def wrong() -> None:
    NoTrigger()  # type: ignore[abstract]
    TaskDefinition(trigger="* * * * *")  # type: ignore[arg-type]
    IntervalTrigger(300)  # type: ignore[arg-type]
    IntervalTrigger(minutes="5")  # type: ignore[arg-type]
    CronTrigger(week=9)  # type: ignore[call-arg]
    CronTrigger(day_of_week=1)  # type: ignore[arg-type]
