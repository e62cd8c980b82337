"""A worker on a bus runs what is published there, and says what came of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    ConfigurationError,
    Fail,
    GiveBack,
    HandedOn,
    HandlerRegistry,
    RetryAfter,
    SchedulerStateError,
    current_run,
)
from go_scheduler.dispatch import DispatchWorker, Run, Work, open_bus, tell_progress
from go_scheduler.dispatch.worker import Taken
from go_scheduler.events.event import Instrument
from go_scheduler.working.worker import Calling
from tests.dispatch.working.bench import AT, WHAT, Bench, Held
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.dispatch import Delivery
    from go_scheduler.events.event import Watched
    from go_scheduler.models import TaskInstance

LATER = timedelta(seconds=7)
NAME = "a worker"


@contextmanager
def working(
    one: Bench, handler: Callable[[Any], object], **options: Any
) -> Iterator[DispatchWorker]:
    with DispatchWorker(one.bus, handler, name=NAME, **options) as worker:
        yield worker


def test_a_handler_is_called_with_its_work(one: Bench) -> None:
    found: SimpleQueue[Work] = SimpleQueue()

    def handler(work: Work) -> object:
        found.put(work)
        return {"sent": 7}

    with working(one, handler):
        run = one.publish(payload={"order": [7]}, metadata={"to": "all"}, attempt=3)
        end = one.end_of(run)
    assert found.get() == Work(
        instance_id=run.instance_id,
        type="send",
        payload={"order": [7]},
        metadata={"to": "all"},
        attempt=3,
        execute_at=AT,
        definition_id=UUID(int=1),
        queue="default",
    )
    assert (end.status, end.result, end.worker) == ("succeeded", {"sent": 7}, NAME)
    assert end.attempt == 3
    assert end.started_at is not None
    assert end.ended_at is not None
    assert end.started_at <= end.ended_at
    assert one.of(run)[0] == "accepted"


def test_a_registry_is_called_by_the_names_of_tasks(one: Bench) -> None:
    registry = HandlerRegistry()

    @registry.task("send")
    def send(order: int) -> int:
        return order + 1

    @registry.register("note")
    async def note(instance: TaskInstance) -> object:
        run = current_run()
        assert run.instance is instance
        assert run.token == (instance.id, 1)
        return [instance.key, instance.runs, str(instance.fire_time)]

    with working(one, registry):
        run = one.publish(payload={"order": 6})
        assert one.end_of(run).result == 7
        run = one.publish(task="note", key="a", runs=2)
        assert one.end_of(run).result == ["a", 2, str(AT)]
        run = one.publish(payload={"wrong": 6})
        assert "wrong" in (one.end_of(run).error or "")


@pytest.mark.parametrize("task", ["none", None])
def test_what_it_has_no_handler_for_is_given_back(
    one: Bench, caplog: pytest.LogCaptureFixture, task: str | None
) -> None:
    registry = HandlerRegistry()
    registry.register("send")(print)
    with working(one, registry):
        run = one.publish(task=task, attempt=2)
        end = one.end_of(run)
        one.again(run)
        one.until(run, "released", count=2)
    assert end.delay == timedelta(seconds=2)
    assert "no handler" in (end.error or "")
    assert f"{run.instance_id} is given back for 0:00:02" in caplog.text


def raises(error: BaseException) -> Callable[[object], None]:
    def handler(_: object) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (raises(ValueError("no such order")), ("failed", "no such order")),
        (raises(Fail("no such order")), ("failed", "no such order", False)),
        (
            raises(RetryAfter(LATER, "not yet")),
            ("failed", "not yet", None, LATER),
        ),
        (
            raises(GiveBack(LATER, "not now")),
            ("released", "not now", None, None, LATER),
        ),
        (lambda _: HandedOn(), ("failed", "in a worker on a bus, which has been")),
        (
            lambda _: current_run().complete_in(None),
            ("failed", "return, and the scheduler records it"),
        ),
    ],
)
def test_what_it_raises_is_told(
    one: Bench, handler: Callable[[object], object], said: tuple[Any, ...]
) -> None:
    with working(one, handler):
        end = one.end_of(one.publish())
    assert said[1] in (end.error or "")
    found = (end.status, said[1], end.retry, end.retry_in, end.delay)
    assert found == (*said, None, None, None)[:5]


def test_it_has_no_more_than_it_runs(one: Bench) -> None:
    held, came = Held(), threading.Event()

    def pass_on(delivery: Delivery) -> None:
        came.set()
        delivery.reject(requeue=True)

    with working(one, held, max_workers=2):
        runs = [one.publish() for _ in range(5)]
        held.wait(2)
        # Another worker gets all the others, in whatever order.
        others = one.bus.subscribe(one.topics.runs("default"), pass_on)
        assert came.wait(FAILED_AFTER)
        others.close()
        held.go_on.set()
        for each in runs:
            assert one.end_of(each).status == "succeeded"
    assert held.most == 2


def test_a_limit_holds_on_a_topic_of_its_own(one: Bench) -> None:
    held = Held()
    registry = HandlerRegistry()
    registry.register("resize")(lambda instance: held(instance))
    registry.register("send")(lambda instance: "sent")
    with working(one, registry, limits={"resize": 1}, topic_per_task=True):
        own = one.topics.runs("default", "resize")
        runs = [one.publish(own, task="resize") for _ in range(3)]
        held.wait()
        sent = one.publish(one.topics.runs("default", "send"))
        assert one.end_of(sent).result == "sent"
        held.go_on.set()
        for each in runs:
            assert one.end_of(each).status == "succeeded"
    assert held.most == 1


def test_a_limit_gives_back_what_shares_a_topic(one: Bench) -> None:
    held = Held()
    with working(one, held, limits={"resize": 1}):
        first = one.publish(task="resize")
        held.wait()
        second = one.publish(task="resize")
        end = one.end_of(second)
        assert (end.status, end.delay) == ("released", timedelta(seconds=1))
        assert "as many 'resize' as it may" in (end.error or "")
        # It remembers that, and says so again.
        one.again(second)
        one.until(second, "released", count=2)
        held.go_on.set()
        assert one.end_of(first).status == "succeeded"


def test_what_comes_twice_runs_once(one: Bench) -> None:
    held = Held()
    with working(one, held):
        run = one.publish()
        held.wait()
        one.again(run)
        one.again(one.publish(task="another"))
        held.wait()
        held.go_on.set()
        assert one.end_of(run).status == "succeeded"
        one.again(run)
        assert one.until(run, "succeeded", count=2) == one.end_of(run)
    assert not held.called.acquire(blocking=False)
    assert one.of(run).count("accepted") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"\xff{",
        b"[]",
        b'{"version": 2, "action": "run"}',
        None,
    ],
)
def test_what_cannot_be_read_is_dropped(
    one: Bench, caplog: pytest.LogCaptureFixture, body: bytes | None
) -> None:
    topic = one.topics.runs("default")
    with working(one, lambda work: None):
        if body is None:
            run = one.publish()
            one.end_of(run)
            one.cancel(run, NAME)
            one.bus.publish(one.topics.control(NAME), run.to_bytes())
            one.bus.publish(one.topics.control(NAME), b"{")
            body = b'{"version": 1, "action": "cancel", "instance_id": "%s",' % (
                str(run.instance_id).encode()
            )
            body += b'"attempt": 1, "reason": "lost"}'
        one.bus.publish(topic, body)
        assert one.end_of(one.publish()).status == "succeeded"
    assert f"a message from {topic} is dropped" in caplog.text


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not found():
            await asyncio.sleep(0.001)


def test_a_handler_hears_that_it_is_cancelled(one: Bench) -> None:
    called = threading.Event()

    async def handler(_: Work) -> None:
        called.set()
        await until(lambda: current_run().cancelled)
        assert not current_run().lost
        raise Fail("stopped")

    with working(one, handler):
        run = one.publish()
        assert called.wait(FAILED_AFTER)
        one.cancel(run, NAME)
        assert "stopped" in (one.end_of(run).error or "")


def test_a_handler_hears_that_its_run_is_lost(
    one: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    called = threading.Event()

    async def handler(_: Work) -> str:
        called.set()
        await until(lambda: current_run().lost)
        with pytest.raises(Exception, match="is not this run's any more"):
            current_run().extend(LATER)
        return "done all the same"

    with working(one, handler):
        run = one.publish()
        assert called.wait(FAILED_AFTER)
        one.cancel(run, NAME, reason="lost")
        assert one.end_of(run).result == "done all the same"
    assert f"{run.instance_id} is lost" in caplog.text


def test_heartbeats_are_sent_meanwhile(one: Bench) -> None:
    held = Held()

    def handler(work: Work) -> object:
        current_run().extend(LATER)
        return held(work)

    with working(one, handler):
        run = one.publish(heartbeat_timeout=timedelta(0))
        one.until(run, "heartbeat", count=2)
        held.go_on.set()
        one.end_of(run)


def test_a_handler_tells_how_far_it_has_come(one: Bench) -> None:
    go_on = threading.Event()

    def handler(_: Work) -> None:
        said = {"done": [1]}
        tell_progress(said)
        said["done"].append(2)
        assert go_on.wait(FAILED_AFTER)
        tell_progress(object())  # type: ignore[arg-type]

    with working(one, handler):
        run = one.publish()
        assert one.until(run, "progress").progress == {"done": [1]}
        go_on.set()
        assert "progress" in (one.end_of(run).error or "")
    with pytest.raises(SchedulerStateError, match="a DispatchWorker calls"):
        tell_progress(1)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_timeout_cancels_what_is_async(one: Bench, wrapped: bool) -> None:
    async def handler(_: Work) -> None:
        await asyncio.sleep(FAILED_AFTER)

    called = (lambda work: handler(work)) if wrapped else handler
    with working(one, called):
        end = one.end_of(one.publish(timeout=timedelta(seconds=0.01)))
    assert end.status == "failed"
    assert (end.error or "").startswith("timed out after 0:00:00.010000\n\nTraceback")


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_has_timed_out_before_it_executes_is_cancelled_then(wrapped: bool) -> None:
    began: list[Work] = []

    async def handler(work: Work) -> None:
        began.append(work)
        await asyncio.sleep(FAILED_AFTER)

    called = (lambda work: handler(work)) if wrapped else handler
    calling = Calling(called, logging.getLogger(__name__))
    run = Run(**WHAT, instance_id=uuid4())
    taken = Taken(run, "topic", loop=None)  # type: ignore[arg-type]
    calling.end(taken)
    assert not taken.was_ended
    ending = asyncio.run(calling.call(taken))
    calling.stop()
    assert taken.was_ended
    # Else Python warns, at some later time, of what was never awaited.
    assert began == [taken.work]
    assert ending.failure is not None
    assert "CancelledError" in ending.failure.error


class Around(Instrument):
    """Notes in which trace handlers are called."""

    def __init__(self) -> None:
        self.traces: list[str | None] = []

    def watch(self, node: Watched) -> None:
        """A worker has no node."""

    @contextmanager
    def around(self, instance: TaskInstance) -> Iterator[None]:
        self.traces.append(instance.trace_context)
        yield


def test_handlers_are_called_within_the_trace_of_their_run(one: Bench) -> None:
    around = Around()
    with working(one, lambda work: work.traceparent, telemetry=around):
        sent = one.publish(trace_context="00-a-b-01", trace_state="c=1")
        assert one.end_of(sent).result == "00-a-b-01"
        one.end_of(one.publish())
    assert around.traces == ["00-a-b-01 c=1", None]


def test_what_looks_mistyped_is_warned_of(
    one: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    registry = HandlerRegistry()
    registry.task("send", queue="mail")(lambda: None)
    DispatchWorker(one.bus, registry, queues=["mail"], topic_per_task=["send"])
    assert caplog.messages == []
    DispatchWorker(one.bus, registry, queues=["mial"], topic_per_task=["sned"])
    assert caplog.messages == [
        "topic_per_task: no handler is registered as 'sned', but send: its topic is not"
        " heard",
        "queues: none of the tasks send is in 'mial', but in mail",
    ]
    caplog.clear()
    # What is in which queue nobody knows.
    registry.register("note")(print)
    DispatchWorker(one.bus, registry, queues=["mial"], topic_per_task=True)
    assert caplog.messages == []


SENDS = HandlerRegistry()
SENDS.register("send")(print)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bus": 5}, "bus must be a MessageBus, not 5"),
        # Without the URL, which may have a password.
        ({"bus": "amqp://me:secret@host"}, r"^bus must be a MessageBus, and not text"),
        ({"handler": 5}, "the handler cannot be called"),
        ({"queues": "mail"}, r"such as \('mail',\)"),
        ({"queues": ()}, "one at least"),
        ({"max_workers": 0}, "max_workers must be at least 1"),
        ({"limits": 5}, 'limits must be such as {"resize": 2}'),
        ({"limits": {"a": 0}}, r"limits\['a'\] must be at least 1: 0"),
        ({"limits": {5: 1}}, "limits"),
        ({"limits": {"a": 1}, "handler": SENDS}, "registered as 'a', but send"),
        ({"handler": HandlerRegistry()}, "the registry has no handlers"),
        ({"topic_per_task": True}, "only a HandlerRegistry says"),
        ({"topic_per_task": "a"}, "True, False or names"),
        ({"telemetry": print}, "telemetry"),
        ({"name": "é" * 200}, "shorter name"),
        ({"name": "a\nb"}, r"without line breaks: 'a\\nb'"),
    ],
)
def test_it_refuses_what_is_wrong(options: dict[str, Any], text: str) -> None:
    with open_bus("memory://refused") as bus:
        given: dict[str, Any] = {"bus": bus, "handler": print}
        given |= options
        with pytest.raises(ConfigurationError, match=text):
            DispatchWorker(given.pop("bus"), given.pop("handler"), **given)


@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_stopped_by_a_handler_that_does_not_wait_for_itself(
    one: Bench, is_async: bool
) -> None:
    answers: SimpleQueue[bool] = SimpleQueue()

    def handler(_: Work) -> None:
        answers.put(worker.stop())

    async def async_handler(work: Work) -> None:
        handler(work)

    called = async_handler if is_async else handler
    worker = DispatchWorker(one.bus, called, name=NAME)
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    run = one.publish()
    assert not answers.get(timeout=FAILED_AFTER)
    running.join(FAILED_AFTER)
    assert not running.is_alive()
    assert one.end_of(run).status == "succeeded"
    assert worker.stop()


def test_whoever_stops_it_after_a_handler_waits_for_that(one: Bench) -> None:
    held = Held()

    def handler(work: Work) -> None:
        worker.stop()
        held(work)

    worker = DispatchWorker(one.bus, handler, name=NAME)
    worker.start()
    one.publish()
    held.wait()
    assert not worker.stop(timedelta(0))
    held.go_on.set()
