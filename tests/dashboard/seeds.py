"""What the tests of pages look at: one of each that there is, of known times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, QueueStats, TaskDefinition, TaskInstance
from go_scheduler.models.counts import BOUNDS, Histogram
from go_scheduler.stores.messages import Addition, Announcement
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    claim,
    definition,
    finish,
    fire,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

LATE = Histogram.of([(BOUNDS[5], 30), (BOUNDS[20], 1)])
MINUTES = [
    QueueStats(
        at=START + 30 * MINUTE,
        queue="default",
        ended={"completed": 1234, "failed": 2},
        lateness=LATE,
    ),
    *(
        QueueStats(
            at=START + minute * MINUTE,
            queue="mail",
            ended={"retried": retried},
            lateness=Histogram.of([(BOUNDS[5], 1)]),
        )
        for minute, retried in ((31, 5), (32, 2))
    ),
    QueueStats(at=START - HOUR, queue="long ago", ended={"failed": 9}),
]
HOSTILE = "<script>alert('x')</script>&\"'"
NEXT = START + 2 * HOUR
ERROR = f"Traceback:\n  File x\nKeyError: {HOSTILE}"


@dataclass(frozen=True)
class Seeds:
    """What has been put into a store.

    Attributes:
        report: Fires every hour in Berlin's time, in the queue ``default``.
        send: A task, in the queue ``mail``, of the owner ``shop``.
        idle: Paused, with a note.
        failed: An instance of the report that ran twice.
        completed: One that was five seconds late, and took a minute.
        running: One that runs.
        keyed: One of the task, with a key, which is due.
    """

    report: TaskDefinition
    send: TaskDefinition
    idle: TaskDefinition
    failed: TaskInstance
    completed: TaskInstance
    running: TaskInstance
    keyed: TaskInstance


def sow(store: Store, clock: ManualClock) -> Seeds:
    """Put them in; it takes an hour by the clock."""
    hourly = CronTrigger("0 * * * *", timezone="Europe/Berlin")
    report = put(store, definition(START, trigger=hourly, name=f"report {HOSTILE}"))
    send = replace(
        definition(None, trigger=OnDemandTrigger(), name="send", queue="mail"),
        metadata={"team": HOSTILE},
    )
    send = put(store, replace(send, id=UUID(int=7)))
    idle = put(store, definition(START + HOUR, name="idle"))
    store.pause_definitions([idle.id], note=HOSTILE)
    clock.advance(5 * SECOND)
    completed = _run(store, report, START)
    clock.advance(MINUTE)
    finish(store, completed)
    failed = _run(store, report, START + MINUTE)
    finish(store, failed, None, error=ERROR)
    [again] = claim(store, lead=ZERO)
    finish(store, again, Outcome.FAILED, error=ERROR)
    cancelled = _run(store, report, START + MINUTE + SECOND)
    finish(store, cancelled, Outcome.CANCELLED)
    clock.advance(HOUR)
    running = _run(store, report, START + HOUR)
    added = store.add_instances(
        send.id,
        [
            Addition(id=uuid4(), at=START, key="order 7", payload={"text": HOSTILE}),
            Addition(id=uuid4(), at=START + SECOND),
            Addition(id=uuid4(), at=START + 9 * HOUR),
        ],
    )
    for node, stopping in ((NODE, False), (OTHER_NODE, True)):
        told = Announcement(
            node=node, host=HOSTILE, pid=7, queues=("default",), stopping=stopping
        )
        store.note_contact(told, unbroken=MINUTE)
    store.note_stats(NODE, MINUTES)
    store.note_stats(OTHER_NODE, MINUTES[:1])
    return Seeds(
        report=store.get_definition(report.id),
        send=send,
        idle=store.get_definition(idle.id),
        failed=store.get_instance(failed.id),
        completed=store.get_instance(completed.id),
        running=store.get_instance(running.id),
        keyed=added[0],
    )


def _run(store: Store, of: TaskDefinition, fire_time: datetime) -> TaskInstance:
    read = store.get_definition(of.id)
    fire(store, read, fire_time, next_fire_time=NEXT)
    [started] = claim(store, lead=ZERO)
    return started
