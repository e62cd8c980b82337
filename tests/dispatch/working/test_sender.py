"""What is to be said of runs is kept within bounds, and in its order."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler.dispatch import Run, Status, Topics
from go_scheduler.dispatch.worker import (
    Ended,
    Key,
    Places,
    Sender,
    Taken,
    served_topics,
)
from go_scheduler.errors import BusUnavailableError
from tests.dispatch.working.bench import AT, WHAT, read_all
from tests.dispatch.working.shaky import ShakyBus

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = UUID(int=7)


def status(said: str, **others: Any) -> Status:
    what: dict[str, Any] = {"instance_id": ID, "attempt": 1, "worker": "w", "at": AT}
    return Status(status=said, **{**what, **others})  # type: ignore[arg-type]


class Slow(ShakyBus):
    """A bus on which each message is under way until the test says what becomes of it.

    Attributes:
        bodies: Those under way or published, in their order.
        raises: What it raises at once, where it should not.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.raises: Exception | None = None
        self._under_way: list[Future[None]] = []

    def publish_soon(self, topic: str, body: bytes, **options: object) -> Future[None]:
        if self.raises is not None:
            raise self.raises
        self.bodies.append(body)
        self._under_way.append(Future())
        return self._under_way[-1]

    def end(self, error: Exception | None = None, *, at: int = 0) -> None:
        """One of those under way is there, or is not."""
        future = self._under_way.pop(at)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def cancel(self) -> None:
        """The first of those under way is cancelled, which a bus ought not to do."""
        self._under_way.pop(0).cancel()

    @property
    def said(self) -> list[list[tuple[int, str, object]]]:
        """What was said, by message: of which attempt, what, and how far it is."""
        return [
            [(each.attempt, each.status.value, each.progress) for each in read_all(it)]
            for it in self.bodies
        ]


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves on."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def run(self) -> None:
        """All that is to be done now."""
        self.run_until_complete(_settled())

    def wait(self) -> None:
        """All that is to be done at some time."""
        self.now += 3600
        self.run()


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Saying:
    """A sender on a slow bus."""

    def __init__(self) -> None:
        self.bus, self.loop = Slow(), Loop()
        self.sender = self.loop.run_until_complete(self._made())
        self.told: list[tuple[str, bool]] = []

    async def _made(self) -> Sender:
        return Sender(self.bus, "statuses")

    def put(self, *said: str, run: int = 1, **others: Any) -> None:
        """Say something of a run, and let the event loop go on."""
        for each in said:
            then = partial(self._note, f"{run} {each}")
            self.sender.put(status(each, attempt=run, **others), then)
        self.loop.run()

    def end(self, error: Exception | None = None, *, at: int = 0) -> None:
        """Let one of the messages under way be there, or not."""
        self.bus.end(error, at=at)
        self.loop.run()

    def close(self) -> None:
        """End the event loop, as a worker does that leaves what is under way."""
        self.sender.close()
        for each in asyncio.all_tasks(self.loop):
            each.cancel()
        self.loop.run()

    def _note(self, what: str, sent: bool) -> None:
        self.told.append((what, sent))


@pytest.fixture
def saying() -> Iterator[Saying]:
    found = Saying()
    yield found
    found.close()
    found.loop.close()


def test_of_what_waits_only_the_newest_is_sent(saying: Saying) -> None:
    saying.put("heartbeat", progress=1)
    # While the first is under way.
    saying.put("heartbeat", progress=2)
    saying.put("heartbeat", progress=3)
    saying.put("started")
    assert len(saying.bus.said) == 1
    saying.end()
    # What began is being said, and what would follow is needless now.
    saying.put("heartbeat", progress=4)
    saying.put("succeeded")
    saying.end()
    saying.end()
    assert saying.bus.said == [
        [(1, "heartbeat", 1)],
        [(1, "heartbeat", 3), (1, "started", None)],
        [(1, "succeeded", None)],
    ]
    assert saying.sender.close() == []


def test_messages_of_several_runs_are_under_way_at_once(saying: Saying) -> None:
    for run in range(1, 8):
        saying.put("accepted", run=run)
    # Four messages, and the rest in one once the first of them is there.
    assert len(saying.bus.said) == 4
    saying.put("started", run=2)
    saying.end()
    assert saying.bus.said[4:] == [[(each, "accepted", None) for each in (5, 6, 7)]]
    # One that waited for its run alone.
    saying.end()
    assert saying.bus.said[5:] == [[(2, "started", None)]]
    assert saying.told == [("1 accepted", True), ("2 accepted", True)]
    for _ in range(4):
        saying.end()
    assert len(saying.told) == 8


