"""Workers elsewhere take work over HTTP, keep it, and say what became of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx
import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    MemoryStore,
    OnDemandTrigger,
    Overlap,
    RetryPolicy,
    Scheduler,
    State,
    Store,
    TaskDefinition,
    TaskInstanceNotFoundError,
)
from go_scheduler.clock import SystemClock
from go_scheduler.http import ApiKey, BearerAccess, LongPoll, create_app, new_key
from go_scheduler.http.limits import Waiting
from tests.behaviour.house import Faults, wait_until
from tests.behaviour.store_house import opened
from tests.conftest import SHARED
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from go_scheduler import TaskInstance

LONG = 60
"""For how long work is waited for that is there sooner."""
SECOND = timedelta(seconds=1)
AT_ONCE = RetryPolicy(delay=timedelta(0), max_attempts=3)
MOST = 40
ALL = ("jobs:read", "jobs:write", "runs:read", "runs:write", "workers", "admin")
BODIES: dict[str, dict[str, Any]] = {
    "heartbeat": {},
    "extend": {"seconds": 5},
    "complete": {},
    "error": {"message": "no paper"},
    "release": {},
}
"""Of each report what it has to say."""
CALLERS: dict[str, dict[str, Any]] = {
    "anna": {"scopes": ALL},
    "eve": {"scopes": ALL},
    "of queues": {"scopes": ALL, "queues": ["mine", "yours"]},
    "of owners": {"scopes": ALL, "owners": ["shop"]},
    "reader": {"scopes": ["jobs:read"]},
}


class Desk:
    """A server that hands out work, and callers who take it."""

    def __init__(
        self, scheduler: Scheduler, long_poll: LongPoll, url: str, keys: dict[str, str]
    ) -> None:
        self.scheduler = scheduler
        self.long_poll = long_poll
        self.threads = ThreadPoolExecutor(MOST)
        limits = httpx.Limits(max_connections=MOST)
        self.callers = {
            name: httpx.Client(
                base_url=url,
                timeout=2 * LONG,
                limits=limits,
                headers={"Authorization": f"Bearer {key}"},
            )
            for name, key in keys.items()
        }

    def close(self) -> None:
        self.long_poll.stop_taking()
        self.threads.shutdown()
        for each in self.callers.values():
            each.close()

    def ask(
        self, queues: str, *, by: str = "anna", wait: float = LONG, **asked: Any
    ) -> httpx.Response:
        """Wait for work; what is answered."""
        query = {"queues": queues, "wait": wait, **asked}
        return self.callers[by].get("/v1/work", params=query)

    def ask_meanwhile(self, queues: str, **asked: Any) -> Future[httpx.Response]:
        """Wait for work on a thread, from when the server lets it wait."""
        waiting = self.long_poll.waiting_workers
        future = self.threads.submit(self.ask, queues, **asked)
        wait_until(lambda: self.long_poll.waiting_workers > waiting)
        return future

    def take(self, queues: str, **asked: Any) -> list[dict[str, Any]]:
        """Wait for work, and get some."""
        return work_of(self.ask(queues, **asked))

    def take_one(self, queues: str, **asked: Any) -> dict[str, Any]:
        [work] = self.take(queues, **asked)
        return work

    def tell(
        self, work: dict[str, Any], what: str, *, by: str = "anna", **body: Any
    ) -> httpx.Response:
        """Report of a run."""
        path = f"/v1/work/{work['instance_id']}/{what}"
        return self.callers[by].post(path, json={"token": work["token"], **body})

    def once(self, queue: str, after: float = 0, **fields: Any) -> TaskDefinition:
        """Schedule what is due once, after so many seconds."""
        at = ExecuteOnceTrigger(SystemClock().now() + timedelta(seconds=after))
        return self.scheduler.schedule(
            TaskDefinition(trigger=at, queue=queue, **fields)
        )

    def task(self, queue: str, **fields: Any) -> TaskDefinition:
        """Schedule what runs when it is asked to."""
        new = TaskDefinition(trigger=OnDemandTrigger(), queue=queue, **fields)
        return self.scheduler.schedule(new)

    def instance(self, work: dict[str, Any]) -> TaskInstance:
        return self.scheduler.get_instance(UUID(work["instance_id"]))

    def state(self, work: dict[str, Any]) -> str:
        return self.instance(work).state.value


def work_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """What was handed out."""
    assert answer.status_code == 200, answer.text
    work: list[dict[str, Any]] = answer.json()["work"]
    return work


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Which problem is answered."""
    kind = answer.json()["type"].removeprefix("urn:go_scheduler:")
    return answer.status_code, kind


