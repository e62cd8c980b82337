"""A definition is anchored, asked for its first fire time, or refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pytest

from go_scheduler.client import Client
from go_scheduler.client.scheduling import next_after_end, prepare
from go_scheduler.errors import InvalidTriggerError, UnknownTriggerError
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, HOURLY, WAITING, definition
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    AnyOfTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Trigger,
    UnknownTrigger,
)
from go_scheduler.triggers.base import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.json import JSON

ELSEWHERE = timezone(timedelta(hours=5, minutes=45))


@dataclass(frozen=True)
class SaysTrigger(Trigger):
    """Answers what it is told to, and raises it if it is an error."""

    kind: ClassVar[str] = "tests.preparation.says"

    answer: object = None

    def next_fire_time(self, after: datetime) -> datetime | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@dataclass(frozen=True)
class StateTrigger(SaysTrigger):
    """Stores a state of its own choice."""

    kind: ClassVar[str] = "tests.preparation.state"

    state: object = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> Mapping[str, JSON]:
        return self.state  # type: ignore[return-value]


class KindlessTrigger(Trigger):
    def next_fire_time(self, after: datetime) -> datetime | None:
        return None


@dataclass(frozen=True)
class ForgetfulTrigger(Trigger):
    """Is compared by what anchoring fills in."""

    kind: ClassVar[str] = "tests.preparation.forgetful"

    since: datetime | None = None

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None

    def anchored(self, now: datetime) -> Self:
        return replace(self, since=now)


@dataclass(frozen=True)
class AnchoredTrigger(ForgetfulTrigger):
    kind: ClassVar[str] = "tests.preparation.anchored"

    since: datetime | None = field(default=None, compare=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + HOUR


class NoTrigger(ForgetfulTrigger):
    kind: ClassVar[str] = "tests.preparation.none"

    def anchored(self, now: datetime) -> Self:
        return None  # type: ignore[return-value]


class HalfHourTrigger(Trigger):
    """Answers in another time zone than UTC."""

    kind: ClassVar[str] = "tests.preparation.half_hour"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return (after + HOUR / 2).astimezone(ELSEWHERE)

    def to_dict(self) -> Mapping[str, JSON]:
        return {}

    def __eq__(self, other: object) -> bool:
        return type(other) is HalfHourTrigger

    def __hash__(self) -> int:
        return 1


@dataclass(frozen=True)
class NineTrigger(Trigger):
    """Answers nine o'clock, and also when it is asked at nine."""

    kind: ClassVar[str] = "tests.preparation.nine"

    def next_fire_time(self, after: datetime) -> datetime | None:
        nine = after.replace(hour=9, minute=0, second=0, microsecond=0)
        return nine if after <= nine else nine + timedelta(days=1)


class OpenTrigger(ForgetfulTrigger):
    """Cannot tell what follows its first fire time."""

    kind: ClassVar[str] = "tests.preparation.open"

    def next_fire_time(self, after: datetime) -> datetime | None:
        if after >= START + HOUR:
            raise UndecidedError("it stays open")
        return START + HOUR

    def anchored(self, now: datetime) -> Self:
        return self


class PatientTrigger(DelayTrigger):
    kind: ClassVar[str] = "tests.preparation.patient"


def scheduled(trigger: Trigger, **values: Any) -> TaskDefinition:
    """What a trigger's definition is when it was scheduled at ``START``."""
    client = Client(MemoryStore(ManualClock()))
    return client.schedule(TaskDefinition(trigger=trigger, **values))


