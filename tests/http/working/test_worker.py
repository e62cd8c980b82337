"""A worker in Python takes work from a server, runs it, and reports the result."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    Fail,
    GiveBack,
    HandedOn,
    HandlerRegistry,
    RetryAfter,
    State,
    current_run,
)
from go_scheduler.handlers.job_types import MARK
from go_scheduler.http import Work, Worker, tell_progress
from go_scheduler.policies import RetryPolicy
from go_scheduler.stores.memory.store import MemoryStore
from tests.http.work.house import Server, server, wait_until
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.models import TaskInstance

SHORT = timedelta(seconds=3)
SHORTLY: dict[str, Any] = {"lease": SHORT, "work_lease": SHORT}


@pytest.fixture
def one() -> Iterator[Server]:
    with server(MemoryStore(), retry=RetryPolicy(max_attempts=1)) as found:
        yield found


@contextmanager
def working(
    one: Server, handler: Callable[[Any], object], **options: Any
) -> Iterator[Worker]:
    """Run a worker of this server."""
    with Worker(one.url, handler, **options) as worker:
        yield worker


def ended(one: Server, made: TaskInstance) -> TaskInstance:
    """An instance once it has ended."""
    wait_until(lambda: one.scheduler.get_instance(made.id).completed_at is not None)
    return one.scheduler.get_instance(made.id)


def done(one: Server, handler: Callable[[Any], object], **options: Any) -> TaskInstance:
    """An instance, after a worker with this handler has run it."""
    with working(one, handler):
        return ended(one, one.scheduler.run_now(one.task(name="x").id, **options))


def test_a_handler_is_called_with_its_work(one: Server) -> None:
    found: list[Work] = []
    task = one.task(name="send", metadata={"to": "all", MARK: {}})
    with working(one, found.append, name="a worker"):
        made = one.scheduler.run_now(task.id, payload={"order": [7]})
        instance = ended(one, made)
    assert instance.state is State.COMPLETED
    # The times by the worker's clock.
    said: Any = instance.client
    assert said["started_at"] <= said["ended_at"]
    assert instance.worker == "a worker"
    [work] = found
    assert work == Work(
        instance_id=made.id,
        type="send",
        payload={"order": [7]},
        metadata={"to": "all"},
        attempt=1,
        execute_at=made.execute_at,
        definition_id=task.id,
        queue="default",
    )


def test_it_waits_for_some_queues(one: Server) -> None:
    found: SimpleQueue[Work] = SimpleQueue()
    with working(one, found.put, queues=("mail", "fax")):
        for each in ("default", "mail", "fax"):
            one.scheduler.run_now(one.task(name=each, queue=each).id)
        got = {found.get(timeout=FAILED_AFTER).type for _ in range(2)}
    assert got == {"mail", "fax"}


async def later(work: Work) -> object:
    await asyncio.sleep(0)
    assert current_run().token == (work.instance_id, work.attempt)
    return [1, {"é": work.type}]


@pytest.mark.parametrize("handler", [later, lambda work: later(work)])
def test_it_may_be_async_and_what_it_returns_is_kept(
    one: Server, handler: Callable[[Work], object]
) -> None:
    task = one.task(name="x")
    with working(one, handler):
        for _ in range(2):
            instance = ended(one, one.scheduler.run_now(task.id))
            assert (instance.error, instance.result) == (None, [1, {"é": "x"}])


def test_what_cannot_be_kept_is_a_success_all_the_same(
    one: Server, caplog: pytest.LogCaptureFixture
) -> None:
    instance = done(one, lambda _: object())
    assert (instance.state, instance.result) == (State.COMPLETED, None)
    assert "what a handler returned is not kept: result" in caplog.text


def fails(_: Work) -> None:
    raise ValueError("no such order")


async def fails_later(work: Work) -> None:
    fails(work)


def yields(_: Work) -> Any:
    return (each for each in [1])


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (fails, "no such order"),
        (fails_later, "no such order"),
        (yields, "returned a generator"),
        (lambda _: HandedOn(), "HandedOn is for handlers next to their store"),
        (lambda _: HandedOn, "HandedOn is for handlers next to their store"),
        (lambda _: current_run().complete_in(None), "complete_in() is for handlers"),
    ],
)
def test_what_it_raises_is_told_and_logged(
    one: Server,
    handler: Callable[[Work], object],
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = done(one, handler)
    assert f"{instance.id}, attempt 1, has failed:\n" in caplog.text
    assert instance.state is State.FAILED
    assert instance.error is not None
    assert text in instance.error


def test_it_decides_whether_it_runs_again() -> None:
    runs: list[int] = []

    def handler(work: Work) -> None:
        runs.append(work.attempt)
        if len(runs) == 1:
            raise RetryAfter(timedelta(0))
        raise Fail("there is no such customer")

    retry = RetryPolicy(max_attempts=9, delay=timedelta(days=1))
    with server(MemoryStore(), retry=retry) as one:
        instance = done(one, handler)
    assert instance.state is State.FAILED
    assert "no such customer" in (instance.error or "")
    assert len(runs) == 2


def test_what_it_cannot_begin_is_given_back(one: Server) -> None:
    runs: list[int] = []

    def handler(work: Work) -> None:
        runs.append(work.attempt)
        if len(runs) < 3:
            raise GiveBack(timedelta(0), "it is away")

    instance = done(one, handler)
    assert (instance.state, instance.runs) == (State.COMPLETED, 1)
    assert runs == [1, 2, 3]


def test_a_registry_is_called_by_type(one: Server) -> None:
    registry = HandlerRegistry()
    found: SimpleQueue[object] = SimpleQueue()

    @registry.task("send")
    def send(order: int) -> int:
        return order + 1

    @registry.register("note")
    async def note(instance: TaskInstance) -> None:
        found.put((instance.id, instance.definition.name, instance.metadata))
        assert current_run().instance is instance

    with working(one, registry):
        made = one.scheduler.run_now(one.task(name="send").id, payload={"order": 6})
        assert ended(one, made).result == 7
        made = one.scheduler.run_now(one.task(name="note", metadata={"a": 1}).id)
        assert ended(one, made).error is None
        assert found.get() == (made.id, "note", {"a": 1})
        made = one.scheduler.run_now(one.task(name="none").id)
        assert "no handler is registered as 'none'" in (ended(one, made).error or "")
        made = one.scheduler.run_now(one.task(name="send").id, payload={"wrong": 6})
        assert "wrong" in (ended(one, made).error or "")


def test_it_runs_so_many_at_once(one: Server) -> None:
    together = threading.Barrier(3)
    entered = threading.Semaphore(0)
    go_on = threading.Event()

    def handler(work: Work) -> None:
        if work.payload is not None:
            together.wait(FAILED_AFTER)
            entered.release()
            assert go_on.wait(FAILED_AFTER)

    task = one.task()
    with working(one, handler, max_workers=3):
        made = [one.scheduler.run_now(task.id, payload={}) for _ in range(3)]
        for _ in range(3):
            assert entered.acquire(timeout=FAILED_AFTER)
        more = one.scheduler.run_now(task.id)
        assert one.waiting() == 0
        assert one.scheduler.get_instance(more.id).state is State.PENDING
        go_on.set()
        for each in (*made, more):
            assert ended(one, each).state is State.COMPLETED


def test_it_awaits_what_runs_when_it_stops(one: Server) -> None:
    called, go_on = threading.Event(), threading.Event()

    def handler(_: Work) -> None:
        called.set()
        assert go_on.wait(FAILED_AFTER)

    worker = Worker(one.url, handler)
    assert worker.stop()
    worker.start()
    worker.start()
    made = one.scheduler.run_now(one.task().id)
    assert called.wait(FAILED_AFTER)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    go_on.set()
    stopping.join(FAILED_AFTER)
    assert one.scheduler.get_instance(made.id).state is State.COMPLETED
    # It may start again.
    with worker:
        assert ended(one, one.scheduler.run_now(one.task().id)).state is State.COMPLETED


@pytest.mark.slow
def test_it_keeps_what_takes_long_and_hears_that_it_was_cancelled() -> None:
    called = threading.Event()

    def handler(_: Work) -> None:
        called.set()
        wait_until(lambda: current_run().cancelled)
        assert not current_run().lost
        current_run().extend(timedelta(hours=1))
        raise Fail("stopped")

    with (
        server(MemoryStore(), **SHORTLY) as one,
        working(one, handler),
    ):
        made = one.scheduler.run_now(one.task().id)
        assert called.wait(FAILED_AFTER)

        def kept_until() -> object:
            return one.scheduler.get_instance(made.id).expires_at

        before = kept_until()
        wait_until(lambda: kept_until() != before)
        one.scheduler.cancel(made.id)
        assert ended(one, made).state is State.CANCELLED


def test_a_handler_tells_how_far_it_has_come(one: Server) -> None:
    def handler(_: Work) -> None:
        for number in range(5):
            tell_progress({"done": number})

    assert done(one, handler).progress == {"done": 4}


@pytest.mark.slow
def test_it_hears_that_a_run_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    called, over = threading.Event(), threading.Event()

    def handler(_: Work) -> None:
        called.set()
        wait_until(lambda: current_run().lost)
        with pytest.raises(Exception, match="is not this run's any more"):
            current_run().extend(SHORT)
        over.set()
        raise ValueError("nobody wants to know")

    with (
        server(MemoryStore(), **SHORTLY) as one,
        working(one, handler),
    ):
        made = one.scheduler.run_now(one.task().id)
        assert called.wait(FAILED_AFTER)
        one.scheduler.complete(made.id, one.scheduler.get_instance(made.id).attempt)
        assert over.wait(FAILED_AFTER)
    assert f"{made.id} is lost" in caplog.text
    assert "is not recorded: it runs elsewhere" in caplog.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "mailto:x"}, "a server's URL is such as"),
        ({"url": "http://"}, "a server's URL is such as"),
        ({"url": "http://a:b"}, "a server's URL is such as"),
        ({"url": 5}, "a server's URL is such as"),
        ({"url": "http://192.0.2.1", "token": "x"}, "by https alone.*plain_http=True"),
        ({"plain_http": 1}, "plain_http"),
        ({"handler": 5}, "the handler cannot be called"),
        ({"handler": lambda: None}, "the work"),
        ({"queues": "mail"}, r"such as \('mail',\)"),
        ({"queues": ()}, "one at least"),
        ({"queues": ("a,b",)}, "without a comma: 'a,b'"),
        ({"queues": ("",)}, "queue"),
        ({"max_workers": 0}, "max_workers must be at least 1"),
        ({"max_workers": "1"}, "max_workers"),
        ({"token": 5}, "token"),
        ({"wait": timedelta(seconds=61)}, "wait must be a minute at most"),
        ({"wait": 5}, "wait"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name must be of characters that can be printed"),
    ],
)
def test_it_refuses_what_is_wrong(options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"url": "http://127.0.0.1:1", "handler": print}
    given |= options
    with pytest.raises(ConfigurationError, match=text):
        Worker(given.pop("url"), given.pop("handler"), **given)


def test_a_token_goes_by_http_where_that_is_wanted_or_is_this_machine() -> None:
    Worker("http://192.0.2.1", print, token="x", plain_http=True)
    Worker("http://192.0.2.1", print)
    Worker("https://192.0.2.1", print, token=lambda: "x")


def test_a_signal_ends_it(one: Server) -> None:
    made = one.scheduler.run_now(one.task().id)

    def handler(_: Work) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    Worker(one.url, handler).run()
    assert one.scheduler.get_instance(made.id).state is State.COMPLETED


def test_a_second_signal_leaves_what_runs(
    one: Server, caplog: pytest.LogCaptureFixture
) -> None:
    made = one.scheduler.run_now(one.task().id)
    go_on = threading.Event()

    def handler(_: Work) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert go_on.wait(FAILED_AFTER)

    Worker(one.url, handler).run()
    assert one.scheduler.get_instance(made.id).state is State.RUNNING
    assert "left behind, with runs" in caplog.text
    go_on.set()


def test_stop_ends_run(one: Server) -> None:
    called = threading.Event()
    worker = Worker(one.url, lambda _: called.set())
    running = threading.Thread(target=worker.run)
    running.start()
    one.scheduler.run_now(one.task().id)
    assert called.wait(FAILED_AFTER)
    worker.stop()
    running.join(FAILED_AFTER)
    assert not running.is_alive()
