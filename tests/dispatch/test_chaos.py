"""Brokers and workers are killed, messages come twice: nothing is lost, nor doubled.

``GO_SCHEDULER_CHAOS=full`` does it with 10,000 runs, and takes the broker away for a
minute.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import pytest

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    IntervalTrigger,
    Outcome,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.clock import SystemClock
from go_scheduler.dispatch import Dispatcher, open_bus
from go_scheduler.events import InstanceFinished, InstanceGivenBack, hears
from go_scheduler.stores import open_store
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from tests.audits import check_audit
from tests.cli.shell import clean_environment
from tests.dispatch.wrapped_bus import RepeatingBus
from tests.rabbitmq_servers import RabbitMQServer, running_rabbitmq
from tests.traces import check_traces, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from go_scheduler.models import TaskInstance

FULL = os.environ.get("GO_SCHEDULER_CHAOS") == "full"
RUNS, WORKERS, AWAY = (10_000, 6, 60) if FULL else (300, 2, 2)
PATIENCE = 600 if FULL else 300
ROOT = str(Path(__file__).parents[2])
WAITING = 100
SOON = timedelta(milliseconds=100)
# Who kills so often has to let it be tried as often.
RETRY = RetryPolicy(max_attempts=100, delay=SOON)

CLOCK = SystemClock()

_LOG = logging.getLogger(__name__)

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


@pytest.fixture(scope="module")
def lasting_rabbitmq(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RabbitMQServer]:
    """One that these tests stop; each leaves it running."""
    with running_rabbitmq(tmp_path_factory.mktemp("broker")) as server:
        yield server


class World:
    """A scheduler that has one task run on the bus, and one here."""

    def __init__(
        self,
        broker: RabbitMQServer,
        store: str,
        stack: ExitStack,
        *,
        start_timeout: timedelta,
        heartbeat_timeout: timedelta,
    ) -> None:
        self._url, self._stack = broker.url, stack
        self.namespace = f"chaos-{uuid4().hex}"
        self.finished: Counter[tuple[UUID, Outcome]] = Counter()
        self.given_back: set[UUID] = set()
        self.late: list[timedelta] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._changed = threading.Condition()
        inner = stack.enter_context(open_bus(broker.url))
        self.bus = RepeatingBus(inner, seed=1)
        self.dispatcher = Dispatcher(
            self.bus,
            namespace=self.namespace,
            start_timeout=start_timeout,
            heartbeat_timeout=heartbeat_timeout,
        )
        tasks = HandlerRegistry()
        tasks.register("here")(self._run_here)
        tasks.register("there")(self.dispatcher)
        self.store = stack.enter_context(closing(open_store(store)))
        self.scheduler = Scheduler(
            tasks,
            self.store,
            lease=timedelta(seconds=2),
            listeners=[
                hears(InstanceFinished)(self._note_finished),
                hears(InstanceGivenBack)(self._note_given_back),
            ],
        )
        stack.callback(self._kill_all)

    def start(self, workers: int) -> Self:
        """Have all of it run."""
        for _ in range(workers):
            self.add_worker()
        self._stack.enter_context(self.scheduler)
        self._stack.enter_context(self.dispatcher.hearing(self.scheduler))
        return self

    def put(self, count: int) -> None:
        """So many definitions, each of which runs once on the bus, now."""
        now = self.store.now()
        self.scheduler.schedule_all(
            TaskDefinition(name="there", trigger=ExecuteOnceTrigger(now), retry=RETRY)
            for _ in range(count)
        )

    def add_worker(self) -> None:
        """One more process."""
        name = f"worker {uuid4().hex[:8]}"
        module = "tests.dispatch.chaos_worker"
        self._workers.append(
            subprocess.Popen(
                [sys.executable, "-m", module, self._url, self.namespace, name],
                cwd=ROOT,
                env={**clean_environment(), "PYTHONPATH": ROOT},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def kill_worker(self) -> None:
        """The oldest; another one comes instead."""
        _kill(self._workers.pop(0))
        self.add_worker()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something holds that events tell of."""
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE), self._how_far()

    def _how_far(self) -> str:
        return f"{len(self.finished)} have finished, {len(self.late)} have run here"

    def _note_finished(self, event: InstanceFinished) -> None:
        if event.name != "there":
            return
        with self._changed:
            self.finished[event.instance_id, event.outcome] += 1
            self._changed.notify_all()

    def _note_given_back(self, event: InstanceGivenBack) -> None:
        with self._changed:
            self.given_back.add(event.instance_id)
            self._changed.notify_all()

    def _run_here(self, instance: TaskInstance) -> None:
        with self._changed:
            self.late.append(CLOCK.now() - instance.due_at)
            self._changed.notify_all()

    def _kill_all(self) -> None:
        for each in self._workers:
            _kill(each)