def fields(answer: httpx.Response) -> list[str]:
    """Of which fields something is wrong."""
    assert answer.status_code == 422, answer.text
    return [each["field"] for each in answer.json()["errors"]]


@contextmanager
def desk(store: Store, **options: Any) -> Iterator[Desk]:
    """A server on a store, whose scheduler creates instances and runs none."""
    names = ("retry", "retention")
    settings = {key: options.pop(key) for key in names if key in options}
    lease = options.pop("node_lease", None)
    settings |= {} if lease is None else {"lease": lease}
    made = {name: new_key() for name in CALLERS}
    keys = [
        ApiKey(subject=name, hash=made[name].kept, **of) for name, of in CALLERS.items()
    ]
    with ExitStack() as stack:
        scheduler = stack.enter_context(Scheduler(None, store, **settings))
        long_poll = LongPoll(scheduler, **options)
        app = create_app(scheduler, work=long_poll, access=BearerAccess(keys=keys))
        host, port = stack.enter_context(served(app))
        sent = {name: each.key for name, each in made.items()}
        found = Desk(scheduler, long_poll, f"http://{host}:{port}", sent)
        stack.callback(found.close)
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[Desk]:
    """One for all tests that leave it as it is."""
    with desk(MemoryStore(), retry=AT_ONCE) as found:
        yield found


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"queue {uuid4()}"


@pytest.fixture
def work(shared: Desk, queue: str) -> dict[str, Any]:
    """What somebody has been handed."""
    shared.once(queue)
    return shared.take_one(queue)


# Taking.


def test_a_worker_is_handed_what_is_due_with_all_that_it_needs(
    shared: Desk, queue: str
) -> None:
    task = shared.task(queue, name="send", metadata={"to": "all"})
    made = shared.scheduler.run_now(task.id, payload={"order": [7, None]})
    work = shared.take_one(queue, worker="w-1")
    assert work == {
        "instance_id": str(made.id),
        "token": work["token"],
        "attempt": 1,
        "type": "send",
        "payload": {"order": [7, None]},
        "metadata": {"to": "all"},
        "execute_at": work["execute_at"],
        "lease": 30,
        "definition_id": str(task.id),
        "queue": queue,
        "traceparent": None,
        "tracestate": None,
    }
    assert datetime.fromisoformat(work["execute_at"]) == made.execute_at
    wait_until(lambda: shared.instance(work).worker == "w-1")
    assert shared.state(work) == "running"


@pytest.mark.parametrize("way", ["scheduled", "enqueued", "submitted", "retried"])
def test_what_comes_up_is_handed_to_who_waits_already(
    shared: Desk, queue: str, way: str
) -> None:
    task = shared.task(queue, retry=RetryPolicy(max_attempts=1))
    if way == "retried":
        shared.scheduler.run_now(task.id)
        first = shared.take_one(queue)
        assert shared.tell(first, "error", message="no").status_code == 200
    waiting = shared.ask_meanwhile(queue)
    if way == "scheduled":
        shared.once(queue)
    elif way == "enqueued":
        shared.scheduler.run_now(task.id)
    elif way == "submitted":
        name = f"type {uuid4()}"
        http = shared.callers["anna"]
        http.put(f"/v1/types/{name}", json={"queue": queue}).raise_for_status()
        job = {"type": name, "payload": {}}
        http.post("/v1/jobs", json=job).raise_for_status()
    else:
        shared.scheduler.retry(UUID(first["instance_id"]))
    # Before its wait is over.
    [work] = work_of(waiting.result(FAILED_AFTER))
    assert work["queue"] == queue


def test_nothing_is_handed_out_early(shared: Desk, queue: str) -> None:
    waiting = shared.ask_meanwhile(queue)
    shared.once(queue, 0.2)
    [work] = work_of(waiting.result(FAILED_AFTER))
    assert SystemClock().now() >= datetime.fromisoformat(work["execute_at"])


def test_without_work_the_answer_is_empty_once_the_wait_is_over(
    shared: Desk, queue: str
) -> None:
    for wait in (0, 0.2):
        answer = shared.ask(queue, wait=wait)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["cache-control"] == "no-store"


def test_who_gave_up_is_handed_nothing_and_the_next_one_is(
    shared: Desk, queue: str
) -> None:
    assert shared.ask(queue, wait=0.1).status_code == 204
    shared.once(queue)
    assert shared.take_one(queue)["attempt"] == 1