def test_what_is_said_at_once_goes_in_messages_of_some_size(saying: Saying) -> None:
    saying.sender.put(status("failed", attempt=1000, error="x" * 40_000))
    saying.sender.put(status("failed", attempt=1001, error="x" * 40_000))
    saying.sender.put(status("failed", attempt=1002, error="x" * 90_000))
    for run in range(1, 151):
        saying.sender.put(status("accepted", attempt=run))
    saying.loop.run()
    assert [len(each) for each in saying.bus.said] == [1, 1, 1, 100]
    saying.end()
    assert [len(each) for each in saying.bus.said[4:]] == [50]


def test_what_was_under_way_waits_before_what_was_said_since(saying: Saying) -> None:
    saying.put("accepted", "started", "heartbeat", progress=1)
    saying.put("heartbeat", progress=2)
    saying.put("accepted", run=2)
    saying.end(BusUnavailableError("away"))
    saying.end(BusUnavailableError("away"))
    # Nothing is tried until some time has passed.
    saying.put("accepted", run=3)
    assert len(saying.bus.bodies) == 2
    saying.loop.wait()
    saying.end()
    assert saying.bus.said[2] == [
        (2, "accepted", None),
        (1, "accepted", 1),
        (1, "started", 1),
        (1, "heartbeat", 2),
        (3, "accepted", None),
    ]
    assert len(saying.told) == len(set(saying.told)) == 5


def test_an_end_makes_needless_what_was_not_published(saying: Saying) -> None:
    saying.put("accepted", "started")
    saying.put("failed")
    saying.end(BusUnavailableError("away"))
    saying.loop.wait()
    saying.end()
    assert saying.bus.said[1] == [(1, "accepted", None), (1, "failed", None)]
    assert saying.told == [("1 accepted", True), ("1 failed", True)]


def test_what_the_bus_does_not_take_is_found_among_others(
    saying: Saying, caplog: pytest.LogCaptureFixture
) -> None:
    for run in (1, 2, 3):
        saying.sender.put(
            status("accepted", attempt=run),
            partial(saying._note, f"{run}"),
        )
    saying.loop.run()
    saying.end(ValueError("it is too long"))
    assert [len(each) for each in saying.bus.said[1:]] == [1, 1, 1]
    saying.put("accepted", run=4)
    saying.end()
    saying.end(ValueError("it is too long"))
    saying.end()
    assert saying.told == [("1", True), ("2", False), ("3", True)]
    assert "attempt 2, has accepted" in caplog.text
    assert saying.sender.close() == [(ID, 4, "accepted")]


def test_a_bus_that_raises_or_cancels_where_it_ought_not_is_away_like_any_other(
    saying: Saying,
) -> None:
    saying.bus.raises = BusUnavailableError("it is away")
    saying.put("accepted", run=1)
    saying.bus.raises = None
    saying.loop.wait()
    saying.bus.cancel()
    saying.loop.run()
    saying.loop.wait()
    saying.end()
    assert saying.told == [("1 accepted", True)]


def test_what_is_not_there_at_the_close_is_answered(saying: Saying) -> None:
    saying.put("accepted", run=1)
    saying.put("started", run=1)
    saying.sender.put(status("accepted", attempt=2))
    assert saying.sender.close() == [
        (ID, 1, "accepted"),
        (ID, 1, "started"),
        (ID, 2, "accepted"),
    ]
    saying.end()
    assert len(saying.bus.bodies) == 1
    assert saying.told == [("1 accepted", True)]


def test_a_worker_that_ends_does_not_say_that_the_bus_is_away(
    saying: Saying, caplog: pytest.LogCaptureFixture
) -> None:
    saying.put("succeeded")
    saying.close()
    assert caplog.messages == []


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
    return Taken(run, topic, loop=None)  # type: ignore[arg-type]


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


def test_what_is_beyond_a_limit_comes_again_in_turns() -> None:
    places = Places(8, {"resize": 2, "send": 1}, {"all": None})
    assert [places.turn("resize").total_seconds() for _ in range(5)] == [1, 1, 2, 2, 3]
    assert places.turn("send").total_seconds() == 1
    assert [places.turn("resize").total_seconds() for _ in range(200)][-1] == 60
    places.take(taken("resize", "all"))
    assert places.turn("resize").total_seconds() == 1


def test_without_a_registry_the_topics_of_all_tasks_that_are_named_are_served() -> None:
    served = served_topics(Topics(), ["q"], print, {"c"})
    assert served == {"go_scheduler.run.q": None, "go_scheduler.run.q.c": "c"}
