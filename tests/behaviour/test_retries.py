"""Retries over the real loops: when a run is followed by another, and when by none."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    ConfigurationError,
    Fail,
    GiveBack,
    HandedOn,
    RetryAfter,
    RetryPolicy,
    Scheduler,
    State,
)
from go_scheduler.http.logs import JsonLines
from go_scheduler.running.outcomes import Failure, failure_of
from go_scheduler.testing.builders import HOUR, MINUTE
from tests.behaviour.house import once, seconds

if TYPE_CHECKING:
    from go_scheduler import TaskInstance
    from tests.behaviour.house import World


def asks(*waits: float) -> list[Exception]:
    """What a handler raises that asks to be run again after these seconds."""
    return [RetryAfter(seconds(each), "not yet") for each in waits]


DOUBLING = RetryPolicy(delay=seconds(10), factor=2, max_delay=MINUTE)
THRICE = RetryPolicy(max_attempts=3, delay=seconds(5))


@pytest.mark.parametrize(
    ("policy", "raised", "at", "state"),
    [
        (DOUBLING, 4 * [ValueError("no")], [0, 10, 30, 70, 130], State.COMPLETED),
        # A handler chooses when it runs again, whatever the policy; that is a run.
        (RetryPolicy(delay=HOUR), asks(7, 5), [0, 7, 12], State.COMPLETED),
        (THRICE, asks(1, 1, 1), [0, 1, 2], State.FAILED),
        (RetryPolicy(stop_on=[Exception]), asks(1), [0, 1], State.COMPLETED),
    ],
    ids=["doubling", "it asks", "it asks too often", "it asks and is to stop"],
)
def test_a_run_is_followed_as_its_policy_or_its_handler_says(
    world: World,
    policy: RetryPolicy,
    raised: list[Exception],
    at: list[float],
    state: State,
) -> None:
    errors = [*raised]

    def handler(instance: TaskInstance) -> None:
        world.note(instance)
        if errors:
            raise errors.pop(0)

    world.node(handler).schedule(once(retry=policy))
    world.advance(600)
    assert [round(each, 1) for each in world.times] == at
    ended = world.only()
    assert (ended.state, ended.runs) == (state, len(at))
    assert (ended.error or "").rstrip().endswith(str(raised[-1]))


def test_the_default_that_counts_is_that_of_the_scheduler_which_runs_it(
    world: World,
) -> None:
    def handler(instance: TaskInstance) -> None:
        world.note(instance)
        raise ValueError

    other = world.node(None, "other", retry=RetryPolicy(delay=HOUR))
    other.schedule(once())
    world.node(handler, retry=RetryPolicy(delay=seconds(5)))
    world.advance(11)
    assert [round(each) for each in world.times] == [0, 5, 10]


def test_what_cannot_begin_and_is_asked_to_stop_is_cancelled(world: World) -> None:
    def handler(instance: TaskInstance) -> None:
        node.cancel(instance.id)
        raise GiveBack(seconds(5))

    node = world.node(handler)
    node.schedule(once())
    world.advance(60)
    assert world.only().state is State.CANCELLED


def test_an_exception_that_cannot_say_what_it_is_is_named() -> None:
    class Mute(GiveBack):
        def __str__(self) -> str:
            raise ValueError

    assert failure_of(Mute(MINUTE)).error == "Mute, whose text cannot be made"


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


def test_an_error_that_was_never_raised_is_no_wrong_call() -> None:
    assert not failure_of(TypeError("made"), callers=[]).is_final


def test_each_run_has_its_line_with_fields_of_their_types(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    retry = RetryPolicy(delay=MINUTE)
    node = world.node(lambda _: HandedOn(worker="anns"), retry=retry, log_runs=True)
    node.schedule(once(name="print"))
    world.advance(60)
    instance = world.only()
    node.fail(instance.id, instance.attempt, "no paper")
    world.advance(180)
    node.complete(instance.id, 2)
    ended = [each for each in caplog.records if each.name == "go_scheduler.runs"]
    of = f"print: instance {instance.id}, attempt"
    assert [(each.levelname, each.message) for each in ended] == [
        ("INFO", f"{of} 1, 0.000 s late, took 60.000 s: runs again in 0:01:00"),
        ("INFO", f"{of} 2, 0.000 s late, took 120.000 s: completed"),
    ]
    failed, completed = (json.loads(JsonLines().format(each)) for each in ended)
    assert failed["logger"] == "go_scheduler.runs"
    for each in (failed, completed):
        for name in ("time", "level", "logger", "message"):
            del each[name]
    assert failed == {
        "instance_id": str(instance.id),
        "definition_id": str(instance.definition.id),
        "definition_name": "print",
        "queue": "default",
        "attempt": 1,
        "late_ms": 0,
        "duration_ms": 60_000,
        "outcome": None,
        "retry_in_ms": 60_000,
        "worker": "anns",
    }
    assert completed == {
        **failed,
        "attempt": 2,
        "duration_ms": 120_000,
        "outcome": "completed",
        "retry_in_ms": None,
    }


def test_what_says_nothing_of_the_log_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="log_runs must be a bool"):
        Scheduler(print, log_runs="yes")  # type: ignore[arg-type]