def test_nobody_is_handed_more_than_it_takes(shared: Desk, queue: str) -> None:
    task = shared.task(queue)
    for _ in range(7):
        shared.scheduler.run_now(task.id)
    found: list[dict[str, Any]] = []
    while len(found) < 7:
        found += (some := shared.take(queue, max=3))
        assert len(some) <= 3
    assert len({each["instance_id"] for each in found}) == 7
    assert shared.ask(queue, wait=0).status_code == 204


def test_of_many_that_wait_each_is_handed_something_else(
    shared: Desk, queue: str
) -> None:
    task = shared.task(queue)
    # From then on a worker that waits has its place among the queues at once.
    shared.ask(queue, wait=0)
    waiting = [shared.ask_meanwhile(queue, max=2) for _ in range(8)]
    made = [shared.scheduler.run_now(task.id) for _ in range(8)]
    found = [each for one in waiting for each in work_of(one.result(FAILED_AFTER))]
    assert sorted(each["instance_id"] for each in found) == sorted(
        str(each.id) for each in made
    )


def test_who_has_waited_longest_is_served_first(shared: Desk, queue: str) -> None:
    task = shared.task(queue)
    shared.ask(queue, wait=0)
    waiting = [shared.ask_meanwhile(queue) for _ in range(3)]
    for number in range(3):
        made = shared.scheduler.run_now(task.id)
        [work] = work_of(waiting[number].result(FAILED_AFTER))
        assert work["instance_id"] == str(made.id)
        assert not any(each.done() for each in waiting[number + 1 :])


def test_a_worker_waits_for_its_queues_and_no_others(shared: Desk, queue: str) -> None:
    shared.once(f"{queue} c")
    waiting = shared.ask_meanwhile(f"{queue} a,{queue} b")
    shared.once(f"{queue} b")
    [work] = work_of(waiting.result(FAILED_AFTER))
    assert work["queue"] == f"{queue} b"
    assert shared.ask(f"{queue} a,{queue} b", wait=0).status_code == 204


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queues": ""}, "queues"),
        ({"queues": "a,,b"}, "queues"),
        ({"queues": "x" * 300}, "queues"),
        ({"queues": ",".join(map(str, range(65)))}, "queues"),
        ({"max": 0}, "max"),
        ({"max": 101}, "max"),
        ({"max": "many"}, "max"),
        ({"wait": -1}, "wait"),
        ({"wait": 61}, "wait"),
        ({"wait": "nan"}, "wait"),
        ({"worker": ""}, "worker"),
        ({"worker": "a\x00b"}, "worker"),
        ({"wait_for": 1}, "wait_for"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    shared: Desk, asked: dict[str, Any], field: str
) -> None:
    answer = shared.ask(**{"queues": "default", "wait": 0, **asked})
    assert fields(answer) == [field]


# Hanging up.


class Asking:
    """A request for work whose sender may hang up, on the event loop of the test."""

    def __init__(self, app: Any, queue: str) -> None:
        self._gone = asyncio.Event()
        self._begun = False
        self.sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/v1/work",
            "raw_path": b"/v1/work",
            "query_string": f"queues={queue}&wait={LONG}&worker=w-1".encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1234),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def hang_up(self) -> None:
        self._gone.set()

    async def status(self) -> int:
        await asyncio.wait_for(self.task, FAILED_AFTER)
        return int(self.sent[0]["status"])


def beside(
    test: Callable[[Any, LongPoll, Scheduler], Coroutine[Any, Any, None]],
) -> None:
    """Run a test with an application that is called on its own event loop."""

    async def run() -> None:
        long_poll = LongPoll(scheduler)
        await test(create_app(scheduler, work=long_poll), long_poll, scheduler)
        await long_poll.stop()

    with Scheduler(None, MemoryStore()) as scheduler:
        asyncio.run(run())


async def await_until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not done():
            await asyncio.sleep(0.002)


def test_who_hangs_up_while_it_waits_is_handed_nothing() -> None:
    async def test(app: Any, long_poll: LongPoll, scheduler: Scheduler) -> None:
        first = Asking(app, "default")
        await await_until(lambda: long_poll.waiting_workers == 1)
        first.hang_up()
        await await_until(lambda: long_poll.waiting_workers == 0)
        of = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        made = scheduler.run_now(of.id)
        other = Asking(app, "default")
        assert await other.status() == 200
        assert scheduler.get_instance(made.id).attempt == 1

    beside(test)