@pytest.fixture
def make(
    lasting_rabbitmq: RabbitMQServer,
    empty_database_url: Callable[[], str],
    tmp_path: Path,
) -> Iterator[Callable[..., World]]:
    """Makes all of it but its workers, at a standstill; its calls are checked."""
    with recorded(PostgreSQLStore, tmp_path / "here.calls"), ExitStack() as stack:
        yield lambda **timeouts: World(
            lasting_rabbitmq, empty_database_url(), stack, **timeouts
        )
    assert check_traces(tmp_path) > WAITING


def test_nothing_is_lost_or_doubled_whatever_is_killed(
    make: Callable[..., World], lasting_rabbitmq: RabbitMQServer
) -> None:
    world = make(
        start_timeout=timedelta(seconds=90 if FULL else 3),
        heartbeat_timeout=timedelta(seconds=3),
    )

    def until(share: float) -> None:
        world.until(lambda: len(world.finished) >= share * RUNS)

    world.put(RUNS)
    world.start(WORKERS)
    began = CLOCK.elapsed()
    until(0.2)
    world.kill_worker()
    until(0.3)
    lasting_rabbitmq.kill()
    lasting_rabbitmq.start()
    until(0.5)
    world.kill_worker()
    if FULL:
        until(0.7)
        lasting_rabbitmq.stop()
        lasting_rabbitmq.start()
        world.kill_worker()
    until(1)
    took = (CLOCK.elapsed() - began).total_seconds()
    _LOG.info("%d runs took %.0f s, %.0f a second", RUNS, took, RUNS / took)
    ended = world.scheduler.list_instances(limit=1000)
    assert {each.outcome for each in ended} == {Outcome.COMPLETED}
    assert set(world.finished.values()) == {1}
    assert {outcome for _, outcome in world.finished} == {Outcome.COMPLETED}
    assert len(world.finished) == RUNS
    _LOG.info("%d messages came twice from here", world.bus.repeated)
    assert world.bus.repeated
    check_audit(world.store)


def test_without_a_bus_what_is_due_waits_and_everything_else_runs(
    make: Callable[..., World], lasting_rabbitmq: RabbitMQServer
) -> None:
    # Nobody dies, and on a busy machine nobody is to be taken for dead.
    alive = timedelta(seconds=PATIENCE)
    world = make(start_timeout=alive, heartbeat_timeout=alive)
    world.start(1)
    world.scheduler.schedule(TaskDefinition(name="here", trigger=IntervalTrigger(SOON)))
    world.put(1)
    world.until(lambda: len(world.finished) == 1)
    lasting_rabbitmq.stop()
    began = CLOCK.elapsed()
    world.put(WAITING)
    world.until(lambda: len(world.given_back) == WAITING)
    before = len(world.late)
    world.until(lambda: len(world.late) >= before + AWAY * 10)
    late = sorted(world.late[before:])
    half, most = late[len(late) // 2], late[len(late) * 99 // 100]
    away = CLOCK.elapsed() - began
    _LOG.info("away for %s, %d ran here, p50 %s, p99 %s", away, len(late), half, most)
    assert len(world.finished) == 1
    lasting_rabbitmq.start()
    world.until(lambda: len(world.finished) == 1 + WAITING)
    assert set(world.finished.values()) == {1}
    ended = world.scheduler.list_instances(name="there", limit=1000)
    # It had not run before, and nothing has failed.
    assert {(each.outcome, each.runs) for each in ended} == {(Outcome.COMPLETED, 1)}
    check_audit(world.store)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
