"""What is refused is refused with what to write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import (
    CatchUp,
    ConfigurationError,
    HandlerRegistry,
    IntervalTrigger,
    RetryAfter,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.testing.builders import HOUR
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable

HOURLY = IntervalTrigger(hours=1)
A_TIME = "must be a timedelta, such as timedelta(seconds=300), not"
AN_OVERLAP = "overlap must be an Overlap, such as Overlap.SKIP, not 'never'"
SCHEDULER: Any = Scheduler(HandlerRegistry())
HANDLERS: Any = HandlerRegistry()


A_NAME_GIVEN = (
    "definition_id must be a UUID, not 'mail': TaskDefinition.id_for('mail') makes one"
    " of a name, and id_for('task ' + name) is that of a task"
)


@SCHEDULER.task("send")  # type: ignore[untyped-decorator]
def send(order: int) -> None: ...


@SCHEDULER.task("more")  # type: ignore[untyped-decorator]
def more(order: int, **others: int) -> None: ...


def report() -> None: ...


def defined(**given: Any) -> TaskDefinition:
    return TaskDefinition(**({"trigger": HOURLY} | given))


def scheduler(**given: Any) -> Scheduler:
    return Scheduler(print, **given)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (lambda: defined(expire_after=300), f"expire_after {A_TIME} 300"),
        (lambda: defined(timeout=30), f"timeout {A_TIME} 30"),
        (
            lambda: defined(max_per_node=0),
            "max_per_node must be from 1 to 1,000,000,000: 0",
        ),
        (lambda: defined(priority=4), "priority must be from 0 to 3: 4"),
        (
            lambda: defined(when_full="wait"),
            "when_full must be one of 'refuse', 'drop': 'wait'",
        ),
        (lambda: defined(jitter=120), f"jitter {A_TIME} 120"),
        (lambda: scheduler(lease=20), f"lease {A_TIME} 20"),
        (lambda: RetryAfter(60), f"delay {A_TIME} 60"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(delay=10), f"delay {A_TIME} 10"),  # type: ignore[arg-type]
        (lambda: CatchUp(grace=60), f"grace {A_TIME} 60"),  # type: ignore[arg-type]
        (lambda: SCHEDULER.enqueue("send", delay=5, order=7), f"delay {A_TIME} 5"),
        (lambda: SCHEDULER.run_now(uuid4(), delay=5), f"delay {A_TIME} 5"),
        (lambda: defined(overlap="never"), AN_OVERLAP),
        (
            lambda: SCHEDULER.backfill(uuid4(), START, START + HOUR, overlap="never"),
            AN_OVERLAP,
        ),
        (
            lambda: defined(retry=5),
            "retry must be a RetryPolicy, such as RetryPolicy(max_attempts=5), not 5",
        ),
        (
            lambda: scheduler(retry=5),
            "retry must be a RetryPolicy, such as RetryPolicy(max_attempts=5), not 5",
        ),
        (
            lambda: defined(catch_up="all"),
            "catch_up must be a CatchUp, such as CatchUp(mode='all'), not 'all'",
        ),
        (
            lambda: defined(trigger="0 9 * * 1"),
            "trigger must be a Trigger, such as CronTrigger('0 9 * * *'), not"
            " '0 9 * * 1'",
        ),
        (
            lambda: defined(trigger=IntervalTrigger),
            "trigger must be a Trigger, such as CronTrigger('0 9 * * *'), not"
            f" {IntervalTrigger!r}: that is the class, call it",
        ),
        (
            lambda: HANDLERS.register(report),
            "a handler has a name: write @handlers.register('report') above it, not"
            " @handlers.register",
        ),
        (
            lambda: HANDLERS.task(report),
            "a handler has a name: write @handlers.task('report') above it, not"
            " @handlers.task",
        ),
        (
            lambda: SCHEDULER.enqueue(send, order=7),
            "a task is enqueued by its name, 'send', or by its own enqueue(): not by"
            " <task 'send'>",
        ),
        (
            lambda: SCHEDULER.enqueue_all(send, [{"order": 7}]),
            "a task is enqueued by its name, 'send', or by its own enqueue(): not by"
            " <task 'send'>",
        ),
        (
            lambda: SCHEDULER.enqueue_all("send", {"order": 7}),
            "payloads must be several, such as [{'order': 7}], not {'order': 7}",
        ),
        (
            lambda: SCHEDULER.schedule_all("report"),
            "definitions must be several, such as [definition], not 'report'",
        ),
        (
            lambda: SCHEDULER.declare(5, owner="shop"),
            "definitions must be several, such as [definition], not 5",
        ),
        (
            lambda: SCHEDULER.schedule([]),
            "definition must be a TaskDefinition, and schedule_all() takes several: []",
        ),
        (
            lambda: SCHEDULER.enqueue("send", ordr=7),
            "task 'send' takes no 'ordr'; did you mean 'order'?",
        ),
        (
            lambda: SCHEDULER.enqueue("send", weight=7),
            "task 'send': missing a required argument: 'order'",
        ),
        (
            lambda: SCHEDULER.enqueue("more", ordr=7),
            "task 'more': missing a required argument: 'order'",
        ),
        *(
            (partial(method, "mail"), A_NAME_GIVEN)
            for method in (SCHEDULER.run_now, SCHEDULER.pause, SCHEDULER.why)
        ),
        (
            lambda: SCHEDULER.run_now(defined()),
            "definition_id must be a UUID, not a TaskDefinition: pass its id",
        ),
        (
            lambda: Scheduler(report),  # type: ignore[arg-type]
            "the handler is called with one argument, the instance, and takes none:"
            f" too many positional arguments; {report!r}",
        ),
    ],
)
def test_the_refusal_says_what_to_write(
    wrong: Callable[[], object], answer: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wrong()
    assert str(caught.value) == answer