async def handed_over(
    app: Any, long_poll: LongPoll, scheduler: Scheduler
) -> tuple[Asking, UUID]:
    """Have a run handed to who waits while the event loop does nothing else."""
    of = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    # Once one has been served, whoever comes waits at once.
    scheduler.run_now(of.id)
    assert await Asking(app, "default").status() == 200
    first = Asking(app, "default")
    await await_until(lambda: long_poll.waiting_workers == 1)
    for _ in range(50):
        await asyncio.sleep(0)
    made = scheduler.run_now(of.id)
    pause = Event()
    for _ in range(500 * FAILED_AFTER):
        # So much is recorded once it has been handed over.
        if scheduler.get_instance(made.id).worker == "w-1":
            return first, made.id
        pause.wait(0.002)
    raise AssertionError("nobody was handed it")


@pytest.mark.parametrize("how", ["hangs up", "is cancelled"])
def test_what_was_handed_to_who_has_hung_up_is_given_back_and_counts_as_no_run(
    how: str,
) -> None:
    async def test(app: Any, long_poll: LongPoll, scheduler: Scheduler) -> None:
        first, id = await handed_over(app, long_poll, scheduler)
        if how == "hangs up":
            first.hang_up()
        else:
            first.task.cancel()
        await asyncio.wait([first.task], timeout=FAILED_AFTER)
        other = Asking(app, "default")
        assert await other.status() == 200
        again = scheduler.get_instance(id)
        assert (again.attempt, again.runs) == (2, 1)

    beside(test)


def test_what_nobody_was_handed_is_given_back_by_the_time_all_has_stopped() -> None:
    async def test(app: Any, long_poll: LongPoll, scheduler: Scheduler) -> None:
        first, id = await handed_over(app, long_poll, scheduler)
        first.hang_up()
        await asyncio.wait([first.task], timeout=FAILED_AFTER)
        await long_poll.stop()
        assert scheduler.get_instance(id).state is State.PENDING

    beside(test)


# Keeping.


def test_a_run_is_kept_by_heartbeats_and_for_as_long_as_is_asked(
    shared: Desk, work: dict[str, Any]
) -> None:
    before = shared.instance(work).expires_at
    answer = shared.tell(work, "heartbeat")
    assert (answer.status_code, answer.json()) == (200, {"answer": "go_on"})
    kept = shared.instance(work).expires_at
    assert before is not None
    assert kept is not None
    assert kept > before
    assert shared.tell(work, "extend", seconds=3600).json() == {"answer": "go_on"}
    extended = shared.instance(work).expires_at
    assert extended is not None
    assert extended > kept + timedelta(seconds=3000)
    # A heartbeat does not take that back.
    assert shared.tell(work, "heartbeat").json() == {"answer": "go_on"}
    still = shared.instance(work).expires_at
    assert still is not None
    assert still > kept + timedelta(seconds=3000)


def test_a_run_that_is_cancelled_is_to_stop(shared: Desk, work: dict[str, Any]) -> None:
    assert shared.scheduler.cancel(UUID(work["instance_id"])) == "requested"
    assert shared.tell(work, "heartbeat").json() == {"answer": "stop"}
    assert shared.tell(work, "extend", seconds=9).json() == {"answer": "stop"}
    assert shared.tell(work, "error", message="stopped").status_code == 200
    assert shared.state(work) == "cancelled"
    assert problem(shared.tell(work, "complete")) == (409, "ended")


def test_the_lease_is_no_longer_than_a_run_may_take(shared: Desk, queue: str) -> None:
    shared.once(queue, timeout=7 * SECOND)
    work = shared.take_one(queue)
    assert work["lease"] == 7
    assert shared.tell(work, "extend", seconds=3600).json() == {"answer": "go_on"}
    found = shared.instance(work)
    assert found.started_at is not None
    assert found.expires_at is not None
    assert found.expires_at - found.started_at < timedelta(seconds=3600)


@pytest.mark.slow
def test_what_is_not_kept_is_handed_to_another_and_a_late_success_counts() -> None:
    with desk(MemoryStore(), node_lease=3 * SECOND, lease=3 * SECOND) as one:
        one.once("default")
        work = one.take_one("default")
        again = one.take_one("default")
        assert (again["instance_id"], again["attempt"]) == (work["instance_id"], 2)
        assert problem(one.tell(work, "heartbeat")) == (409, "lost")
        assert problem(one.tell(work, "extend", seconds=1)) == (409, "lost")
        assert problem(one.tell(work, "error", message="x")) == (409, "lost")
        assert one.state(work) == "running"
        assert one.tell(work, "complete", result=1).status_code == 200
        found = one.instance(work)
        assert (found.state, found.ended_attempt) == (State.COMPLETED, 1)
        assert problem(one.tell(again, "heartbeat")) == (409, "lost")
        assert problem(one.tell(again, "complete")) == (409, "ended")


