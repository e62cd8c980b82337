"""The scheduler: started, stopped, and used from anywhere, in any order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.errors import (
    ConfigurationError,
    SchedulerStateError,
    StoreUnavailableError,
)
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.run import current_run
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.simple import ExecuteOnceTrigger, IntervalTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store

ROOT = Path(__file__).parents[1]
DAILY = IntervalTrigger(timedelta(days=1))


def once(at: datetime, **options: object) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), **options)  # type: ignore[arg-type]


def daily(**options: object) -> TaskDefinition:
    return TaskDefinition(trigger=DAILY, **options)  # type: ignore[arg-type]


def now() -> datetime:
    return SystemClock().now()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """What this module is about is the same on any store."""
    return MemoryStore(clock)


@pytest.fixture
def real() -> Iterator[list[Scheduler]]:
    """Schedulers on the system's clock; stopped when the test is over."""
    made: list[Scheduler] = []
    yield made
    for each in made:
        each.stop(timedelta(0))


def test_a_default_jitter_is_that_of_definitions_that_name_none(
    clock: ManualClock, store: MemoryStore
) -> None:
    jitter = timedelta(minutes=1)
    ran: list[TaskInstance] = []
    with Scheduler(ran.append, store, clock=clock, jitter=jitter) as scheduler:
        spread = [scheduler.schedule(once(START)) for _ in range(9)]
        at_once = scheduler.schedule(once(START, jitter=timedelta(0)))
        clock.advance(timedelta(0))
        assert [each.definition.id for each in ran] == [at_once.id]
        clock.advance(jitter)
    late = {each.execute_at - START for each in ran[1:]}
    assert {each.definition.id for each in ran[1:]} == {each.id for each in spread}
    assert len(late) == 9
    assert max(late) <= jitter


class SharedStore(MemoryStore):
    """One that others have as well."""


