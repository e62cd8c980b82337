"""A user's listener may raise, block or be slow: it costs nobody else anything."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.events import DefinitionsMoved, Event, Listener, event_bus, hears
from go_scheduler.events.event_bus import Delivery, Events
from go_scheduler.testing import ManualClock
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Making = Callable[[Listener], Delivery]

LONG = timedelta(seconds=FAILED_AFTER)
FORK_WITH_A_THREAD = """
import os, threading
from datetime import timedelta
from go_scheduler.clock import SystemClock
from go_scheduler.events import DefinitionsMoved
from go_scheduler.events.event_bus import Delivery

def listen(event):
    heard.append(event)
    entered.set()

heard, entered, clock = [], threading.Event(), SystemClock()
delivery = Delivery(listen, clock)
delivery.put(DefinitionsMoved(count=1))
entered.wait(30)
child = os.fork()
delivery.put(DefinitionsMoved(count=2))
delivery.close(clock.elapsed() + timedelta(seconds=30))
assert [each.count for each in heard] == [1, 2], heard
if child:
    assert os.waitpid(child, 0)[1] == 0
print("parent" if child else "child", flush=True)
os._exit(0)
"""


class Noting:
    """Notes what it hears, and blocks for as long as it is told to."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.threads: list[threading.Thread] = []
        self.entered = threading.Semaphore(0)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __repr__(self) -> str:
        return "a listener"

    def __call__(self, event: Event) -> None:
        self.threads.append(threading.current_thread())
        self.entered.release()
        assert self.goes_on.wait(FAILED_AFTER)
        self.heard.append(event)


class Ahead(SystemClock):
    """The machine's clock, which can be set ahead."""

    def __init__(self) -> None:
        self.by = timedelta(0)

    def elapsed(self) -> timedelta:
        return super().elapsed() + self.by


def event(number: int) -> Event:
    return DefinitionsMoved(count=number)


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
def listener() -> Noting:
    return Noting()


@pytest.fixture
def deliveries(clock: Ahead) -> Iterator[Making]:
    """Makes deliveries, and closes them in the end."""
    made: list[Delivery] = []
    before = listening()

    def make(listener: Listener) -> Delivery:
        made.append(Delivery(listener, clock))
        return made[-1]

    yield make
    for each in made:
        each.close(clock.elapsed() + LONG)
    assert listening() <= before


def listening() -> set[threading.Thread]:
    named = "go_scheduler listener"
    return {each for each in threading.enumerate() if each.name.startswith(named)}


@pytest.fixture
def delivery(deliveries: Making, listener: Noting) -> Delivery:
    return deliveries(listener)


def test_a_listener_is_told_in_order_on_a_daemon_of_its_own(
    delivery: Delivery, listener: Noting, clock: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_bus, "_IDLE", 2 * LONG)
    for number in range(5):
        delivery.put(event(number))
    delivery.close(clock.elapsed() + LONG)
    assert listener.heard == [event(number) for number in range(5)]
    [thread] = set(listener.threads)
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert thread.name == "go_scheduler listener a listener"
    assert not thread.is_alive()


def test_a_listener_that_blocks_is_not_waited_for_and_what_is_too_much_is_dropped(
    deliveries: Making,
    delivery: Delivery,
    listener: Noting,
    clock: Ahead,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(event_bus, "MOST_WAITING", 2)
    listener.goes_on.clear()
    delivery.put(event(0))
    assert listener.entered.acquire(timeout=FAILED_AFTER)
    for number in range(1, 6):
        delivery.put(event(number))
    assert delivery.dropped == 3
    clock.by += timedelta(minutes=1)
    delivery.put(event(6))
    said = "the listener a listener is too slow: {} events have been dropped so far"
    assert caplog.messages == [said.format(1), said.format(4)]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}
    # A close waits no longer than it is told to, and others hear meanwhile.
    delivery.close(clock.elapsed() + timedelta(milliseconds=1))
    other = deliveries(quick := Noting())
    for number in range(2):
        other.put(event(number))
        assert quick.entered.acquire(timeout=FAILED_AFTER)
    other.close(clock.elapsed() + LONG)
    assert (len(quick.heard), listener.heard) == (2, [])
    listener.goes_on.set()
    listener.threads[0].join(FAILED_AFTER)
    assert listener.heard == [event(number) for number in range(3)]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_listener_that_raises_goes_on_and_a_few_lines_say_so(
    deliveries: Making,
    clock: Ahead,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
) -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        heard.append(event)
        raise error

    delivery = deliveries(fail)
    for number in range(7):
        delivery.put(event(number))
    delivery.close(clock.elapsed() + LONG)
    assert len(heard) == 7
    assert len(caplog.records) == 5
    first = caplog.records[0]
    assert first.name == "go_scheduler.events"
    assert first.levelno == logging.ERROR
    assert first.exc_info is not None
    assert first.getMessage().endswith(
        f"fail failed when it was told of DefinitionsMoved: {error!r}"
    )
    clock.by += timedelta(minutes=1)
    delivery.put(event(7))
    delivery.close(clock.elapsed() + LONG)
    assert caplog.messages[5] == "2 more such lines were left out"
    assert len(caplog.records) == 7


def test_a_thread_that_has_nothing_to_tell_ends_and_the_next_event_starts_another(
    delivery: Delivery, listener: Noting, clock: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_bus, "_IDLE", timedelta(0))
    delivery.put(event(0))
    assert listener.entered.acquire(timeout=FAILED_AFTER)
    listener.threads[0].join(FAILED_AFTER)
    assert not listener.threads[0].is_alive()
    delivery.put(event(1))
    delivery.close(clock.elapsed() + LONG)
    assert listener.heard == [event(0), event(1)]
    assert len(set(listener.threads)) == 2


def test_where_no_thread_can_be_started_the_next_event_tries_again(
    delivery: Delivery, listener: Noting, clock: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        delivery.put(event(0))
        delivery.close(clock.elapsed() + LONG)
    delivery.put(event(1))
    delivery.close(clock.elapsed() + LONG)
    assert listener.heard == [event(0), event(1)]


@pytest.mark.slow
def test_in_a_forked_process_it_begins_anew() -> None:
    done = subprocess.run(
        # A fork beside threads is what Python warns of from 3.12 on.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_WITH_A_THREAD],
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["child", "parent"], "")


def test_a_listener_in_place_may_do_what_it_is_told_of() -> None:
    clock, heard = ManualClock(), []

    def go_on(event: Event) -> None:
        heard.append(event)
        if len(heard) < 3:
            events.pass_on(event)
        assert events.is_own_thread

    events = Events([hears(DefinitionsMoved)(go_on)], clock)
    events.pass_on(event(0))
    assert heard == [event(0)] * 3
    assert not events.is_own_thread


def test_on_a_manual_clock_it_is_told_in_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, heard = ManualClock(), []

    def fail(event: Event) -> None:
        heard.append((event, threading.current_thread()))
        raise SystemExit(1)

    events = Events([hears(DefinitionsMoved)(fail)], clock)
    events.teller("test").tell(event(1))
    assert heard == [(event(1), threading.current_thread())]
    assert len(caplog.records) == 1
    events.close(clock.elapsed())
    assert events.dropped == 0
