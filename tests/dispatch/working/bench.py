"""What a worker on a bus is tested on: runs are published, what it says is heard."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from go_scheduler.dispatch import (
    Cancel,
    Run,
    Status,
    Topics,
    open_bus,
    read_statuses,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.dispatch import Delivery, MessageBus

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)
ENDS = ("succeeded", "failed", "released")


def read_all(body: bytes) -> list[Status]:
    """The statuses in a message."""
    found = [each for each in read_statuses(body) if isinstance(each, Status)]
    assert found, body
    return found


class Bench:
    """A bus, with what is published and heard there."""

    def __init__(self, bus: MessageBus, topics: Topics) -> None:
        self.bus = bus
        self.topics = topics
        self.said: list[Status] = []
        self._changed = threading.Condition()

    def hear(self, delivery: Delivery) -> None:
        with self._changed:
            self.said.extend(read_all(delivery.body))
            delivery.ack()
            self._changed.notify_all()

    def publish(self, topic: str | None = None, **others: Any) -> Run:
        """Publish a run, or one that is known again."""
        run = Run(**{**WHAT, "instance_id": uuid4(), **others})
        self.bus.publish(topic or self.topics.runs(run.queue), run.to_bytes())
        return run

    def again(self, run: Run) -> None:
        """Publish it once more."""
        self.bus.publish(self.topics.runs(run.queue), run.to_bytes())

    def cancel(self, run: Run, worker: str, *, reason: Any = "cancelled") -> None:
        """Have a run end, if it is there."""
        told = Cancel(instance_id=run.instance_id, attempt=run.attempt, reason=reason)
        self.bus.publish(self.topics.control(worker), told.to_bytes())

    def of(self, run: Run) -> list[str]:
        """What has been said of a run."""
        return [each.status.value for each in self.all_of(run)]

    def all_of(self, run: Run) -> list[Status]:
        return [each for each in self.said if each.instance_id == run.instance_id]

    def until(self, run: Run, *said: str, count: int = 1) -> Status:
        """The status that says so of a run, so many times, once it has come."""

        def found() -> list[Status]:
            return [each for each in self.all_of(run) if each.status in said]

        with self._changed:
            assert self._changed.wait_for(
                lambda: len(found()) >= count, FAILED_AFTER
            ), self.said
            return found()[-1]

    def end_of(self, run: Run) -> Status:
        """What is said of it at last."""
        return self.until(run, *ENDS)


WHAT: dict[str, Any] = {
    "attempt": 1,
    "task": "send",
    "queue": "default",
    "definition_id": UUID(int=1),
    "fire_time": AT,
    "execute_at": AT,
    "payload": None,
    "metadata": {},
    "key": None,
    "runs": 0,
    "start_by": None,
    "heartbeat_timeout": timedelta(minutes=1),
    "timeout": None,
}


class Held:
    """A handler that goes on once it is let.

    Attributes:
        called: Released for each call.
        most: How many it has run at once.
    """

    def __init__(self) -> None:
        self.called = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.most = self._running = 0
        self._lock = threading.Lock()

    def __call__(self, work: object) -> object:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self.called.release()
        try:
            assert self.go_on.wait(FAILED_AFTER)
        finally:
            with self._lock:
                self._running -= 1
        return None

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.called.acquire(timeout=FAILED_AFTER)


@contextmanager
def bench(url: str, namespace: str = "go_scheduler") -> Iterator[Bench]:
    """One on a bus of its own, or with topics of its own."""
    with open_bus(url) as bus:
        found = Bench(bus, Topics(namespace))
        bus.subscribe(found.topics.statuses, found.hear, prefetch=100)
        yield found
