"""What the pictures of pages show: half a day of a shop's schedule."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from go_scheduler.models import Histogram, Outcome, QueueStats, TaskInstance
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
    instances,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

LASTS = 8 * HOUR
ERROR = """Traceback (most recent call last):
  File "shop/prices.py", line 41, in import_prices
    answer = fetch(SUPPLIER)
ConnectionError: supplier.example answers 502 Bad Gateway"""


class Shop(NamedTuple):
    """What there is to show.

    Attributes:
        prices: A definition whose runs fail now and then.
        failed: An instance of it that has failed for good.
    """

    prices: TaskDefinition
    failed: TaskInstance


class _Job(NamedTuple):
    name: str
    cron: str
    takes: timedelta
    fails: float = 0
    queue: str = "default"


_JOBS = (
    _Job("sync-orders", "*/10 * * * *", 40 * SECOND),
    _Job("import-prices", "*/30 * * * *", 4 * MINUTE, fails=0.35, queue="imports"),
    _Job("hourly-report", "0 * * * *", 9 * MINUTE, queue="reports"),
)
_QUEUES = ("default", "imports", "reports", "mail")


class _End(NamedTuple):
    at: datetime
    instance: TaskInstance
    outcome: Outcome | None


def open_shop(store: Store, clock: ManualClock) -> Shop:
    """Put it all into a store; it takes half a day by the clock."""
    chance = random.Random(7)
    made = {
        job: put(
            store,
            definition(
                START,
                trigger=CronTrigger(job.cron, timezone="Europe/Berlin"),
                name=job.name,
                queue=job.queue,
            ),
        )
        for job in _JOBS
    }
    ends: list[_End] = []
    for at, job in _fires():
        _end(store, clock, ends, at)
        _reach(clock, at + chance.uniform(0.001, 0.02) * SECOND)
        read = store.get_definition(made[job].id)
        fire(store, read, at, next_fire_time=read.trigger.next_fire_time(at))
        for each in _claimed(store, chance):
            fails = chance.random() < job.fails
            outcome = None if fails else Outcome.COMPLETED
            takes = job.takes * chance.uniform(0.6, 1.4)
            ends.append(_End(clock.now() + takes, each, outcome))
    _put_the_rest(store, clock)
    _count(store, chance)
    prices = made[_JOBS[1]]
    [failed, *_] = [
        each for each in instances(store, prices) if each.outcome is Outcome.FAILED
    ]
    return Shop(store.get_definition(prices.id), store.get_instance(failed.id))


def _fires() -> Iterator[tuple[datetime, _Job]]:
    for minute in range(0, int(LASTS / MINUTE), 10):
        at = START + minute * MINUTE
        for job in _JOBS:
            every = {"*/10": 10, "*/30": 30, "0": 60}[job.cron.split()[0]]
            if minute % every == 0:
                yield at, job


def _claimed(store: Store, chance: random.Random) -> Iterator[TaskInstance]:
    yield from claim(store, chance.choice([NODE, OTHER_NODE]), queues=_QUEUES)


def _end(store: Store, clock: ManualClock, ends: list[_End], until: datetime) -> None:
    """End what ends by then; what has failed begins again at once, twice at most."""
    while ends and (end := min(ends, key=lambda each: each.at)).at <= until:
        ends.remove(end)
        _reach(clock, end.at)
        error = None if end.outcome is Outcome.COMPLETED else ERROR
        assert finish(store, end.instance, end.outcome, error=error)
        if end.outcome is None:
            [again] = claim(store, NODE, queues=_QUEUES)
            outcome = None if again.attempt == 2 else Outcome.FAILED
            ends.append(_End(clock.now() + 2 * MINUTE, again, outcome))


def _reach(clock: ManualClock, at: datetime) -> None:
    clock.advance(max(at - clock.now(), timedelta(0)))


def _put_the_rest(store: Store, clock: ManualClock) -> None:
    mail = definition(None, trigger=OnDemandTrigger(), name="send-mail", queue="mail")
    mail = put(store, replace(mail, id=UUID(int=7), metadata={"team": "shop"}))
    waits = [
        Addition(id=UUID(int=100 + each), at=clock.now() - each * SECOND)
        for each in range(23)
    ]
    store.add_instances(mail.id, waits)
    monthly = CronTrigger("0 6 1 * *", timezone="Europe/Berlin")
    idle = put(store, definition(START + 700 * HOUR, trigger=monthly, name="invoices"))
    store.pause_definitions([idle.id], note="until the new tax rates are in")
    for node, host, queues in (
        (NODE, "worker-1", ("default", "imports")),
        (OTHER_NODE, "worker-2", ("default", "imports", "reports")),
    ):
        told = Announcement(node=node, host=host, pid=4711, queues=queues)
        store.note_contact(told, unbroken=MINUTE)


def _count(store: Store, chance: random.Random) -> None:
    """What nodes have counted: one run a minute, mostly a few milliseconds late."""
    stats = [
        QueueStats(
            at=START + minute * MINUTE,
            queue=queue,
            ended={"completed": 1},
            lateness=Histogram.of([(chance.lognormvariate(-5.5, 0.8) * SECOND, 1)]),
        )
        for minute in range(int(LASTS / MINUTE))
        for queue in _QUEUES[:3]
    ]
    store.note_stats(NODE, stats)
