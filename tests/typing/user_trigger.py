"""User code that must type-check: a trigger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self, assert_type

from go_scheduler import CronTrigger, IntervalTrigger, TaskDefinition, Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class FullMoonTrigger(Trigger):
    """Has what every trigger has to have, and no more."""

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


def use(at: datetime) -> None:
    assert_type(FullMoonTrigger(hour=23).next_fire_time(at), datetime | None)
    assert_type(FullMoonTrigger().anchored(at), FullMoonTrigger)


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
