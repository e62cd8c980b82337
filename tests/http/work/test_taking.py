"""Workers wait for work, and are handed what is due, once and on time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.handlers.job_types import MARK
from go_scheduler.models import State
from go_scheduler.stores.memory.store import MemoryStore
from tests.http.work.house import Server, server
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with server(MemoryStore()) as found:
        yield found


def test_a_worker_is_handed_what_is_due(shared: Server) -> None:
    task = shared.task(queue="a", name="send", metadata={"to": "all", MARK: {}})
    made = shared.scheduler.run_now(task.id, payload={"order": 7})
    work = shared.take_one("a", worker="w-1")
    assert work == {
        "instance_id": str(made.id),
        "token": work["token"],
        "attempt": 1,
        "type": "send",
        "payload": {"order": 7},
        "metadata": {"to": "all"},
        "execute_at": work["execute_at"],
        "lease": 30,
        "definition_id": str(task.id),
        "queue": "a",
        "traceparent": None,
        "tracestate": None,
    }
    assert datetime.fromisoformat(work["execute_at"]) == made.execute_at
    shared.wait_until(lambda: shared.instance(work).worker == "w-1")
    assert shared.instance(work).state is State.RUNNING
    assert shared.tell(work, "complete").json() == {"answer": "recorded"}
    assert shared.instance(work).state is State.COMPLETED


def test_a_worker_that_waits_already_is_handed_what_comes_up(shared: Server) -> None:
    asked = shared.ask_meanwhile("b")
    shared.once(queue="b")
    [work] = asked.result(FAILED_AFTER).json()["work"]
    assert work["payload"] is None


def test_nothing_is_handed_out_early(shared: Server) -> None:
    asked = shared.ask_meanwhile("c")
    shared.once(0.2, queue="c")
    [work] = asked.result(FAILED_AFTER).json()["work"]
    assert SystemClock().now() >= datetime.fromisoformat(work["execute_at"])


def test_without_work_the_answer_is_empty_after_the_wait(shared: Server) -> None:
    answer = shared.ask("d", wait=0)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["cache-control"] == "no-store"


def test_one_worker_is_handed_no_more_than_it_takes_at_once(shared: Server) -> None:
    task = shared.task(queue="e")
    for _ in range(5):
        shared.scheduler.run_now(task.id)
    found: list[dict[str, Any]] = []
    # Whatever is there when the first is handed over: one at least.
    while len(found) < 5:
        found += (some := shared.take("e", max=3))
        assert len(some) <= 3
    assert len({each["instance_id"] for each in found}) == 5


def test_of_many_workers_each_is_handed_something_else(shared: Server) -> None:
    task = shared.task(queue="f")
    asked = [shared.ask_meanwhile("f") for _ in range(8)]
    for _ in range(8):
        shared.scheduler.run_now(task.id)
    found = [each.result(FAILED_AFTER).json()["work"] for each in asked]
    assert len({work["instance_id"] for [work] in found}) == 8


def test_a_worker_waits_for_several_queues(shared: Server) -> None:
    asked = shared.ask_meanwhile("g,h")
    shared.once(queue="h")
    [work] = asked.result(FAILED_AFTER).json()["work"]
    assert shared.instance(work).definition.queue == "h"


def test_a_flooded_queue_keeps_nothing_of_a_quiet_one_from_its_turn(
    shared: Server,
) -> None:
    flood = shared.task(queue="flood")
    for _ in range(5):
        shared.scheduler.run_now(flood.id)
    quiet = shared.once(queue="quiet")
    for _ in range(100):
        shared.scheduler.run_now(flood.id)
    found = [shared.take_one("flood,quiet") for _ in range(10)]
    assert quiet.id in {shared.instance(work).definition.id for work in found}


def test_who_waits_for_a_quiet_queue_alone_waits_for_no_flood(shared: Server) -> None:
    flood = shared.task(queue="flood 2")
    for _ in range(100):
        shared.scheduler.run_now(flood.id)
    asked = shared.ask_meanwhile("quiet 2")
    assert len(shared.take("flood 2", max=50)) > 0
    shared.once(queue="quiet 2")
    assert len(asked.result(FAILED_AFTER).json()["work"]) == 1


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queues": ""}, "queues"),
        ({"queues": "a,,b"}, "queues"),
        ({"queues": "x" * 300}, "queues"),
        ({"queues": ",".join(map(str, range(65)))}, "queues"),
        ({"max": 0}, "max"),
        ({"max": 101}, "max"),
        ({"wait": -1}, "wait"),
        ({"wait": 61}, "wait"),
        ({"wait": "nan"}, "wait"),
        ({"worker": ""}, "worker"),
        ({"worker": "a\x00b"}, "worker"),
        ({"wait_for": 1}, "wait_for"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    shared: Server, asked: dict[str, object], field: str
) -> None:
    answer = shared.ask(**{"queues": "default", "wait": 0, **asked})  # type: ignore[arg-type]
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]
