"""What a worker does while its bus is away, and when it is to stop meanwhile."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.dispatch import DispatchWorker, Run, Topics, open_bus
from go_scheduler.dispatch.worker import BusTransport
from go_scheduler.errors import BusUnavailableError
from go_scheduler.testing import ManualClock
from go_scheduler.working.worker import Loop
from tests.dispatch.direct_bus import DirectBus
from tests.dispatch.working.bench import WHAT, Bench, Held
from tests.dispatch.working.shaky import ClumsyBus, ShakyBus
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "a worker"
LOG = logging.getLogger("go_scheduler.dispatch.worker")


@pytest.fixture
def bus(one: Bench) -> ShakyBus:
    return ShakyBus(one.bus)


class Living:
    """One start of a worker whose handler is held, and its end."""

    def __init__(
        self,
        one: Bench,
        bus: ShakyBus,
        *,
        grace: timedelta = timedelta(minutes=1),
        **more: Any,
    ) -> None:
        self.one, self.bus, self.held = one, bus, Held()
        given: dict[str, Any] = {"max_workers": 2, "limits": {}, **more}
        transport = BusTransport(
            bus=bus,
            handler=self.held,
            topics=one.topics,
            served={one.topics.runs("default"): None},
            name=NAME,
            **given,
        )
        self.loop = Loop(transport, self.held, log=LOG, grace=grace)
        self.loop.start()

    def begin_unaccepted(self) -> Run:
        """A run of which the bus does not take that it was accepted."""
        self.bus.take_away()
        run = self.one.publish()
        self.bus.wait_until_refused()
        assert self.bus.heard.acquire(timeout=FAILED_AFTER)
        return run

    def after(self, do: Callable[[], None]) -> None:
        """Do something, and wait until the worker has taken notice of it."""
        do()
        assert self.bus.heard.acquire(timeout=FAILED_AFTER)
        self.settle()

    def settle(self) -> None:
        """Wait until its event loop has done what it was told before."""
        done = threading.Event()
        self.loop._loop.call_soon_threadsafe(done.set)
        assert done.wait(FAILED_AFTER)

    def end(self) -> None:
        self.loop.request_stop()
        assert self.loop.join(FAILED_AFTER)
        assert self.loop.error is None


def test_what_came_of_a_run_is_told_once_the_bus_is_back(
    one: Bench, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "go_scheduler.dispatch.worker")
    held = Held()
    with DispatchWorker(bus, held, name=NAME):
        run = one.publish(heartbeat_timeout=ZERO)
        one.until(run, "heartbeat")
        bus.take_away()
        for _ in range(2):
            bus.wait_until_refused()
        held.go_on.set()
        assert one.of(run)[-1] == "heartbeat"
        for _ in range(3):
            bus.wait_until_refused()
        bus.bring_back()
        assert one.end_of(run).status == "succeeded"
    assert one.of(run)[-1] == "succeeded"
    assert caplog.text.count("the bus is away, and statuses wait") == 1
    assert "the bus is back, and statuses are sent again" in caplog.text


def test_a_stop_waits_until_the_bus_has_what_came_of_runs(
    one: Bench, bus: ShakyBus
) -> None:
    living = Living(one, bus)
    run = one.publish()
    one.until(run, "started")
    bus.take_away()
    living.held.go_on.set()
    bus.wait_until_refused()
    living.loop.request_stop()
    living.settle()
    assert not living.loop.join(0)
    bus.bring_back()
    living.end()
    assert one.end_of(run).status == "succeeded"


def test_what_cannot_be_told_in_time_is_told_in_the_log(
    one: Bench, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    living = Living(one, bus, patience=ZERO)
    run = one.publish(heartbeat_timeout=ZERO)
    one.until(run, "heartbeat")
    bus.take_away()
    bus.wait_until_refused()
    living.held.go_on.set()
    living.end()
    id = run.instance_id
    assert f"that {id}, attempt 1, has succeeded was not sent" in caplog.text
    assert "heartbeat was not sent" not in caplog.text


def test_what_comes_twice_before_it_is_accepted_runs_once(
    one: Bench, bus: ShakyBus
) -> None:
    living = Living(one, bus)
    run = living.begin_unaccepted()
    living.after(lambda: one.again(run))
    bus.bring_back()
    one.until(run, "started")
    living.held.go_on.set()
    living.end()
    assert living.held.most == 1
    assert one.of(run).count("accepted") == 1


@pytest.mark.parametrize("reason", ["cancelled", "lost"])
def test_what_is_cancelled_before_it_begins_is_given_back(
    one: Bench, bus: ShakyBus, reason: str
) -> None:
    living = Living(one, bus)
    run = living.begin_unaccepted()
    living.after(lambda: one.cancel(run, NAME, reason=reason))
    bus.bring_back()
    end = one.end_of(run)
    assert (end.status, end.delay) == ("released", ZERO)
    living.end()
    assert not living.held.called.acquire(blocking=False)


def test_what_has_not_begun_at_a_stop_is_given_back(one: Bench, bus: ShakyBus) -> None:
    living = Living(one, bus, short_patience=timedelta(seconds=FAILED_AFTER))
    run = living.begin_unaccepted()
    living.loop.request_stop()
    living.settle()
    # What still comes after a stop is for others.
    other = one.publish()
    bus.bring_back()
    assert one.end_of(run).status == "released"
    living.end()
    with DispatchWorker(one.bus, lambda work: None, name="another"):
        assert one.end_of(other).worker == "another"


def test_what_comes_in_a_burst_and_has_no_place_goes_back_to_the_bus() -> None:
    direct = DirectBus()
    one = Bench(direct, Topics())
    living = Living(one, ShakyBus(direct), max_workers=1)
    living.settle()
    topic = one.topics.runs("default")
    runs = [Run(**WHAT, instance_id=uuid4()) for _ in range(2)]
    first, second = (direct.deliver(topic, each.to_bytes()) for each in runs)
    living.settle()
    assert second.settled == ["requeue"]
    living.held.go_on.set()
    living.end()
    assert first.settled == ["ack"]


def test_what_nobody_hears_of_goes_back_to_the_bus(one: Bench, bus: ShakyBus) -> None:
    living = Living(one, bus, short_patience=ZERO)
    run = living.begin_unaccepted()
    living.end()
    with DispatchWorker(one.bus, lambda work: None, name="another"):
        end = one.end_of(run)
    assert (end.status, end.worker) == ("succeeded", "another")


def test_what_the_bus_never_takes_costs_only_itself(
    one: Bench, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    living = Living(one, bus, max_workers=1)
    living.held.go_on.set()
    bus.wrong = ValueError("it is too long")
    run = one.publish()
    bus.wait_until_refused()
    living.settle()
    bus.bring_back()
    assert one.end_of(one.publish()).status == "succeeded"
    living.end()
    assert f"{run.instance_id}, attempt 1, has accepted" in caplog.text
    assert one.of(run) == []


def test_a_thread_beyond_its_timeout_is_left_to_the_scheduler(
    one: Bench, bus: ShakyBus
) -> None:
    living = Living(one, bus, grace=ZERO)
    run = one.publish(timeout=timedelta(seconds=0.01))
    one.until(run, "heartbeat")
    living.held.go_on.set()
    assert one.end_of(run).status == "succeeded"
    living.end()


def test_on_a_bus_that_has_been_closed_it_does_not_start() -> None:
    bus = open_bus("memory://closed")
    bus.close()
    worker = DispatchWorker(bus, print)
    for begin in (worker.start, worker.run):
        with pytest.raises(BusUnavailableError, match="the bus has been closed"):
            begin()
    assert worker.stop()


def test_a_bus_that_raises_when_it_is_told_of_messages_costs_no_run(
    one: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    living = Living(one, ClumsyBus(one.bus))
    one.bus.publish(one.topics.runs("default"), b"?")
    runs = [one.publish() for _ in range(2)]
    living.held.wait(2)
    living.held.go_on.set()
    for each in runs:
        assert one.end_of(each).status == "succeeded"
    living.end()
    for what in ("ack", "reject"):
        told = f"could not be acknowledged or rejected: no {what}, for a test"
        assert told in caplog.text
    assert "the prefetch of go_scheduler.run.default cannot be changed" in caplog.text


def test_what_nobody_can_read_fills_no_log(
    one: Bench, bus: ShakyBus, caplog: pytest.LogCaptureFixture
) -> None:
    # Of a clock that stands all is within one second.
    living = Living(one, bus, clock=ManualClock())
    for _ in range(20):
        one.bus.publish(one.topics.runs("default"), b"?")
    for _ in range(20):
        assert bus.heard.acquire(timeout=FAILED_AFTER)
    living.settle()
    living.end()
    assert caplog.text.count("is dropped: ") == 5
    assert "15 more such lines were left out" in caplog.text
