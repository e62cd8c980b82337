"""Imports: line by line, each once, whatever stands in them and whoever sends them."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.http import create_app
from go_scheduler.http.jobs import importing
from go_scheduler.http.jobs.jitter import JobDefaults
from go_scheduler.http.limits import Limits
from go_scheduler.json import write_instant
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import SECOND
from go_scheduler.testing.clock import START
from tests.http.jobs.asking import LINES, As, events_of, field_of, lines
from tests.http.serving import called, client_of, served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import httpx

    from go_scheduler.models import TaskInstance

SEND = TaskDefinition(
    id=TaskDefinition.id_for("task send"), name="send", trigger=OnDemandTrigger()
)
PATH = "/v1/jobs/import"
APP = ("access", "clock", "jobs", "limits")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(clock: ManualClock) -> Client:
    client = Client(MemoryStore(clock))
    client.schedule(SEND)
    return client


def ask(
    client: Client,
    asking: Callable[[httpx.AsyncClient], Awaitable[None]],
    **options: Any,
) -> None:
    async def run() -> None:
        async with called(create_app(client, **options)) as http:
            await asking(http)

    asyncio.run(run())


def import_(
    client: Client, body: bytes, name: str | None = None, /, **more: Any
) -> list[dict[str, Any]]:
    """The events of one import, by what it asks and what the application has."""
    found: list[dict[str, Any]] = []
    asked = {**more, **({} if name is None else {"import": name})}
    # On a clock that stands still nothing is told of progress.
    options: dict[str, Any] = {"clock": ManualClock()}
    options |= {each: asked.pop(each) for each in APP if each in asked}

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post(PATH, content=body, headers=LINES, params=asked)
        found.extend(events_of(answer))

    ask(client, asking, **options)
    return found


def orders(count: int, **more: object) -> list[dict[str, Any]]:
    return [
        {"type": "send", "payload": {"order": number}, **more}
        for number in range(1, count + 1)
    ]


def stored(client: Client) -> list[TaskInstance]:
    found: list[TaskInstance] = []
    after = None
    while True:
        page = client.list_instances(limit=1000, after=after)
        found += page
        if page.next is None:
            return found
        after = page.next


def orders_of(client: Client) -> list[Any]:
    """What the payloads say, in order."""
    payloads: Any = [each.payload for each in stored(client)]
    return sorted(each["order"] for each in payloads)


def counts_of(event: dict[str, Any]) -> tuple[int, ...]:
    return tuple(event[each] for each in ("read", "made", "known", "refused"))


def test_each_line_is_a_job_made_once_by_the_name_of_the_import(
    client: Client,
) -> None:
    body = lines(orders(1200))
    first, last = import_(client, body, "may")
    assert first == {"event": "started", "import": "may", "start": None}
    assert (last["event"], counts_of(last)) == ("done", (1200, 1200, 0, 0))
    assert orders_of(client) == [*range(1, 1201)]
    _, last = import_(client, body, "may")
    assert (last["event"], counts_of(last)) == ("done", (1200, 0, 1200, 0))
    _, last = import_(client, body, "june")
    assert counts_of(last) == (1200, 1200, 0, 0)
    assert len(stored(client)) == 2400


def test_an_import_may_come_in_parts(client: Client, clock: ManualClock) -> None:
    options = {"clock": clock, "limits": replace(Limits(), import_lines=2)}
    asked = {"import": "may", "interval": 60}
    first, last = import_(client, lines(orders(2)), **asked, **options)
    assert (last["event"], counts_of(last)) == ("done", (2, 2, 0, 0))
    assert first["start"] == write_instant(START)
    clock.advance(SECOND)
    asked |= {"first": 3, "start": first["start"]}
    *_, last = import_(client, lines(orders(2)), **asked, **options)
    assert (last["event"], counts_of(last)) == ("done", (2, 2, 0, 0))
    *_, last = import_(client, lines(orders(3)), **asked, **options)
    assert (last["event"], counts_of(last)) == ("stopped", (2, 0, 2, 0))
    assert {each.execute_at - START: each.key for each in stored(client)} == {
        timedelta(minutes=n - 1): f"import may:{n}" for n in range(1, 5)
    }


def test_a_name_is_made_up_and_told(client: Client) -> None:
    body = lines(orders(2))
    first, last = import_(client, body)
    assert first["import"] == last["import"]
    _, last = import_(client, body, first["import"])
    assert counts_of(last) == (2, 0, 2, 0)


def test_a_key_of_a_line_is_that_of_the_job(client: Client) -> None:
    client.enqueue("send", key="order 7")
    jobs = [*orders(1, key="order 7"), *orders(2, key="order 8")]
    _, last = import_(client, lines(jobs))
    assert counts_of(last) == (3, 1, 2, 0)
    assert {each.key for each in stored(client)} == {"order 7", "order 8"}


def test_lines_that_a_full_queue_drops_are_counted_by_themselves(
    client: Client,
) -> None:
    client.schedule(replace(SEND, max_queue=2, when_full="drop"))
    _, last = import_(client, lines(orders(3)), "may")
    assert (counts_of(last), last["dropped"]) == ((3, 2, 0, 0), 1)
    _, last = import_(client, lines(orders(3)), "may")
    assert (counts_of(last), last["dropped"]) == ((3, 0, 3, 0), 0)


def test_lines_may_be_of_many_types_and_have_settings_of_their_own(
    client: Client,
) -> None:
    client.schedule(replace(SEND, id=TaskDefinition.id_for("task b"), name="b"))
    jobs: list[dict[str, Any]] = [
        *orders(2),
        {"type": "b", "queue": "slow", "retry": {"max_attempts": 2}},
        {"type": "b", "at": "2031-01-01T00:00:00Z"},
        {"type": "b", "delay": 5, "queue": "slow"},
    ]
    for expected in ((5, 5, 0, 0), (5, 0, 5, 0)):
        _, last = import_(client, lines(jobs), "may")
        assert counts_of(last) == expected
    found = [(each.definition.name, each.definition.queue) for each in stored(client)]
    assert sorted(found, key=str) == [
        ("b", "default"),
        ("b", "slow"),
        ("b", "slow"),
        ("send", "default"),
        ("send", "default"),
    ]


def test_lines_are_staggered_over_a_window_and_moved_by_a_jitter(
    client: Client, clock: ManualClock
) -> None:
    client.schedule(replace(SEND, id=TaskDefinition.id_for("task b"), name="b"))
    own: list[dict[str, Any]] = [
        {"type": "b", "delay": 7},
        {"type": "b", "at": "2031-01-01T00:00:00Z"},
    ]
    import_(client, lines([*own, *orders(998)]), clock=clock, window=3600)
    found = [each for each in stored(client) if each.definition.name == "send"]
    for hour in range(6):
        within = timedelta(minutes=10 * hour), timedelta(minutes=10 * (hour + 1))
        count = sum(within[0] <= it.execute_at - START < within[1] for it in found)
        assert 160 <= count <= 172
    at = {each.execute_at.year for each in stored(client)}
    assert at == {START.year, 2031} or START.year == 2031
    before = {each.execute_at for each in found}
    body = lines(orders(3))
    import_(client, body, "may", clock=clock, window=3600, jitter=60)
    moved = [it for it in stored(client) if (it.key or "").startswith("import may:")]
    assert not {each.execute_at for each in moved} & before


def test_lines_may_follow_each_other_from_a_start(client: Client) -> None:
    start = "2030-01-01T00:00:00Z"
    import_(client, lines(orders(3)), start=start, interval=2)
    at = [each.execute_at.isoformat() for each in stored(client)]
    assert at == [f"2030-01-01T00:00:0{each}+00:00" for each in (0, 2, 4)]


def test_what_the_server_says_holds_for_imports_that_do_not_say(
    client: Client, clock: ManualClock
) -> None:
    jobs = JobDefaults(interval=10 * SECOND, jitter=SECOND)
    import_(client, lines(orders(3)), jobs=jobs, clock=clock)
    at = [(each.execute_at - START) / SECOND for each in stored(client)]
    assert all(10 * n <= each <= 10 * n + 1 for n, each in enumerate(at))
    client.delete_definitions(name="send")
    client.schedule(SEND)
    body = lines(orders(3))
    import_(client, body, jobs=jobs, clock=clock, interval=0, jitter=0)
    assert {each.execute_at for each in stored(client)} == {START}


GOOD = b'{"type":"send","payload":{"order":1}}'
BAD = [
    (b"nonsense", "", "it is no JSON: Expecting value at column 1"),
    (b'{"type":"send"', "", "each line is a whole object"),
    (b'{"type":"send"}{"type":"send"}', "", "it is no JSON: Extra data"),
    (b'"type"', "", "it must be an object"),
    (b"[]", "", "it must be an object"),
    (b'{"type":"send","payload":{"a":NaN}}', "", "NaN"),
    (b'{"type":"send","payload":{"a":-Infinity}}', "", "NaN"),
    (b'{"type":"send","payload":{"a":1e999}}', "payload", "is inf"),
    (b'{"type":"send","payload":{"a":' + b"9" * 5000 + b"}}", "", "too many digits"),
    (b'{"a":' * 50_000, "", "nested too deep"),
    (
        b'{"type":"send","payload":' + b'{"a":' * 150 + b"1" + b"}" * 151,
        "payload",
        "nested more than 100 deep",
    ),
    (b'{"type":"se\0nd"}', "", "it is no JSON: Invalid control character"),
    (b'{"type":"se\\u0000nd"}', "type", "holds a NUL"),
    (b'{"type":"\\ud800"}', "type", "lone surrogate"),
    (b'{"type":"send","payload":{"a":"\\u0000"}}', "payload", "holds a NUL"),
    ('{"type":"größe"}'.encode("latin-1"), "", "not UTF-8 from its byte 12 on"),
    ('{"type":"send"}'.encode("utf-16"), "", "not UTF-8 from its byte 1 on"),
    (b'{"type":"' + b"x" * 1_100_000 + b'"}', "", "at most 1048576 bytes"),
    (b'{"type":"send","payload":{"a":"' + b"x" * 70_000 + b'"}}', "payload", "bytes"),
    (b'{"type":"nobody"}', "", "PUT /v1/types/nobody"),
    (b"{}", "type", "it is missing"),
    (b'{"type":"send","kye":"7"}', "kye", "did you mean key?"),
    (b'{"type":"send","at":"soon"}', "at", "RFC 3339"),
    (b'{"type":"send","delay":1,"at":"2030-01-01T00:00:00Z"}', "delay", "not by both"),
    (b'{"type":"send","key":""}', "key", "1 to 200 characters"),
    (b'{"type":"send","retry":{"max_attempts":0}}', "retry.max_attempts", ""),
    (b'{"type":"send","queue":"a","owner":""}', "owner", "1 to 200 characters"),
]


@pytest.mark.parametrize(("line", "field", "detail"), BAD)
def test_a_bad_line_costs_itself_alone(
    client: Client, line: bytes, field: str, detail: str
) -> None:
    body = b"\r\n".join([GOOD, b"", line, GOOD, b""])
    _, refused, last = import_(client, body, "may", on_error="skip")
    assert (refused["event"], refused["line"]) == ("refused", 3)
    assert detail in refused["detail"]
    if refused["errors"]:
        assert refused["errors"][0]["field"] == field
    assert (last["event"], counts_of(last)) == ("done", (3, 2, 0, 1))
    keys = {each.key for each in stored(client)}
    assert keys == {"import may:1", "import may:4"}


def test_unless_told_otherwise_it_stops_at_a_bad_line(client: Client) -> None:
    body = lines(orders(700)) + b"nonsense\n" + lines(orders(700))
    _, refused, last = import_(client, body, "may")
    assert refused["line"] == 701
    assert (last["event"], counts_of(last)) == ("stopped", (701, 700, 0, 1))
    assert "import=may" in last["detail"]
    assert len(stored(client)) == 700
    mended = body.replace(b"nonsense", GOOD)
    _, last = import_(client, mended, "may")
    assert (last["event"], counts_of(last)) == ("done", (1401, 701, 700, 0))


def test_no_more_lines_are_told_of_than_a_person_reads(client: Client) -> None:
    events = import_(client, b"nonsense\n" * 1500, on_error="skip")
    assert len(events) == 1002
    assert counts_of(events[-1]) == (1500, 0, 0, 1500)


def test_an_import_has_only_so_many_lines(client: Client) -> None:
    limits = Limits(import_lines=3)
    for end in (b"", b"\n"):
        body = b"\n".join([GOOD] * 3)
        *_, last = import_(client, body + end, limits=limits)
        assert (last["event"], counts_of(last)) == ("done", (3, 3, 0, 0))
        for more in (b"\n" + GOOD, b"\n\n\n" + GOOD):
            *_, last = import_(client, body + more + end, limits=limits)
            assert (last["event"], counts_of(last)) == ("stopped", (3, 3, 0, 0))
            assert "at most 3 lines" in last["detail"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"window": 5, "interval": 5}, "interval"),
        ({"window": -1}, "window"),
        ({"window": "nan"}, "window"),
        ({"jitter": "inf"}, "jitter"),
        ({"interval": 1e12}, "interval"),
        ({"start": "tomorrow"}, "start"),
        ({"start": "0001-01-01T00:00:00+01:00"}, "start"),
        ({"import": ""}, "import"),
        ({"import": "x" * 181}, "import"),
        ({"import": "\0"}, "import"),
        ({"on_error": "retry"}, "on_error"),
        ({"windw": 5}, "windw"),
    ],
)
def test_what_is_asked_and_cannot_be_is_refused_by_its_name(
    client: Client, asked: dict[str, Any], field: str
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post(PATH, content=GOOD, headers=LINES, params=asked)
        assert field_of(answer) == field

    ask(client, asking)
    assert stored(client) == []


def test_other_bodies_than_lines_are_refused(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for headers in (
            {"Content-Type": "text/csv"},
            LINES | {"Content-Encoding": "gzip"},
        ):
            answer = await http.post(PATH, content=GOOD, headers=headers)
            assert answer.status_code == 415
        answer = await http.post(PATH, headers=LINES)
        assert counts_of(events_of(answer)[-1]) == (0, 0, 0, 0)

    ask(client, asking)


def test_what_callers_may_not_is_refused_line_by_line(client: Client) -> None:
    jobs: list[dict[str, Any]] = [
        {"type": "send", "queue": "a"},
        {"type": "send", "queue": "b"},
    ]
    access = As(queues={"default", "a"})
    *_, refused, last = import_(client, lines(jobs), access=access, on_error="skip")
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:queue")
    assert counts_of(last) == (2, 1, 0, 1)
    key: dict[str, Any] = {"type": "send", "key": "7"}
    import_(client, lines([key | {"queue": "theirs"}]))
    jobs = [*orders(1), key | {"timeout": 9}, *orders(1)]
    _, refused, last = import_(client, lines(jobs), access=access)
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:key")
    assert (last["event"], counts_of(last)) == ("stopped", (3, 2, 0, 1))


def test_a_line_whose_definition_is_anothers_costs_itself_alone(
    client: Client,
) -> None:
    id = TaskDefinition.id_for('job ["shop", "send", "7"]')
    client.declare([replace(SEND, id=id, named=True)], owner="bank")
    own = {"type": "send", "key": "7", "queue": "a", "owner": "shop"}
    jobs: list[dict[str, Any]] = [*orders(1), own, *orders(1)]
    _, refused, last = import_(client, lines(jobs), on_error="skip")
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:invalid")
    assert (last["event"], counts_of(last)) == ("done", (3, 2, 0, 1))


def test_of_a_type_that_is_gone_no_line_is_taken(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        body = lines(orders(3))
        await http.post(PATH, content=body, headers=LINES)
        client.delete_definition(SEND.id)
        answer = await http.post(PATH, content=body, headers=LINES)
        _, *refused, last = events_of(answer)
        assert [each["line"] for each in refused] == [1, 2, 3]
        assert (last["event"], counts_of(last)) == ("stopped", (3, 0, 0, 3))

    ask(client, asking)


class Failing(Client):
    """Its store is away after some batches."""

    left = 1

    def enqueue_all(self, *args: Any, **options: Any) -> Any:
        if self.left == 0:
            raise StoreUnavailableError("away, with a secret")
        self.left -= 1
        return super().enqueue_all(*args, **options)

    async def aenqueue_all(self, *args: Any, **options: Any) -> Any:
        return self.enqueue_all(*args, **options)


def test_when_the_store_is_away_what_was_made_stays(clock: ManualClock) -> None:
    client = Failing(MemoryStore(clock))
    client.schedule(SEND)
    body = lines(orders(1200))
    _, last = import_(client, body, "may")
    assert (last["event"], counts_of(last)) == ("failed", (500, 500, 0, 0))
    assert "try again" in last["detail"]
    assert "secret" not in last["detail"]
    client.left = 9
    _, last = import_(client, body, "may")
    assert (last["event"], counts_of(last)) == ("done", (1200, 700, 500, 0))


def test_progress_is_told_each_second_and_later_less_often(
    client: Client, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_BATCH", 1)

    async def body() -> AsyncIterator[bytes]:
        for number in range(1, 9):
            yield lines(orders(1))
            clock.advance((3000 if number == 4 else 1) * SECOND)

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post(PATH, content=body(), headers=LINES)
        _, *told, last = events_of(answer)
        assert {each["event"] for each in told} == {"progress"}
        assert [each["read"] for each in told] == [2, 3, 4, 5]
        assert counts_of(last) == (8, 8, 0, 0)

    ask(client, asking, clock=clock)


def head(length: int, more: str = "") -> bytes:
    return (
        f"POST {PATH}?import=may HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def answered(to: socket.socket) -> str:
    """All that is answered until the other end closes."""
    found = b""
    while part := to.recv(65_536):
        found += part
        if b'"done"' in found and found.endswith(b"\r\n0\r\n\r\n"):
            break
    return found.decode()


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_sender_that_waits_to_be_told_to_go_on_is_told(
    client: Client, http: str
) -> None:
    body = lines(orders(3))
    with (
        served(create_app(client), http=http) as where,
        socket.create_connection(where, FAILED_AFTER) as sender,
    ):
        sender.sendall(head(len(body), "Expect: 100-continue\r\n"))
        assert sender.recv(12) == b"HTTP/1.1 100"
        sender.sendall(body)
        text = answered(sender)
    assert '"read": 3, "made": 3' in text
    assert len(stored(client)) == 3


@pytest.mark.slow
def test_a_sender_that_falls_asleep_is_told_and_may_begin_again(
    client: Client,
) -> None:
    limits = Limits(read=timedelta(milliseconds=300))
    body = lines(orders(3))
    with (
        served(create_app(client, limits=limits)) as where,
        socket.create_connection(where, FAILED_AFTER) as sleepy,
    ):
        sleepy.sendall(head(10_000) + body[:-10])
        text = answered(sleepy)
    assert text.startswith("HTTP/1.1 200")
    assert '"event": "failed"' in text
    assert "took too long to arrive" in text
    assert "Traceback" not in text
    _, last = import_(client, body, "may")
    assert counts_of(last)[0] == 3
    assert len(stored(client)) == 3


@pytest.mark.slow
def test_what_a_sender_who_hung_up_has_sent_is_not_doubled(client: Client) -> None:
    body = lines(orders(1700))
    made = 0
    with served(create_app(client)) as where:
        with socket.create_connection(where, FAILED_AFTER) as sender:
            sender.sendall(head(len(body)) + body[:-100])
            while made < 1500:
                made = len(stored(client))
        with socket.create_connection(where, FAILED_AFTER) as sender:
            sender.sendall(head(len(body)) + body)
            text = answered(sender)
    last = json.loads(text[text.index('{"event": "done"') :].splitlines()[0])
    assert (last["read"], last["made"] + last["known"]) == (1700, 1700)
    assert orders_of(client) == [*range(1, 1701)]


@pytest.mark.slow
def test_who_is_stopped_while_still_sending_is_answered_all_the_same(
    client: Client,
) -> None:
    def body() -> Iterator[bytes]:
        yield b"nonsense\n"
        for _ in range(200):
            yield lines(orders(100))

    with client_of(create_app(client)) as http:
        answer = http.post(PATH, content=body(), headers=LINES)
        assert events_of(answer)[-1]["event"] == "stopped"
        assert http.get("/healthz").status_code == 200
    assert stored(client) == []


@pytest.mark.slow
def test_who_goes_on_sending_what_nobody_reads_is_left(client: Client) -> None:
    limits = Limits(read=timedelta(milliseconds=300))
    with (
        served(create_app(client, limits=limits)) as where,
        socket.create_connection(where, FAILED_AFTER) as sender,
    ):
        sender.sendall(head(10_000_000) + b"nonsense\n" + GOOD * 600)
        text = answered(sender)
    assert '"event": "stopped"' in text or '"event": "failed"' in text
