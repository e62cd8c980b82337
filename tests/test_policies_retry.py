"""Retries over the real loops: when a run is followed by another, and when by none."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    Fail,
    GiveBack,
    HandedOn,
    HandlerRegistry,
    MemoryStore,
    RetryAfter,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.clock import ZERO
from go_scheduler.events import InstanceGivenBack, RunDeferred, RunFailed, hears
from go_scheduler.http.logs import JsonLines
from go_scheduler.running.outcomes import Failure, failure_of
from go_scheduler.testing.builders import claim, fire, put
from go_scheduler.testing.clock import START
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def once(**options: object) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(START), **options)  # type: ignore[arg-type]


class Called:
    """A handler that raises what it is told to, and notes when it was called."""

    def __init__(self, clock: ManualClock, *errors: Exception) -> None:
        self._clock = clock
        self._errors = [*errors]
        self.at: list[float] = []

    def __call__(self, instance: TaskInstance) -> None:
        self.at.append(round((self._clock.now() - START).total_seconds(), 1))
        if self._errors:
            raise self._errors.pop(0)

    async def in_a_task(self, instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        self(instance)


def run(
    handler: Handler,
    clock: ManualClock,
    definition: TaskDefinition,
    *,
    retry: RetryPolicy | None = None,
    store: Store | None = None,
    of: timedelta = 10 * MINUTE,
) -> TaskInstance:
    """What an instance is after so long."""
    store = store or MemoryStore(clock)
    with Scheduler(handler, store, clock=clock, retry=retry) as scheduler:
        scheduler.schedule(definition)
        clock.advance(of)
        [instance] = scheduler.list_instances(definition_id=definition.id)
        return instance


def failing(clock: ManualClock, times: int = 9) -> Called:
    return Called(clock, *(ValueError("no paper") for _ in range(times)))


def asks(*waits: float) -> list[Exception]:
    """What a handler raises that asks to be run again after these seconds."""
    return [RetryAfter(seconds(each), "not yet") for each in waits]


FAILURES = 9 * [ValueError("no paper")]
COMPLETED, FAILED = State.COMPLETED, State.FAILED
DOUBLING = RetryPolicy(delay=seconds(10), factor=2, max_delay=MINUTE)
EXPIRING = RetryPolicy.after_expiry(max_attempts=2)
OTHERS = RetryPolicy(delay=SECOND, stop_on=[KeyError, "app.Gone"])
TWICE = RetryPolicy(max_attempts=2, delay=SECOND)
THRICE = RetryPolicy(max_attempts=3, delay=seconds(5))
NAMES = (ValueError, "ValueError", "builtins.ValueError", Exception)


# The policies of definition and scheduler, what the handler raises, when it is called.
@pytest.mark.parametrize(
    ("own", "default", "raised", "at", "state"),
    [
        (DOUBLING, None, FAILURES[:4], [0, 10, 30, 70, 130], COMPLETED),
        (EXPIRING, None, FAILURES, [0, 300], FAILED),
        (None, THRICE, FAILURES, [0, 5, 10], FAILED),
        (TWICE, RetryPolicy(max_attempts=1), FAILURES, [0, 1], FAILED),
        *((RetryPolicy(stop_on=[each]), None, FAILURES, [0], FAILED) for each in NAMES),
        (OTHERS, None, FAILURES[:1], [0, 1], COMPLETED),
        # A handler chooses when it runs again, whatever the policy; that is a run.
        (RetryPolicy(delay=HOUR), None, asks(7, 5), [0, 7, 12], COMPLETED),
        (THRICE, None, asks(1, 1, 1), [0, 1, 2], FAILED),
        (RetryPolicy(stop_on=[Exception]), None, asks(1), [0, 1], COMPLETED),
        (None, None, [Fail("no such customer")], [0], FAILED),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_is_followed_as_its_policy_or_its_handler_says(
    clock: ManualClock,
    kind: str,
    own: RetryPolicy | None,
    default: RetryPolicy | None,
    raised: list[Exception],
    at: list[float],
    state: State,
) -> None:
    called = Called(clock, *raised)
    handler: Handler = called if kind == "sync" else called.in_a_task
    ended = run(handler, clock, once(retry=own), retry=default)
    assert called.at == at
    assert (ended.state, ended.runs) == (state, len(at))
    last = raised[min(len(at), len(raised)) - 1]
    assert (ended.error or "").rstrip().endswith(str(last))


@pytest.mark.parametrize(
    ("default", "at"),
    [(None, [0, 40, 80]), (RetryPolicy(delay=seconds(5)), [0, 5, 10])],
)
def test_without_any_policy_the_rhythm_is_that_of_an_expire_after_of_its_own(
    clock: ManualClock, default: RetryPolicy | None, at: list[float]
) -> None:
    handler = failing(clock, 2)
    run(handler, clock, once(expire_after=seconds(40)), retry=default)
    assert handler.at == at


def test_by_default_it_is_tried_twenty_times_after_delays_that_double(
    clock: ManualClock,
) -> None:
    handler = failing(clock, 30)
    ended = run(handler, clock, once(), of=2 * HOUR)
    assert (ended.state, ended.runs) == (State.FAILED, 20)
    waits = [then - at for at, then in pairwise(handler.at)]
    delays = [15, 30, 60, 120, 240, *14 * [300]]
    parts = [wait / delay for wait, delay in zip(waits, delays, strict=True)]
    # What is due is found a little late.
    assert 1 <= min(parts) < max(parts) < 1.3
    assert 75 * MINUTE < seconds(handler.at[-1]) < 100 * MINUTE


def test_the_default_that_counts_is_that_of_the_scheduler_which_runs_it(
    clock: ManualClock,
) -> None:
    store, handler, definition = MemoryStore(clock), failing(clock), once()
    with Scheduler(None, store, clock=clock, retry=RetryPolicy(delay=HOUR)) as other:
        other.schedule(definition)
        run(
            handler,
            clock,
            definition,
            retry=RetryPolicy(delay=seconds(5)),
            store=store,
            of=seconds(11),
        )
    assert handler.at == [0, 5, 10]


def test_starts_that_came_to_no_end_are_bounded_by_the_schedulers_policy(
    clock: ManualClock,
) -> None:
    store, handler = MemoryStore(clock), Called(clock)
    stored = put(store)
    fire(store, stored)
    claim(store, lead=ZERO)
    clock.advance(MINUTE)
    ended = run(handler, clock, stored, store=store, retry=RetryPolicy(max_attempts=1))
    assert (ended.state, handler.at) == (State.FAILED, [])
    assert ended.error == "none of 1 recorded starts came to an end"


def test_a_run_that_hangs_is_followed_at_once_whatever_the_delay(
    clock: ManualClock,
) -> None:
    called: list[TaskInstance] = []

    def hand_on(instance: TaskInstance) -> HandedOn | None:
        called.append(instance)
        return HandedOn(expire_after=seconds(30)) if len(called) == 1 else None

    ended = run(hand_on, clock, once(retry=RetryPolicy(delay=HOUR)), of=MINUTE)
    assert (ended.state, ended.runs) == (State.COMPLETED, 2)


def test_what_cannot_begin_is_given_back_and_counts_as_no_run(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told: list[Event] = []
    handler = Called(clock, GiveBack(seconds(7), "it is away"), GiveBack(seconds(5)))
    store = MemoryStore(clock)
    listeners = [hears(InstanceGivenBack)(told.append)]
    with Scheduler(handler, store, clock=clock, listeners=listeners) as scheduler:
        stored = scheduler.schedule(once(name="a", retry=RetryPolicy(max_attempts=1)))
        clock.advance(MINUTE)
        [ended] = scheduler.list_instances(definition_id=stored.id)
        assert not scheduler.list_runs(ended.id)
    assert handler.at == [0, 7, 12]
    assert (ended.state, ended.runs, ended.error) == (State.COMPLETED, 1, None)
    first, second = told
    assert isinstance(first, InstanceGivenBack)
    assert (first.reason, first.delay) == ("it is away", seconds(7))
    assert first.by_handler
    assert isinstance(second, InstanceGivenBack)
    assert second.reason == "its handler cannot begin it now"
    assert (
        f"instance {ended.id} of a: attempt 1 has not begun anything, counts as no run"
        " and is given back for 0:00:07: it is away"
    ) in caplog.messages


def test_what_cannot_begin_and_is_asked_to_stop_is_cancelled(
    clock: ManualClock,
) -> None:
    held: list[Scheduler] = []

    def handler(instance: TaskInstance) -> None:
        held[0].cancel(instance.id)
        raise GiveBack(seconds(5))

    with Scheduler(handler, MemoryStore(clock), clock=clock) as scheduler:
        held.append(scheduler)
        scheduler.schedule(once())
        clock.advance(MINUTE)
        [ended] = scheduler.list_instances()
    assert ended.state is State.CANCELLED


def test_an_exception_that_cannot_say_what_it_is_is_named() -> None:
    class Mute(GiveBack):
        def __str__(self) -> str:
            raise ValueError

    assert failure_of(Mute(MINUTE)).error == "Mute, whose text cannot be made"


def test_of_tasks_of_a_handler_that_end_alike_that_counts(clock: ManualClock) -> None:
    async def look(customer: str) -> None:
        raise Fail(f"no such customer: {customer}")

    async def handler(instance: TaskInstance) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look("a"))
            tasks.create_task(look("b"))

    ended = run(handler, clock, once(retry=RetryPolicy(max_attempts=None)))
    assert (ended.state, ended.runs) == (State.FAILED, 1)
    assert "no such customer: b" in (ended.error or "")


def test_what_is_in_a_group_counts_where_all_agree() -> None:
    def of(*raised: Exception) -> Failure:
        return failure_of(ExceptionGroup("several", raised))

    assert {"KeyError", "ExceptionGroup"} <= {*of(KeyError(1)).kinds}
    assert {"LookupError"} <= {*of(KeyError(1), IndexError()).kinds}
    assert {"KeyError", "IndexError"}.isdisjoint(of(KeyError(), IndexError()).kinds)
    assert not of(Fail("a"), RetryAfter(HOUR)).is_chosen
    assert not of(Fail("a"), ValueError()).is_chosen
    assert not of(RetryAfter(HOUR), ValueError()).is_chosen
    assert of(RetryAfter(MINUTE), RetryAfter(HOUR)).retry_in == HOUR
    assert of(ExceptionGroup("more", [Fail("a")]), Fail("b")).is_final
    names = failure_of(KeyError(1)).kinds
    assert len({*names}) == len(names)


def test_a_delay_that_is_none_is_refused_where_it_is_raised() -> None:
    with pytest.raises(ConfigurationError, match="delay must be a timedelta, such"):
        RetryAfter(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="delay must be at least 0 s"):
        RetryAfter(seconds(-1))
    with pytest.raises(ConfigurationError, match="delay must be at least 0 s"):
        GiveBack(seconds(-1))


class SaysNothing:
    """Cannot be called with an instance, which its signature does not say."""

    @property
    def __signature__(self) -> object:
        raise ValueError("not known")

    def __call__(self) -> None:
        raise AssertionError("it is never called")


def raise_type_error(instance: TaskInstance) -> None:
    raise TypeError("of its own")


def call_wrongly(instance: TaskInstance) -> None:
    SaysNothing()(instance)  # type: ignore[call-arg]


@pytest.mark.parametrize("through", ["itself", "a registry"])
def test_a_handler_that_cannot_be_called_so_fails_at_once(
    clock: ManualClock, through: str
) -> None:
    handler: Handler = SaysNothing()  # type: ignore[assignment]
    if through == "a registry":
        handlers = HandlerRegistry()
        handlers.register("wrong")(handler)
        handler = handlers
    ended = run(handler, clock, once(name="wrong"))
    assert (ended.state, ended.runs) == (State.FAILED, 1)
    assert "TypeError" in (ended.error or "")


@pytest.mark.parametrize("handler", [raise_type_error, call_wrongly])
def test_a_type_error_from_within_a_handler_is_tried_again(
    clock: ManualClock, handler: Handler
) -> None:
    ended = run(handler, clock, once(), of=SECOND)
    assert (ended.state, ended.runs) == (State.PENDING, 1)


def test_an_error_that_was_never_raised_is_no_wrong_call() -> None:
    assert not failure_of(TypeError("made"), callers=[]).is_final


class TestHandedOn:
    """Whoever has the work decides like a handler."""

    @pytest.fixture
    def told(self) -> list[Event]:
        """What came of it."""
        return []

    @pytest.fixture
    def scheduler(self, clock: ManualClock, told: list[Event]) -> Iterator[Scheduler]:
        """One whose handler has just handed its work on."""
        with Scheduler(
            lambda _: HandedOn(),
            MemoryStore(clock),
            clock=clock,
            retry=RetryPolicy(delay=MINUTE),
            listeners=[hears(RunFailed, RunDeferred)(told.append)],
        ) as scheduler:
            scheduler.schedule(once())
            clock.advance(seconds(1))
            yield scheduler

    def fail(self, scheduler: Scheduler, **options: object) -> TaskInstance:
        [instance] = scheduler.list_instances()
        token = instance.id, instance.attempt
        assert scheduler.fail(*token, "no paper", **options)  # type: ignore[arg-type]
        return scheduler.get_instance(instance.id)

    def test_a_failure_is_followed_as_the_schedulers_policy_says(
        self, scheduler: Scheduler
    ) -> None:
        assert self.fail(scheduler).due_at == START + seconds(61)

    def test_it_may_be_the_end(self, scheduler: Scheduler) -> None:
        assert self.fail(scheduler, retry=False).state is State.FAILED

    def test_it_may_say_when_to_run_again(
        self, scheduler: Scheduler, told: list[Event]
    ) -> None:
        assert self.fail(scheduler, retry_in=HOUR).due_at == START + seconds(3601)
        scheduler.stop()
        [deferred] = told
        assert isinstance(deferred, RunDeferred)
        assert (deferred.retry_in, deferred.error) == (HOUR, "no paper")

    @pytest.mark.parametrize(
        ("options", "refusal"),
        [
            ({"retry": 1}, "retry must be a bool"),
            ({"retry_in": 5}, "retry_in must be a timedelta"),
            ({"retry_in": seconds(-1)}, "retry_in must be at least 0 s"),
            ({"retry_in": HOUR, "retry": False}, "of no use with retry=False"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, scheduler: Scheduler, options: dict[str, object], refusal: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=refusal):
            self.fail(scheduler, **options)


def test_a_retry_that_is_asked_for_is_told_apart_from_a_failure(
    clock: ManualClock,
) -> None:
    told: list[Event] = []
    handler = Called(clock, RetryAfter(MINUTE, "not yet"), ValueError("no paper"))
    listener = hears(RunFailed, RunDeferred)(told.append)
    with Scheduler(
        handler, MemoryStore(clock), clock=clock, listeners=[listener]
    ) as scheduler:
        scheduler.schedule(once())
        clock.advance(2 * MINUTE)
    deferred, failed = told
    assert isinstance(deferred, RunDeferred)
    assert deferred.retry_in == MINUTE
    assert isinstance(failed, RunFailed)


def test_what_a_handler_has_chosen_counts_even_when_it_was_left_behind(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[Scheduler] = []

    def handler(instance: TaskInstance) -> None:
        left[0]._node._execution.recorder.leave_behind()  # type: ignore[union-attr]
        raise Fail("for good")

    store = MemoryStore(clock)
    with Scheduler(handler, store, clock=clock) as scheduler:
        left.append(scheduler)
        scheduler.schedule(once())
        clock.advance(seconds(1))
        [instance] = scheduler.list_instances()
    assert (instance.state, instance.runs) == (State.FAILED, 1)


class TestLogOfRuns:
    """A line for each run, for who asks for it."""

    def run(self, clock: ManualClock, handler: Handler, *, log_runs: bool) -> None:
        retry = RetryPolicy(delay=MINUTE)
        with Scheduler(
            handler, MemoryStore(clock), clock=clock, retry=retry, log_runs=log_runs
        ) as scheduler:
            scheduler.schedule(once(name="print"))
            clock.advance(2 * MINUTE)

    def lines(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        """What is said of runs, without the ids."""
        runs = [each for each in caplog.records if each.name == "go_scheduler.runs"]
        assert {each.levelname for each in runs} <= {"INFO"}
        return [re.sub(r"instance [^ ,]+", "instance", each.message) for each in runs]

    def test_each_run_has_its_line(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)

        def handler(instance: TaskInstance) -> None:
            if instance.runs == 1:
                raise ValueError("no paper")

        self.run(clock, handler, log_runs=True)
        assert self.lines(caplog) == [
            "print: instance, attempt 1, 0.000 s late, took 0.000 s: runs again in"
            " 0:01:00",
            "print: instance, attempt 2, 0.000 s late, took 0.000 s: completed",
        ]

    def test_json_lines_have_fields_with_the_types_of_what_they_say(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)

        def handed_on(_: TaskInstance) -> HandedOn:
            return HandedOn(worker="anns")

        store = MemoryStore(clock)
        retry = RetryPolicy(delay=MINUTE)
        with Scheduler(
            handed_on, store, clock=clock, retry=retry, log_runs=True
        ) as scheduler:
            scheduler.schedule(once(name="print"))
            clock.advance(MINUTE)
            [instance] = scheduler.list_instances()
            scheduler.fail(instance.id, instance.attempt, "no paper")
            clock.advance(3 * MINUTE)
            scheduler.complete(instance.id, 2)
        ended = [each for each in caplog.records if each.name == "go_scheduler.runs"]
        failed, completed = (json.loads(JsonLines().format(each)) for each in ended)
        assert failed["logger"] == "go_scheduler.runs"
        known = {"time", "level", "logger", "message"}
        ids = {"instance_id": str(instance.id)}
        ids["definition_id"] = str(instance.definition.id)
        assert {name: failed[name] for name in failed.keys() - known} == {
            **ids,
            "definition_name": "print",
            "queue": "default",
            "attempt": 1,
            "late_ms": 0,
            "duration_ms": 60_000,
            "outcome": None,
            "retry_in_ms": 60_000,
            "worker": "anns",
        }
        assert {name: completed[name] for name in completed.keys() - known} == {
            **ids,
            "definition_name": "print",
            "queue": "default",
            "attempt": 2,
            "late_ms": 0,
            "duration_ms": 120_000,
            "outcome": "completed",
            "retry_in_ms": None,
            "worker": "anns",
        }

    def test_nobody_else_has_one(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        self.run(clock, lambda _: None, log_runs=False)
        assert self.lines(caplog) == []

    def test_what_was_handed_on_has_it_when_it_ends(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        store = MemoryStore(clock)
        with Scheduler(
            lambda _: HandedOn(), store, clock=clock, log_runs=True
        ) as scheduler:
            scheduler.schedule(once(name="print"))
            clock.advance(MINUTE)
            [instance] = scheduler.list_instances()
            scheduler.complete(instance.id, instance.attempt)
        assert self.lines(caplog) == [
            "print: instance, attempt 1, 0.000 s late, took 60.000 s: completed"
        ]

    def test_what_is_no_answer_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="log_runs must be a bool"):
            Scheduler(print, log_runs="yes")  # type: ignore[arg-type]