@pytest.mark.parametrize(
    ("trigger", "first"),
    [
        (HOURLY, START + HOUR),
        (IntervalTrigger(HOUR), START + HOUR),
        (AnchoredTrigger(), START + HOUR),
        # A time that has passed is one.
        (ExecuteOnceTrigger(START - HOUR), START - HOUR),
        (SaysTrigger(), None),
        (HalfHourTrigger(), START + HOUR / 2),
        # What follows its first fire time may be open.
        (OpenTrigger(), START + HOUR),
        (StateTrigger(), None),
    ],
)
def test_a_definition_is_given_its_first_fire_time_in_utc(
    trigger: Trigger, first: datetime | None
) -> None:
    given = START + 100 * HOUR
    prepared = scheduled(trigger, next_fire_time=given)
    assert prepared.trigger == trigger
    assert prepared.next_fire_time == first
    assert first is None or prepared.next_fire_time.tzinfo is UTC  # type: ignore[union-attr]


def test_a_trigger_without_an_anchor_counts_from_now() -> None:
    interval = scheduled(IntervalTrigger(HOUR)).trigger
    assert isinstance(interval, IntervalTrigger)
    assert interval.anchored_at == START
    foreign = scheduled(AnchoredTrigger()).trigger
    assert isinstance(foreign, AnchoredTrigger)
    assert foreign.since == START


NOT_LATER = ("NineTrigger.next_fire_time(", "which is not later")
KEPT = "the state of StateTrigger(answer=None)"
ANOTHER = "is another trigger when stored and loaded"


@pytest.mark.parametrize(
    ("trigger", "messages"),
    [
        (NineTrigger(), NOT_LATER),
        (AnyOfTrigger([NineTrigger(), ExecuteOnceTrigger(START)]), NOT_LATER),
        (SaysTrigger(ZeroDivisionError("no")), ["raised ZeroDivisionError('no')"]),
        (SaysTrigger(InvalidTriggerError("never")), ["never"]),
        *(
            (SaysTrigger(answer), ["what ", "SaysTrigger returned"])
            for answer in ("tomorrow", 5, START.replace(tzinfo=None))
        ),
        (KindlessTrigger(), ["KindlessTrigger needs a `kind`"]),
        (
            ForgetfulTrigger(),
            ["is not equal to itself when anchored", "must be compare=False"],
        ),
        (NoTrigger(), ["raised AttributeError"]),
        (PatientTrigger(HOUR), ["which only this package's own"]),
        (StateTrigger(state={"a": START}), [KEPT, "['a'] is a datetime, which JSON"]),
        (StateTrigger(state={"a": float("nan")}), [KEPT, "['a'] is nan, which JSON"]),
        (StateTrigger(state={"a": "\0"}), [KEPT, "['a'] holds a NUL, which no"]),
        (StateTrigger(state={"a": "x" * 70_000}), [KEPT, "at most 65536 are kept"]),
        (StateTrigger(state=[]), [KEPT, "must be a mapping"]),
        (StateTrigger(state={"answer": 5}), [ANOTHER]),
        (StateTrigger(state={"other": 5}), [ANOTHER, "write to_dict() and from_dict"]),
    ],
)
def test_a_trigger_that_no_store_can_keep_or_that_cannot_answer_is_refused(
    trigger: Trigger, messages: Sequence[str]
) -> None:
    with pytest.raises(InvalidTriggerError) as caught:
        scheduled(trigger)
    assert all(each in str(caught.value) for each in messages), caught.value


def test_a_trigger_that_this_process_does_not_know_is_refused() -> None:
    with pytest.raises(UnknownTriggerError, match="not installed"):
        scheduled(UnknownTrigger("gone", {}, "not installed"))


def test_after_the_end_of_a_run_only_a_trigger_that_waits_is_asked_again() -> None:
    assert next_after_end(definition(trigger=WAITING), START) == START + HOUR
    silent = SaysTrigger(ZeroDivisionError("asked"))
    assert next_after_end(definition(trigger=silent), START) is None


def test_what_may_have_passed_already_is_overdue() -> None:
    now_and_later = (START, START + HOUR)
    once = TaskDefinition(trigger=ExecuteOnceTrigger(START + HOUR))
    assert prepare(once, *now_and_later).overdue
    assert not prepare(once, START).overdue
