"""A trace goes on from whoever puts something to the handler that runs it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.propagate import inject
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from go_scheduler.client import Client
from go_scheduler.client.on_demand import Job
from go_scheduler.errors import ConfigurationError
from go_scheduler.http import create_app
from go_scheduler.http.limits import trace_context_of
from go_scheduler.http.worker import Worker
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Addition
from go_scheduler.telemetry import Telemetry
from go_scheduler.telemetry.figures import Gathering
from go_scheduler.testing.clock import START
from go_scheduler.triggers.simple import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from tests.conftest import SQL, seconds
from tests.http.serving import Calling
from tests.http.work.house import server, wait_until
from tests.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.events.event import Put
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from tests.telemetry.conftest import House

ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TASK = TaskDefinition(
    id=TaskDefinition.id_for("task send"), name="send", trigger=OnDemandTrigger()
)
HOURLY = TaskDefinition(
    id=TaskDefinition.id_for("hourly"),
    trigger=IntervalTrigger(timedelta(hours=1), anchor=START - timedelta(days=1)),
)


def context(span: ReadableSpan) -> trace.SpanContext:
    found: trace.SpanContext | None = span.context
    assert found is not None
    return found


def linked(span: ReadableSpan) -> list[int]:
    return [each.context.span_id for each in span.links]


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def check_one_trace(house: House, put: str) -> None:
    """Check that the order led to a put and that to a run, all in one trace."""
    order, put_span, run = house.one("order"), house.one(put), house.one("process")
    assert len({context(each).trace_id for each in (order, put_span, run)}) == 1
    assert parent(put_span) == context(order).span_id
    assert parent(run) == context(put_span).span_id
    assert linked(run) == [context(put_span).span_id]


def test_one_trace_leads_from_schedule_to_the_run(
    house: House, clock: ManualClock, store: Store
) -> None:
    def handler(instance: TaskInstance) -> None:
        found.append(instance.trace_context)
        inside.append(trace.get_current_span().get_span_context())

    found: list[str | None] = []
    inside: list[trace.SpanContext] = []
    with house.scheduler(store, clock, handler) as scheduler:
        with house.order():
            given = replace(TASK, trigger=ExecuteOnceTrigger(START + seconds(5)))
            scheduler.schedule(given)
        clock.advance(seconds(10))
    check_one_trace(house, "schedule send")
    put, run = house.one("schedule"), house.one("process")
    assert put.kind is trace.SpanKind.PRODUCER
    assert house.attributes("schedule") == {
        "messaging.system": "go_scheduler",
        "messaging.operation.name": "schedule",
        "messaging.operation.type": "create",
    }
    [text] = found
    assert text is not None
    assert text.startswith(f"00-{context(put).trace_id:032x}-")
    assert inside == [context(run)]


def test_the_same_scheduled_again_stays_in_its_trace(
    house: House, store: Store
) -> None:
    client = house.client(store)
    given = replace(HOURLY, name="report")
    first = client.schedule(given)
    again = client.schedule(given)
    assert (again.trace_context, again.revision) == (first.trace_context, 1)
    edited = client.schedule(replace(given, name="other"))
    assert edited.trace_context not in (None, first.trace_context)
    assert client.get_definition(given.id).trace_context == edited.trace_context


def aenqueue(client: Client) -> object:
    return asyncio.run(client.aenqueue("send"))


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("enqueue", lambda client: client.enqueue("send", order=7)),
        ("enqueue_all", lambda client: client.enqueue_all("send", [Job(key="7")])),
        ("run_now", lambda client: client.run_now(TASK.id)),
        ("enqueue", aenqueue),
    ],
    ids=["enqueue", "enqueue_all", "run_now", "aenqueue"],
)
def test_one_trace_leads_from_a_call_to_the_run(
    house: House,
    clock: ManualClock,
    store: Store,
    name: str,
    put: Callable[[Client], object],
) -> None:
    Client(store).schedule(TASK)
    with house.scheduler(store, clock, lambda _: None) as scheduler:
        with house.order():
            put(scheduler)
        clock.advance(seconds(10))
    check_one_trace(house, name)


def test_what_is_put_by_one_process_is_run_in_its_trace_by_another(
    house: House, clock: ManualClock, store: Store
) -> None:
    client = house.client(store)
    client.schedule_all([TASK, HOURLY])
    assert house.attributes("schedule_all")["messaging.batch.message_count"] == 2
    with house.order():
        client.enqueue("send")
    with house.scheduler(store, clock, lambda _: None):
        clock.advance(seconds(10))
    run = house.one("process send")
    assert parent(run) == context(house.one("enqueue")).span_id


def test_runs_of_a_schedule_and_of_a_backfill_are_linked_in_traces_of_their_own(
    house: House, clock: ManualClock, store: Store
) -> None:
    anchor = START - timedelta(days=1)
    often = replace(HOURLY, trigger=IntervalTrigger(seconds(10), anchor=anchor))
    with house.scheduler(store, clock, lambda _: None) as scheduler:
        with house.order():
            scheduler.schedule(often)
        clock.advance(seconds(25))
        put, runs = context(house.one("schedule")), house.spans("process")
        assert [(parent(run), linked(run)) for run in runs] == [
            (None, [put.span_id])
        ] * 2
        assert len({put.trace_id, *(context(each).trace_id for each in runs)}) == 3
        scheduler.backfill(often.id, START - seconds(20), START)
        clock.advance(seconds(1))
    filled = context(house.one("backfill")).span_id
    assert [linked(run) for run in house.spans("process")[2:]] == [[filled]] * 2


@pytest.mark.parametrize("engine", SQL, indirect=True)
def test_it_is_kept_within_a_transaction_of_the_users(
    house: House, store: Store, store_url: str
) -> None:
    client = house.client(store)
    client.schedule(TASK)
    engine = Shop(store_url).engine
    with engine.begin() as connection:
        made = client.enqueue("send", connection=connection)
        put = client.schedule(HOURLY, connection=connection)
    engine.dispose()
    for own, found in (
        (made.trace_context, client.get_instance(made.id)),
        (put.trace_context, client.get_definition(put.id)),
    ):
        assert own is not None
        assert found.trace_context == own


def test_nothing_put_is_no_span(house: House, store: Store) -> None:
    client = house.client(store)
    assert client.schedule_all([]) == []
    assert house.spans() == []


def test_without_telemetry_nothing_is_carried(store: Store, house: House) -> None:
    client = Client(store)
    with house.order():
        client.schedule_all([TASK, HOURLY])
        made = client.enqueue("send")
        client.backfill(HOURLY.id, START - timedelta(hours=2), START)
    found = [client.get_instance(made.id), *client.list_instances()]
    assert {each.trace_context for each in found} == {None}
    assert client.get_definition(TASK.id).trace_context is None


def test_without_a_provider_what_is_current_is_carried_as_it_is() -> None:
    client = Client(MemoryStore(), telemetry=Telemetry())
    assert client.schedule(TASK).trace_context is None
    span = trace.NonRecordingSpan(
        trace.SpanContext(0xA, 0xB, is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    with trace.use_span(span):
        made = client.enqueue("send")
    assert made.trace_context == f"00-{0xA:032x}-{0xB:016x}-01"


class Odd(Gathering):
    """Says what no store can keep."""

    def carry(self, put: Put) -> str | None:
        return "ä"


@pytest.mark.parametrize(
    "put",
    [
        lambda client: client.schedule(TASK),
        lambda client: client.enqueue("send"),
        lambda client: client.backfill(HOURLY.id, START - timedelta(hours=2), START),
    ],
)
def test_what_no_store_can_keep_is_refused(
    put: Callable[[Client], object], clock: ManualClock
) -> None:
    store = MemoryStore(clock)
    Client(store).schedule_all([TASK, HOURLY])
    with pytest.raises(ConfigurationError, match="trace_context must be ASCII"):
        put(Client(store, telemetry=Odd()))


@pytest.mark.parametrize("context", ["", "ä", "a\n", "x" * 601, b"x", 1])
def test_a_context_is_short_and_ascii(context: Any) -> None:
    with pytest.raises(ConfigurationError, match="trace_context"):
        Addition(trace_context=context)
    with pytest.raises(ConfigurationError, match="trace_context"):
        replace(TASK, trace_context=context)


@pytest.mark.parametrize(
    "make", [Client, lambda _, **given: Worker("http://a", print, **given)]
)
def test_what_is_no_telemetry_is_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigurationError, match="telemetry"):
        make(MemoryStore(), telemetry=print)


@pytest.mark.parametrize("traced", [True, False])
def test_the_trace_of_a_request_is_carried(
    house: House, store: Store, traced: bool
) -> None:
    client = house.client(store) if traced else Client(store)
    headers = {"traceparent": ELSEWHERE}
    job = {"type": "send", "payload": {}}
    with Calling(create_app(client)) as http:
        body = {"id": str(TASK.id), "name": "send", "trigger": {"on_demand": True}}
        assert http.post("/v1/definitions", json=body, headers=headers).is_success
        found = http.post("/v1/jobs", json=job, headers=headers).json()
        later = http.post("/v1/jobs", json=job).json()
    made, plain = (
        client.get_instance(UUID(each["instance_id"])) for each in (found, later)
    )
    put = client.get_definition(TASK.id)
    assert put.metadata == {}
    texts = [put.trace_context, made.own_trace_context]
    if not traced:
        assert [*texts, plain.own_trace_context] == [ELSEWHERE, ELSEWHERE, None]
        return
    spans = [house.one("schedule"), house.spans("enqueue_all")[0]]
    for span, text in zip(spans, texts, strict=True):
        assert f"{parent(span):016x}" in ELSEWHERE
        assert text is not None
        assert text[:36] == ELSEWHERE[:36]
        assert f"{context(span).span_id:016x}" in text


@pytest.mark.parametrize(
    ("parents", "states", "found"),
    [
        ([], [], None),
        ([ELSEWHERE], [], ELSEWHERE),
        ([ELSEWHERE, ELSEWHERE], [], None),
        (["odd"], [], None),
        (["00" + ELSEWHERE[2:] + "-more"], [], None),
        (["01" + ELSEWHERE[2:] + "-more"], [], "01" + ELSEWHERE[2:]),
        (["ff" + ELSEWHERE[2:]], [], None),
        ([ELSEWHERE.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)], [], None),
        ([ELSEWHERE.replace("b7ad6b7169203331", "0" * 16)], [], None),
        ([ELSEWHERE], ["a=1,b@c=x y"], f"{ELSEWHERE} a=1,b@c=x y"),
        ([ELSEWHERE], ["a=1", "b=2"], f"{ELSEWHERE} a=1,b=2"),
        ([ELSEWHERE], ["a=" + "x" * 256], f"{ELSEWHERE} a={'x' * 256}"),
        ([ELSEWHERE], [f"a={'x' * 254},b={'x' * 254}"], ELSEWHERE),
        ([ELSEWHERE], ["odd"], ELSEWHERE),
        ([ELSEWHERE], ["a=b=c"], ELSEWHERE),
        ([ELSEWHERE], ["a=1 ,b=2"], f"{ELSEWHERE} a=1 ,b=2"),
        ([ELSEWHERE], ["a=1 "], ELSEWHERE),
        # A reader that backtracks into each of these never ends.
        ([ELSEWHERE], ["a=1    ," * 31 + "!"], ELSEWHERE),
        ([ELSEWHERE], [",".join(f"a{n}=1" for n in range(33))], ELSEWHERE),
        ([ELSEWHERE], ["a=1 , b=2"], f"{ELSEWHERE} a=1 , b=2"),
    ],
)
def test_the_headers_of_a_trace_are_carried_if_they_are_right(
    parents: list[str], states: list[str], found: str | None
) -> None:
    headers = [(b"traceparent", each.encode()) for each in parents]
    headers += [(b"tracestate", each.encode()) for each in states]
    assert trace_context_of({"type": "http", "headers": headers}) == found


async def later(_: object) -> object:
    await asyncio.sleep(0)
    return carrier()


def carrier(_: object = None) -> dict[str, str]:
    found: dict[str, str] = {}
    inject(found)
    return found


@pytest.mark.parametrize("handler", [carrier, later])
def test_one_trace_leads_to_a_worker_elsewhere(
    house: House, handler: Callable[[object], object]
) -> None:
    with server(MemoryStore()) as one:
        task = one.task(id=TASK.id, name="send", queue="mail")
        headers = {"traceparent": ELSEWHERE, "tracestate": "a=1"}
        answer = one.client.post("/v1/jobs", json={"type": "send"}, headers=headers)
        assert answer.is_success, answer.text
        id = UUID(answer.json()["instance_id"])
        assert one.scheduler.get_instance(id).trace_context == f"{ELSEWHERE} a=1"
        with Worker(one.url, handler, queues=["mail"], telemetry=house.telemetry):
            wait_until(lambda: one.scheduler.get_instance(id).completed_at is not None)
        result = one.scheduler.get_instance(id).result
    run = house.one("process send")
    assert f"{context(run).trace_id:032x}-{parent(run):016x}" in ELSEWHERE
    attributes = house.attributes("process send")
    assert attributes["messaging.destination.name"] == "mail"
    assert attributes["go_scheduler.definition.id"] == str(task.id)
    assert result == {
        "traceparent": f"{ELSEWHERE[:36]}{context(run).span_id:016x}-01",
        "tracestate": "a=1",
    }


class Broken(SpanProcessor):
    """Is set up wrongly."""

    def on_start(self, span: object, parent_context: object = None) -> None:
        raise ZeroDivisionError


def test_spans_that_cannot_be_made_keep_nothing_from_being_put(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.tracers.add_span_processor(Broken())
    client = house.client(MemoryStore())
    assert client.schedule(TASK).trace_context is None
    assert client.enqueue("send").trace_context is None
    assert "a span could not be made of what is put" in caplog.text