# Ending.


def test_a_success_is_recorded_with_its_result_and_may_be_said_again(
    shared: Desk, work: dict[str, Any]
) -> None:
    result = {"sent": [1, 2.5, None], "to": "é"}
    for _ in range(2):
        answer = shared.tell(work, "complete", result=result)
        assert (answer.status_code, answer.json()) == (200, {"answer": "recorded"})
    found = shared.instance(work)
    assert (found.state, found.result) == (State.COMPLETED, result)
    assert found.ended_attempt == 1


def test_a_success_that_is_deleted_may_be_said_again_by_who_ran_it(
    queue: str,
) -> None:
    with desk(MemoryStore(), retention=timedelta(0)) as one:
        for _ in range(2):
            one.once(queue)
        work, other = (one.take_one(queue) for _ in range(2))
        for _ in range(2):
            answer = one.tell(work, "complete")
            assert (answer.status_code, answer.json()) == (200, {"answer": "recorded"})
            with pytest.raises(TaskInstanceNotFoundError):
                one.instance(work)
        assert problem(one.tell(work, "heartbeat")) == (409, "lost")
        assert problem(one.tell(work, "error", message="x")) == (409, "lost")
        assert problem(one.tell(work, "complete", by="eve")) == (403, "work-token")
        forged = {**work, "token": other["token"]}
        assert problem(one.tell(forged, "complete")) == (403, "work-token")
        # What has a result stays for who asks for it.
        assert one.tell(other, "complete", result=1).is_success
        assert one.state(other) == "completed"


def test_the_worker_may_say_what_follows_a_failure(shared: Desk, queue: str) -> None:
    for _ in range(2):
        shared.once(queue)
    later, never = (shared.take_one(queue) for _ in range(2))
    assert shared.tell(later, "error", message="x", retry_after=3600).is_success
    waits = shared.instance(later)
    assert waits.state is State.PENDING
    assert waits.due_at > SystemClock().now() + timedelta(seconds=3000)
    assert shared.tell(never, "error", message="x", fail=True).is_success
    assert shared.state(never) == "failed"


def test_an_earlier_attempt_keeps_fails_and_gives_back_nothing(
    shared: Desk, work: dict[str, Any], queue: str
) -> None:
    shared.tell(work, "error", message="perhaps")
    again = shared.take_one(queue)
    for what in BODIES.keys() - {"complete"}:
        assert problem(shared.tell(work, what, **BODIES[what])) == (409, "lost")
    found = shared.instance(again)
    assert (found.state, found.attempt) == (State.RUNNING, 2)


def test_what_is_given_back_counts_as_no_run_and_is_handed_out_again(
    shared: Desk, work: dict[str, Any], queue: str
) -> None:
    assert shared.tell(work, "release", reason="it is away").status_code == 200
    assert problem(shared.tell(work, "release")) == (409, "lost")
    again = shared.take_one(queue)
    assert (again["instance_id"], again["attempt"]) == (work["instance_id"], 2)
    assert shared.instance(again).runs == 1
    assert shared.tell(again, "release", delay=3600).status_code == 200
    back = shared.instance(again)
    assert (back.state, back.runs) == (State.PENDING, 0)
    assert back.due_at > SystemClock().now() + timedelta(seconds=3000)


def test_several_successes_may_be_told_at_once_and_each_is_answered(
    shared: Desk, queue: str
) -> None:
    for _ in range(3):
        shared.once(queue)
    ended, kept, wrong = (shared.take_one(queue) for _ in range(3))
    shared.scheduler.cancel(UUID(ended["instance_id"]))
    assert shared.tell(ended, "error", message="stopped").status_code == 200

    def item(work: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"instance_id": work["instance_id"], "token": work["token"], **more}

    body = [
        item(ended),
        item(kept, result=[1]),
        item(wrong, token="none"),
        item(wrong, result="x" * 70_000),
    ]
    http = shared.callers["anna"]
    answer = http.post("/v1/work/complete", json={"completed": body})
    problems = [each["problem"] for each in answer.json()["answers"]]
    assert [each and each["status"] for each in problems] == [409, None, 403, 422]
    assert shared.instance(kept).result == [1]
    assert shared.state(wrong) == "running"


