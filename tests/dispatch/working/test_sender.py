"""What is to be said of runs is kept within bounds, and in its order."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.dispatch import Run, Status, Topics, read_status
from go_scheduler.dispatch.working.ended import Ended
from go_scheduler.dispatch.working.places import Places
from go_scheduler.dispatch.working.sender import Sender
from go_scheduler.dispatch.working.served import served_topics
from go_scheduler.dispatch.working.taken import Key, Taken
from go_scheduler.handlers.registry import HandlerRegistry
from tests.dispatch.working.bench import AT, PATIENCE, WHAT
from tests.dispatch.working.shaky import ShakyBus

ID = UUID(int=7)
TOPICS = Topics()


def status(said: str, **others: Any) -> Status:
    what: dict[str, Any] = {"instance_id": ID, "attempt": 1, "worker": "w", "at": AT}
    return Status(status=said, **{**what, **others})  # type: ignore[arg-type]


class Slow(ShakyBus):
    """A bus on which each message waits until it is let."""

    def __init__(self) -> None:
        self.said: list[Status] = []
        self.begun, self.let = threading.Semaphore(0), threading.Semaphore(0)

    def publish(self, topic: str, body: bytes, **options: object) -> None:
        self.begun.release()
        assert self.let.acquire(timeout=PATIENCE)
        self.said.append(read_status(body))


def test_of_what_waits_only_the_newest_is_sent() -> None:
    bus, done = Slow(), threading.Semaphore(0)
    sender = Sender(bus, "statuses", SystemClock())
    sender.start()

    def then(sent: bool) -> None:
        assert sent
        done.release()

    sender.put(status("heartbeat", progress=1), then)
    assert bus.begun.acquire(timeout=PATIENCE)
    # While the first is being sent.
    sender.put(status("heartbeat", progress=2))
    sender.put(status("heartbeat", progress=3))
    sender.put(status("started"))
    bus.let.release(2)
    assert done.acquire(timeout=PATIENCE)
    assert bus.begun.acquire(timeout=PATIENCE)
    assert bus.begun.acquire(timeout=PATIENCE)
    # What began is being said, and what would follow is needless now.
    sender.put(status("heartbeat", progress=4))
    sender.put(status("succeeded"), then)
    bus.let.release(2)
    assert done.acquire(timeout=PATIENCE)
    assert sender.close() == []
    assert [(each.status, each.progress) for each in bus.said] == [
        ("heartbeat", 1),
        ("heartbeat", 3),
        ("started", None),
        ("succeeded", None),
    ]


def test_what_has_ended_is_remembered_within_bounds() -> None:
    ended = Ended(most=2, most_bytes=1000)
    keys = [Key(ID, number) for number in range(1, 5)]
    for each in keys[:3]:
        ended.add(each, status("released"))
    assert [ended.get(each) is not None for each in keys] == [False, True, True, False]
    ended.add(keys[3], status("failed", error="x" * 700))
    assert [ended.get(each) is not None for each in keys] == [False, False, True, True]
    ended.add(keys[0], status("failed", error="x" * 2000))
    assert [ended.get(each) is not None for each in keys] == [False] * 4


def taken(task: str, topic: str) -> Taken:
    run = Run(**{**WHAT, "instance_id": ID, "task": task})
    return Taken(run, topic, lambda taken, progress: None)


def test_no_more_come_than_there_is_room_for() -> None:
    places = Places(8, {"resize": 2}, {"all": None, "own": "resize"})
    assert [places.prefetch(each) for each in ("all", "own")] == [4, 2]
    first = taken("resize", "own")
    places.take(first)
    assert places.room("own") == 1
    assert places.room("all", "resize") == 1
    assert places.room("all", "send") == places.room("all") == 7
    # What is nearly right stays.
    assert places.prefetch("own", 2) == 2
    places.take(taken("resize", "all"))
    assert places.prefetch("own", 2) == 0
    assert places.prefetch("own", 0) == 0
    places.leave(first)
    assert places.prefetch("own", 0) == 1
    for _ in range(6):
        places.take(taken("send", "all"))
    assert places.prefetch("all", 4) == 1


REGISTRY = HandlerRegistry()
REGISTRY.register("a")(print)
REGISTRY.register("b")(print)


@pytest.mark.parametrize(
    ("handler", "own", "found"),
    [
        (print, False, {"run.q": None}),
        (print, {"c"}, {"run.q": None, "run.q.c": "c"}),
        (REGISTRY, True, {"run.q.a": "a", "run.q.b": "b"}),
        (REGISTRY, ["a", "c"], {"run.q": None, "run.q.a": "a"}),
    ],
)
def test_it_serves_the_topics_of_what_it_knows(
    handler: object, own: Any, found: dict[str, str | None]
) -> None:
    served = served_topics(TOPICS, ["q"], handler, own)
    assert served == {f"go_scheduler.{name}": task for name, task in found.items()}
