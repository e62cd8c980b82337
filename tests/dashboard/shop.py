"""What the pictures of pages show: half a day of a shop's schedule."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from go_scheduler.models import Histogram, Outcome, QueueStats
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
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance
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
    minutes: int
    takes: timedelta
    fails: float = 0
    queue: str = "default"


_JOBS = (
    _Job("sync-orders", "*/10 * * * *", 10, 40 * SECOND),
    _Job("import-prices", "*/30 * * * *", 30, 3 * MINUTE, 0.5, "imports"),
    _Job("hourly-report", "0 * * * *", 60, 4 * MINUTE, queue="reports"),
)
_QUEUES = ("default", "imports", "reports", "mail")


def open_shop(store: Store, clock: ManualClock) -> Shop:
    """Put it all into a store; it takes half a day by the clock."""
    chance = random.Random(7)
    made = {}
    for job in _JOBS:
        trigger = CronTrigger(job.cron, timezone="Europe/Berlin")
        new = definition(START, trigger=trigger, name=job.name, queue=job.queue)
        made[job] = put(store, new)
    for minute in range(0, int(LASTS / MINUTE), 10):
        at = START + minute * MINUTE
        clock.advance(max(at - clock.now(), timedelta(0)))
        for job in _JOBS:
            if minute % job.minutes == 0:
                read = store.get_definition(made[job].id)
                fire(store, read, at, next_fire_time=at + job.minutes * MINUTE)
                _run(store, clock, job, chance)
    # One runs still.
    read = store.get_definition(made[_JOBS[0]].id)
    clock.advance(START + LASTS - clock.now())
    fire(store, read, START + LASTS, next_fire_time=START + LASTS + 10 * MINUTE)
    claim(store, NODE, queues=_QUEUES)
    clock.advance(20 * SECOND)
    _put_the_rest(store, clock)
    _count(store, chance)
    prices = made[_JOBS[1]]
    [failed, *_] = [
        each for each in instances(store, prices) if each.outcome is Outcome.FAILED
    ]
    return Shop(store.get_definition(prices.id), store.get_instance(failed.id))


def _run(store: Store, clock: ManualClock, job: _Job, chance: random.Random) -> None:
    """Run what a job has fired; what fails runs again at once, twice at most."""
    for outcome in (None, None, Outcome.FAILED):
        [started] = claim(store, chance.choice([NODE, OTHER_NODE]), queues=_QUEUES)
        clock.advance(job.takes * chance.uniform(0.6, 1.4))
        if chance.random() >= job.fails:
            assert finish(store, started)
            return
        assert finish(store, started, outcome, error=ERROR)


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