def test_many_report_at_the_same_moment_and_each_is_recorded(
    shared: Desk, queue: str
) -> None:
    task = shared.task(queue)
    for _ in range(30):
        shared.scheduler.run_now(task.id)
    taken: list[dict[str, Any]] = []
    while len(taken) < 30:
        taken += shared.take(queue, max=30)
    tell = [
        shared.threads.submit(shared.tell, each, "complete", result=number)
        for number, each in enumerate(taken)
    ]
    assert {each.result(FAILED_AFTER).status_code for each in tell} == {200}
    results = [shared.instance(each).result for each in taken]
    assert results == [*range(30)]


@pytest.mark.parametrize("way", ["complete", "error"])
def test_what_a_worker_says_of_its_times_is_kept(
    shared: Desk, work: dict[str, Any], way: str
) -> None:
    times = {
        "started_at": "2030-01-01T02:00:00+02:00",
        "ended_at": "2030-01-01T00:00:01Z",
    }
    more = {"message": "no paper"} if way == "error" else {}
    wrong = {**times, "ended_at": "2029-01-01T00:00:00Z"}
    assert fields(shared.tell(work, way, **more, **wrong)) == ["ended_at"]
    assert shared.state(work) == "running"
    assert shared.tell(work, way, **more, **times).status_code == 200
    assert shared.instance(work).client == {
        "started_at": "2030-01-01T00:00:00Z",
        "ended_at": "2030-01-01T00:00:01Z",
    }


@pytest.mark.parametrize("by", ["overlap", "lock"])
@pytest.mark.parametrize("end", ["complete", "error", "release"])
def test_what_waits_for_the_end_of_a_run_is_handed_out_then(
    shared: Desk, queue: str, by: str, end: str
) -> None:
    of: dict[str, Any] = {"retry": RetryPolicy(max_attempts=1)}
    of |= {"lock": queue} if by == "lock" else {"overlap": Overlap.BUFFER_ALL}
    task = shared.task(queue, **of)
    for _ in range(2):
        shared.scheduler.run_now(task.id)
    work = shared.take_one(queue)
    assert shared.ask(queue, wait=0).status_code == 204
    waiting = shared.ask_meanwhile(queue)
    later: dict[str, Any] = {"delay": 3600} if end == "release" else {}
    assert shared.tell(work, end, **BODIES[end], **later).status_code == 200
    [following] = work_of(waiting.result(FAILED_AFTER))
    assert following["instance_id"] != work["instance_id"]


@pytest.mark.parametrize(
    ("what", "body", "field"),
    [
        ("extend", {}, "seconds"),
        ("extend", {"seconds": 0}, "seconds"),
        ("extend", {"seconds": -1}, "seconds"),
        ("extend", {"seconds": "5"}, "seconds"),
        ("error", {}, "message"),
        ("error", {"message": 1}, "message"),
        ("error", {"message": "x", "retry_after": -1}, "retry_after"),
        ("error", {"message": "x", "retry_after": 1, "fail": True}, "retry_after"),
        ("complete", {"results": 1}, "results"),
        ("complete", {"result": "x" * 70_000}, "result"),
        ("release", {"delay": -1}, "delay"),
        ("heartbeat", {"token": 1}, "token"),
    ],
)
def test_what_is_reported_wrongly_is_refused_and_changes_nothing(
    shared: Desk, work: dict[str, Any], what: str, body: dict[str, Any], field: str
) -> None:
    assert fields(shared.tell(work, what, **body)) == [field]
    assert shared.state(work) == "running"


# Whose a run is, and who may work.


@pytest.mark.parametrize("what", BODIES)
def test_a_token_that_is_not_its_own_is_refused(
    shared: Desk, work: dict[str, Any], queue: str, what: str
) -> None:
    real = work["token"]
    shared.once(f"{queue} 2")
    another = shared.take_one(f"{queue} 2")["token"]
    changed = real[:-4] + ("AAAA" if real[-4:] != "AAAA" else "BBBB")
    body = BODIES[what]
    for token in ("", "x", "é", "AAAA", "A" * 80, "\x00", changed, another):
        answer = shared.tell({**work, "token": token}, what, **body)
        assert problem(answer) == (403, "work-token"), token
    # It holds for whom it was given to.
    assert problem(shared.tell(work, what, by="eve", **body)) == (403, "work-token")
    assert shared.state(work) == "running"
    assert shared.tell(work, what, **body).status_code == 200