class TestWarnings:
    """What will not run here is said once in the log, and in health."""

    @pytest.mark.parametrize(
        ("handler", "scheduled", "said"),
        [
            (
                None,
                once(START, queue="other"),
                "no handler: it creates instances and runs none; pass one",
            ),
            (
                HandlerRegistry(),
                once(START, name="reprot"),
                "no handler is registered for definitions 'reprot' here",
            ),
            (
                HandlerRegistry(),
                daily(),
                "without a name: pass name= to TaskDefinition",
            ),
        ],
    )
    def test_what_runs_nowhere_here_is_the_one_warning(
        self,
        clock: ManualClock,
        caplog: pytest.LogCaptureFixture,
        handler: Handler | None,
        scheduled: TaskDefinition,
        said: str,
    ) -> None:
        caplog.set_level("INFO")
        with Scheduler(handler, MemoryStore(clock), clock=clock) as scheduler:
            scheduler.schedule(scheduled)
            asyncio.run(scheduler.aschedule(scheduled))
            clock.advance(seconds(5))
            health = scheduler.health()
        assert health.ok
        [text] = health.warnings
        assert said in text
        found = [each.levelname for each in caplog.records if each.message == text]
        assert found == ["WARNING"]
        assert scheduler.health().warnings == ()

    def test_another_queue_is_no_warning_while_another_node_may_serve_it(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        with Scheduler(print, clock=clock) as scheduler:
            for _ in range(2):
                scheduler.schedule(daily(queue="mail"))
            clock.advance(seconds(5))
            assert scheduler.health().warnings == ()
        [text] = [text for text in caplog.messages if "queue" in text]
        assert text.startswith("queue 'mail' is not among those")
        assert "serves, 'default': what" in text

    def test_a_name_that_is_not_registered_is_said_once_and_is_no_warning(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        handlers = HandlerRegistry()
        handlers.register("send")(print)
        with Scheduler(handlers, clock=clock) as scheduler:
            for name in ("send", "sned", "sned", "report"):
                scheduler.schedule(daily(name=name))
            assert scheduler.health().warnings == ()
        said = [text for text in caplog.messages if "is registered as" in text]
        assert [text.split("'")[1] for text in said] == ["sned", "report"]
        assert "here: what is scheduled by it waits for a node that has one" in said[0]

    @pytest.mark.parametrize(
        ("kind", "level"), [(MemoryStore, "WARNING"), (SharedStore, "INFO")]
    )
    def test_what_is_scheduled_after_the_stop_is_said_to_wait(
        self,
        kind: type[MemoryStore],
        level: str,
        clock: ManualClock,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("INFO")
        scheduler = Scheduler(print, kind(clock), clock=clock)
        scheduler.schedule(daily())
        with scheduler:
            scheduler.schedule(daily())
        assert "started again" not in caplog.text
        for _ in range(2):
            scheduler.schedule(daily())
        [said] = [each for each in caplog.records if "again" in each.getMessage()]
        assert said.levelname == level
        assert said.getMessage().startswith("this scheduler has been stopped: what")


def test_the_health_of_one_that_was_not_started_says_what_asks_the_store() -> None:
    trouble = Scheduler(None, MemoryStore()).health().trouble
    assert trouble == "it has not been started; check() asks the store"


def test_the_health_of_one_that_was_stopped_says_so() -> None:
    with Scheduler(print) as scheduler:
        assert scheduler.health().trouble is None
    assert scheduler.health().trouble == "it has been stopped"


def test_health_warns_of_what_is_so_at_this_moment() -> None:
    warnings = ["the bus is away"]
    with Scheduler(print) as scheduler:
        with scheduler._notices.passing(lambda: warnings):
            assert scheduler.health().warnings == ("the bus is away",)
            warnings.clear()
            assert scheduler.health().warnings == ()
            warnings.append("it is away again")
        assert scheduler.health().warnings == ()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(({"handler": each}, "cannot be called") for each in (1, "print", object())),
        ({"handler": MemoryStore()}, r"Scheduler\(handler, store\)"),
        ({"handler": None}, "would run nothing"),
        ({"store": {}}, "store must be"),
        ({"max_workers": 0}, "max_workers"),
        ({"store": MemoryStore(), "clock": ManualClock()}, "same manual clock"),
        (
            {"store": MemoryStore(ManualClock()), "clock": ManualClock()},
            "same manual clock",
        ),
        ({"store": MemoryStore(ManualClock())}, "pass it to both"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Scheduler(**{"handler": print, **arguments})


def test_a_manual_clock_cannot_run(clock: ManualClock) -> None:
    with pytest.raises(SchedulerStateError, match="manual clock"):
        Scheduler(print, clock=clock).run()


def test_starting_twice_starts_one_set_of_threads(real: list[Scheduler]) -> None:
    others = set(threading.enumerate())
    scheduler = Scheduler(print)
    real.append(scheduler)
    for _ in range(2):
        scheduler.start()
        assert len(set(threading.enumerate()) - others) == 11


@pytest.mark.parametrize("away", [False, True])
def test_connections_are_opened_before_the_loops_begin_if_they_can_be(
    clock: ManualClock, *, away: bool
) -> None:
    class Connecting(MemoryStore):
        asked: list[str]

        def connect(self) -> None:
            self.asked.append("connect")
            if away:
                raise StoreUnavailableError("away")

        def now(self) -> datetime:
            self.asked.append("now")
            return super().now()

    store = Connecting(clock)
    store.asked = []
    scheduler = Scheduler(print, store, clock=clock)
    scheduler.start()
    scheduler.start()
    clock.advance(seconds(1))
    assert store.asked[0] == "connect"
    assert store.asked.count("connect") == 1
    assert scheduler.health().ok
    assert scheduler.stop()


def test_a_trigger_may_stop_its_scheduler_from_its_own_loop(
    store: Store, clock: ManualClock
) -> None:
    answers: list[bool] = []

    @dataclass(frozen=True)
    class Stopping(Trigger):
        kind = "test_scheduler stopping"

        def first_fire_time(self, now: datetime) -> datetime | None:
            return now

        def next_fire_time(self, after: datetime) -> datetime | None:
            answers.append(scheduler.stop(timedelta(0)))
            return None

    scheduler = Scheduler(None, store, clock=clock)
    scheduler.start()
    scheduler.schedule(TaskDefinition(trigger=Stopping()))
    clock.advance(seconds(1))
    assert answers
    assert scheduler.health().node is None


@pytest.mark.slow
def test_ten_threads_that_start_schedule_and_stop_do_not_deadlock() -> None:
    of_others = set(threading.enumerate())
    ran = threading.Semaphore(0)
    scheduler = Scheduler(lambda _: ran.release())
    errors: list[BaseException] = []

    def rounds(number: int) -> None:
        try:
            for turn in range(50):
                scheduler.start()
                if turn % 10 == number:
                    scheduler.schedule(once(now()))
                scheduler.health()
                scheduler.stop(timedelta(0) if turn % 3 else None)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=rounds, args=[number], daemon=True)
        for number in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(FAILED_AFTER)
        assert not thread.is_alive()
    assert errors == []
    scheduler.start()
    scheduler.schedule(once(now()))
    assert ran.acquire(timeout=FAILED_AFTER)
    assert scheduler.stop()
    for each in set(threading.enumerate()) - of_others:
        each.join(FAILED_AFTER)
        assert not each.is_alive(), each.name


def test_off_the_main_thread_it_runs_until_it_is_stopped(real: list[Scheduler]) -> None:
    scheduler = Scheduler(lambda _: scheduler.stop())
    real.append(scheduler)
    before = signal.getsignal(signal.SIGINT)
    running = threading.Thread(target=scheduler.run, daemon=True)
    running.start()
    scheduler.schedule(once(now()))
    running.join(FAILED_AFTER)
    assert not running.is_alive()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_its_handlers_come_back(
    real: list[Scheduler], number: signal.Signals
) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    stopping: list[bool] = []

    def handler(instance: TaskInstance) -> None:
        os.kill(os.getpid(), number)
        while not scheduler._node.stopping:  # type: ignore[union-attr]
            threading.Event().wait(0.001)
        stopping.append(current_run().cancelled)

    scheduler = Scheduler(handler)
    real.append(scheduler)
    scheduler.schedule(once(now()))
    scheduler.run()
    assert stopping == [False]
    assert scheduler.counts()[State.COMPLETED] == 1
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert after == before


# From 3.12 on Python warns of what one of these programs is about.
_FORKS = ("-W", "ignore:This process:DeprecationWarning")


def process(code: str) -> subprocess.Popen[str]:
    lines = textwrap.dedent(code)
    prelude = """
import os, signal, sys, threading
from datetime import timedelta
from go_scheduler.clock import SystemClock
from go_scheduler.errors import SchedulerStateError
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.triggers.simple import ExecuteOnceTrigger

def once():
    now = SystemClock().now()
    return TaskDefinition(trigger=ExecuteOnceTrigger(now))
"""
    return subprocess.Popen(
        [sys.executable, *_FORKS, "-c", prelude + lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


RUNNING = """
def handler(instance):
    print("called", flush=True)
    {wait}
    print("returned", flush=True)

scheduler = Scheduler(handler)
scheduler.schedule(once())
scheduler.run()
print("stopped", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_process_with_a_hung_handler_ends_after_the_second_signal(kind: str) -> None:
    code = RUNNING.format(wait="threading.Event().wait()").replace(
        "def handler", f"{kind} handler"
    )
    running = process(code)
    assert running.stdout is not None
    assert running.stdout.readline() == "called\n"
    running.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.3)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=FAILED_AFTER)
    assert (out, errors, running.returncode) == ("stopped\n", "", 0)


@pytest.mark.slow
def test_in_a_forked_process_it_says_that_it_cannot_be_used() -> None:
    forked = process(
        """
        scheduler = Scheduler(lambda instance: None)
        scheduler.start()
        child = os.fork()
        if child == 0:
            for call in (scheduler.start, scheduler.stop, scheduler.run):
                try:
                    call()
                except SchedulerStateError as error:
                    print("another one in each process" in str(error))
            print("another one" in scheduler.health().trouble)
            print(scheduler.health().node, threading.active_count(), flush=True)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        print(scheduler.health().ok, scheduler.stop(), flush=True)
        """
    )
    out, errors = forked.communicate(timeout=FAILED_AFTER)
    assert out.splitlines() == ["True"] * 4 + ["None 1", "7", "True True"]
    assert errors == ""


@pytest.mark.slow
def test_a_process_that_forks_before_it_starts_may_start_in_each() -> None:
    forked = process(
        """
        scheduler = Scheduler(lambda instance: done.set())
        done = threading.Event()
        child = os.fork()
        with scheduler:
            scheduler.schedule(once())
            os.write(1, b"ran\\n" if done.wait(30) else b"hangs\\n")
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    out, errors = forked.communicate(timeout=FAILED_AFTER)
    assert out.splitlines() == ["ran", "ran"]
    assert errors == ""
