"""A definition is anchored, asked for its first fire time, or refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, ClassVar, Self

import pytest

from go_scheduler.client.scheduling import next_after_end, prepare
from go_scheduler.errors import (
    ConfigurationError,
    InvalidTriggerError,
    UnknownTriggerError,
)
from go_scheduler.models import TaskDefinition
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
    from collections.abc import Mapping

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


class StateTrigger(SaysTrigger):
    """Stores a state of its own choice."""

    kind: ClassVar[str] = "tests.preparation.state"
    state: ClassVar[Mapping[str, object]] = {}

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


def refusal(trigger: Trigger) -> InvalidTriggerError:
    with pytest.raises(InvalidTriggerError) as caught:
        prepare(definition(trigger=trigger), START)
    return caught.value


def test_a_definition_is_given_its_first_fire_time() -> None:
    given = TaskDefinition(trigger=HOURLY)
    prepared = prepare(given, START)
    assert prepared == given
    assert prepared.next_fire_time == START + HOUR


@pytest.mark.parametrize(
    "trigger", [NineTrigger(), AnyOfTrigger([NineTrigger(), ExecuteOnceTrigger(START)])]
)
def test_a_trigger_that_answers_what_it_was_asked_about_is_refused(
    trigger: Trigger,
) -> None:
    message = str(refusal(trigger))
    assert "NineTrigger.next_fire_time(" in message
    assert "which is not later" in message


def test_a_trigger_that_stays_open_after_its_first_fire_time_is_not_refused() -> None:
    prepared = prepare(definition(trigger=OpenTrigger()), START)
    assert prepared.next_fire_time == START + HOUR


def test_a_next_fire_time_that_was_passed_is_not_taken() -> None:
    given = definition(START + 100 * HOUR)
    assert prepare(given, START).next_fire_time == START + HOUR


def test_a_trigger_without_an_anchor_counts_from_now() -> None:
    prepared = prepare(TaskDefinition(trigger=IntervalTrigger(HOUR)), START)
    trigger = prepared.trigger
    assert isinstance(trigger, IntervalTrigger)
    assert trigger.anchored_at == START
    assert prepared.next_fire_time == START + HOUR


def test_a_foreign_trigger_is_anchored_as_well() -> None:
    prepared = prepare(TaskDefinition(trigger=AnchoredTrigger()), START)
    assert isinstance(prepared.trigger, AnchoredTrigger)
    assert prepared.trigger.since == START
    assert prepared.next_fire_time == START + HOUR


def test_a_time_that_has_passed_is_a_first_fire_time() -> None:
    yesterday = START - timedelta(days=1)
    given = TaskDefinition(trigger=ExecuteOnceTrigger(yesterday))
    assert prepare(given, START).next_fire_time == yesterday


def test_a_trigger_that_never_fires_is_no_error() -> None:
    assert prepare(definition(trigger=SaysTrigger()), START).next_fire_time is None


def test_the_revision_stays_for_the_store_to_check() -> None:
    assert prepare(replace(definition(), revision=5), START).revision == 5


def test_what_is_no_definition_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be a TaskDefinition, not 'it'"):
        prepare("it", START)  # type: ignore[arg-type]


def test_a_trigger_that_raises_is_refused_with_its_error() -> None:
    error = refusal(SaysTrigger(ZeroDivisionError("by zero")))
    assert str(error).endswith("raised ZeroDivisionError('by zero')")
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_what_the_trigger_refuses_itself_is_told_as_it_is() -> None:
    assert str(refusal(SaysTrigger(InvalidTriggerError("never")))) == "never"


@pytest.mark.parametrize("answer", ["tomorrow", 5, datetime(2030, 1, 1)])  # noqa: DTZ001
def test_a_first_fire_time_that_is_none_is_refused(answer: object) -> None:
    assert "what tests.client.test_preparation.SaysTrigger returned" in str(
        refusal(SaysTrigger(answer))
    )


def test_a_first_fire_time_is_kept_in_utc() -> None:
    prepared = prepare(definition(trigger=HalfHourTrigger()), START)
    assert prepared.next_fire_time == START + HOUR / 2
    assert prepared.next_fire_time is not None
    assert prepared.next_fire_time.tzinfo is UTC


def test_a_trigger_without_a_kind_is_refused() -> None:
    assert "KindlessTrigger needs a `kind`" in str(refusal(KindlessTrigger()))


def test_anchoring_must_not_change_what_a_trigger_equals() -> None:
    message = str(refusal(ForgetfulTrigger()))
    assert "is not equal to itself when anchored" in message
    assert "must be compare=False" in message


def test_anchoring_must_return_a_trigger() -> None:
    assert "raised AttributeError" in str(refusal(NoTrigger()))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"answer": START}, "['answer'] is a datetime, which JSON cannot hold"),
        ({"answer": float("nan")}, "['answer'] is nan, which JSON cannot hold"),
        ({"answer": "\0"}, "['answer'] holds a NUL, which no database keeps"),
        ({"answer": "x" * 70_000}, "bytes as JSON; at most 65536 are kept"),
        ([], "must be a mapping"),
    ],
)
def test_a_state_that_no_store_can_keep_is_refused(
    monkeypatch: pytest.MonkeyPatch, state: object, message: str
) -> None:
    monkeypatch.setattr(StateTrigger, "state", state)
    error = str(refusal(StateTrigger()))
    assert "the state of StateTrigger(answer=None)" in error
    assert message in error


@pytest.mark.parametrize("state", [{"answer": 5}, {"other": 5}])
def test_a_trigger_that_is_another_when_loaded_is_refused(
    monkeypatch: pytest.MonkeyPatch, state: object
) -> None:
    monkeypatch.setattr(StateTrigger, "state", state)
    assert "is another trigger when stored and loaded" in str(refusal(StateTrigger()))


def test_a_trigger_that_loads_as_itself_is_accepted() -> None:
    given = definition(trigger=StateTrigger())
    assert prepare(given, START) == given


def test_a_trigger_that_this_process_does_not_know_is_refused() -> None:
    given = definition(trigger=UnknownTrigger("gone", {}, "not installed"))
    with pytest.raises(UnknownTriggerError, match="not installed"):
        prepare(given, START)


def test_after_the_end_of_a_run_a_trigger_that_waits_is_asked_again() -> None:
    assert next_after_end(definition(trigger=WAITING), START) == START + HOUR


def test_after_the_end_of_a_run_no_other_trigger_is_asked() -> None:
    silent = SaysTrigger(ZeroDivisionError("asked"))
    assert next_after_end(definition(trigger=silent), START) is None


def test_a_foreign_trigger_that_waits_is_refused() -> None:
    class PatientTrigger(DelayTrigger):
        kind: ClassVar[str] = "tests.preparation.patient"

    with pytest.raises(InvalidTriggerError, match="which only this package's own"):
        prepare(TaskDefinition(trigger=PatientTrigger(HOUR)), START)


def test_what_may_have_passed_already_is_overdue() -> None:
    now_and_later = (START, START + HOUR)
    once = TaskDefinition(trigger=ExecuteOnceTrigger(START + HOUR))
    assert prepare(once, *now_and_later).overdue
    assert not prepare(once, START).overdue