def test_a_restricted_caller_takes_and_reports_in_its_queues_alone(
    shared: Desk, work: dict[str, Any], queue: str
) -> None:
    me = {"by": "of queues"}
    assert problem(shared.ask(queue, wait=0, **me)) == (403, "queue")
    assert problem(shared.ask(f"mine,{queue}", wait=0, **me)) == (403, "queue")
    for what, body in BODIES.items():
        assert shared.tell(work, what, **me, **body).status_code == 403
    assert shared.state(work) == "running"
    shared.once("mine")
    mine = shared.take_one("yours,mine", **me)
    assert shared.tell(mine, "complete", **me).status_code == 200
    # What is in its queue and nobody gave it is not its own.
    shared.once("mine")
    theirs = shared.take_one("mine")
    assert problem(shared.tell(theirs, "complete", **me)) == (403, "work-token")


def test_who_is_restricted_to_owners_or_may_not_work_is_refused(
    shared: Desk, work: dict[str, Any]
) -> None:
    for by, kind in (("of owners", "owner"), ("reader", "scope")):
        assert problem(shared.ask("default", wait=0, by=by)) == (403, kind)
        assert shared.tell(work, "complete", by=by).status_code == 403
    http = shared.callers["anna"]
    answer = http.get(
        "/v1/work", params={"queues": "a"}, headers={"Authorization": "Bearer gs_no"}
    )
    assert answer.status_code == 401
    assert shared.state(work) == "running"


# How many wait.


def test_more_sets_of_queues_or_workers_than_there_may_be_are_refused() -> None:
    options: dict[str, Any] = {"most": 3, "each": 1, "waiting": Waiting(each=2)}
    with desk(MemoryStore(), **options) as one:
        # From then on a worker that waits has its place among the queues at once.
        assert one.ask("a", wait=0).status_code == 204
        one.ask_meanwhile("a")
        refused = one.ask("b", wait=0)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        [error] = refused.json()["errors"]
        assert error["field"] == "queues"
        # Another caller has places of its own.
        assert one.ask("b", wait=0, by="eve").status_code == 204
        one.ask_meanwhile("a")
        assert one.ask("a", wait=0).status_code == 429
        one.long_poll.stop_taking()


def test_a_set_of_queues_for_which_nobody_waits_makes_place_for_another() -> None:
    with desk(MemoryStore(), most=2, each=2) as one:
        for queue in ("a", "b", "c", "a", "d"):
            one.once(queue)
            assert one.take_one(queue)["queue"] == queue


def test_after_a_while_in_which_nobody_waited_work_is_handed_out_as_before() -> None:
    with desk(MemoryStore(), idle=timedelta(milliseconds=10)) as one:
        for _ in range(3):
            assert one.ask("default", wait=0).status_code == 204
            # The node that has claimed for them is one that has stopped.
            wait_until(
                lambda: all(
                    each.stopping for each in one.scheduler.nodes() if each.queues
                )
            )
            one.once("default")
            assert one.take_one("default")["attempt"] == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"lease": timedelta(0)}, "lease"),
        ({"lease": 5}, "lease"),
        ({"most": 0}, "most"),
        ({"most": "x"}, "most"),
        ({"each": 0}, "each"),
        ({"idle": timedelta(0)}, "idle"),
    ],
)
def test_what_a_long_poll_cannot_be_is_refused(
    options: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError, match=field):
        LongPoll(Scheduler(None, MemoryStore()), **options)


def test_a_server_that_hands_out_no_work_says_so() -> None:
    app = create_app(Scheduler(None, MemoryStore()))
    with served(app) as (host, port):
        answer = httpx.get(f"http://{host}:{port}/v1/work?queues=default")
    assert problem(answer) == (404, "no-work")


# Servers and stores that go away.


def test_a_server_that_stops_tells_who_waits_and_lets_work_be_ended() -> None:
    with desk(MemoryStore()) as one:
        one.once("default")
        work = one.take_one("default")
        waiting = [one.ask_meanwhile("default") for _ in range(3)]
        one.long_poll.stop_taking()
        for each in waiting:
            answer = each.result(FAILED_AFTER)
            assert problem(answer) == (503, "stopping")
            assert "retry-after" in answer.headers
        assert one.ask("default", wait=0).status_code == 503
        assert one.tell(work, "heartbeat").json() == {"answer": "go_on"}
        assert one.tell(work, "complete").status_code == 200
        assert one.state(work) == "completed"


SERVER = """
import sys
import uvicorn
from go_scheduler import Scheduler
from go_scheduler.http import LongPoll, create_app
from go_scheduler.stores import open_store

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

store = open_store(sys.argv[1])
with Scheduler(None, store) as scheduler:
    app = create_app(scheduler, work=LongPoll(scheduler))
    Server(uvicorn.Config(app, port=0, log_config=None)).run()
"""


@pytest.mark.slow
def test_what_a_server_handed_out_that_was_killed_is_ended_at_the_next(
    own_file: Path,
) -> None:
    url = f"sqlite:///{own_file}"
    with opened(url) as store, Scheduler(None, store) as scheduler:
        of = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        scheduler.run_now(of.id)
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, url], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            at = f"http://127.0.0.1:{int(process.stdout.readline())}/v1/work"
            query = f"queues=default&wait={LONG}"
            [work] = work_of(httpx.get(f"{at}?{query}", timeout=2 * LONG))
            process.kill()
        app = create_app(scheduler, work=LongPoll(scheduler))
        with served(app) as (host, port):
            base = f"http://{host}:{port}/v1/work/{work['instance_id']}"
            shown = {"token": work["token"]}
            beat = httpx.post(f"{base}/heartbeat", json=shown, timeout=FAILED_AFTER)
            assert beat.json() == {"answer": "go_on"}
            end = httpx.post(f"{base}/complete", json=shown, timeout=FAILED_AFTER)
            assert end.status_code == 200
        found = scheduler.get_instance(UUID(work["instance_id"]))
        assert (found.state, found.attempt) == (State.COMPLETED, 1)


@pytest.mark.slow
def test_while_the_store_is_away_nobody_waits_and_forged_tokens_are_known() -> None:
    store = MemoryStore()
    faults = Faults(store, SystemClock())
    with desk(store) as one:
        one.once("default")
        work = one.take_one("default")
        waiting = one.ask_meanwhile("default")
        faults.away = True
        answer = waiting.result(FAILED_AFTER)
        assert problem(answer) == (503, "store-unavailable")
        assert "retry-after" in answer.headers
        assert one.ask("default").status_code == 503
        for what in ("heartbeat", "complete"):
            assert one.tell(work, what).status_code == 503
            forged = {**work, "token": "A" * 80}
            assert one.tell(forged, what).status_code == 403
        faults.away = False
        wait_until(lambda: one.tell(work, "complete").status_code == 200)
        wait_until(lambda: one.ask("default", wait=0).status_code == 204)
        one.once("default")
        assert len(one.take("default")) == 1


# On each kind of store.


@pytest.mark.parametrize("engine", SHARED)
def test_two_servers_hand_out_each_instance_once_and_take_each_others_reports(
    own_time_store: Store, store_url: str
) -> None:
    with opened(store_url) as second, ExitStack() as stack:
        desks = [stack.enter_context(desk(each)) for each in (own_time_store, second)]
        one, other = desks
        task = one.task("default", retry=AT_ONCE)
        made = {str(one.scheduler.run_now(task.id).id) for _ in range(12)}
        taken: list[tuple[int, dict[str, Any]]] = []
        while len(taken) < len(made):
            at = len(taken) % 2
            answer = desks[at].ask("default", wait=1, max=2)
            if answer.status_code != 204:
                taken += [(at, each) for each in work_of(answer)]
        assert sorted(each["instance_id"] for _, each in taken) == sorted(made)
        # The keys of the two servers' callers differ, and their names do not.
        for at, each in taken[:6]:
            there = desks[1 - at]
            assert there.tell(each, "heartbeat").json() == {"answer": "go_on"}
            assert there.tell(each, "complete", result=at).status_code == 200
            assert desks[at].instance(each).result == at
        for at, each in taken[6:9]:
            assert desks[at].tell(each, "error", message="x").status_code == 200
        again: list[dict[str, Any]] = []
        while len(again) < 3:
            again += other.take("default", max=3)
        # What a server claims for one who has been served meanwhile is an attempt too.
        assert min(each["attempt"] for each in again) > 1
        assert {each["instance_id"] for each in again} == {
            each["instance_id"] for _, each in taken[6:9]
        }


@pytest.mark.parametrize("engine", SHARED)
def test_what_one_process_puts_in_is_handed_out_by_the_server_of_another(
    own_time_store: Store, store_url: str
) -> None:
    with opened(store_url) as second, desk(own_time_store) as one:
        waiting = one.ask_meanwhile("default")
        client = Scheduler(None, second)
        of = client.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        made = client.run_now(of.id, payload={"n": 1})
        [work] = work_of(waiting.result(FAILED_AFTER))
        assert (work["instance_id"], work["payload"]) == (str(made.id), {"n": 1})
