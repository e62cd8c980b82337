"""Imports: each line is a job once, whatever the lines hold and whoever sends them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import tracemalloc
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.http import create_app, jobs
from go_scheduler.http.limits import Limits
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.json import write_instant
from go_scheduler.testing.builders import SECOND
from go_scheduler.testing.clock import START
from tests.case_tables import json_table
from tests.cli.shell import Process
from tests.conftest import SHARED
from tests.http.jobs.conftest import SEND
from tests.http.serving import (
    LINES,
    As,
    Calling,
    client_of,
    events_of,
    field_of,
    lines,
    served,
)
from tests.patience import FAILED_AFTER
from tests.servers import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from fastapi import FastAPI

    from go_scheduler.models import TaskInstance
    from go_scheduler.testing import ManualClock

    Calls = Callable[..., Calling]


PATH = "/v1/jobs/import"
EVENT = dict[str, Any]


def import_(
    http: Calling, body: bytes, name: str | None = None, /, **query: Any
) -> list[EVENT]:
    """The events of one import."""
    query |= {} if name is None else {"import": name}
    return events_of(http.post(PATH, content=body, headers=LINES, params=query))


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
    """The numbers in the payloads, in order."""
    payloads: Any = [each.payload for each in stored(client)]
    return sorted(each["order"] for each in payloads)


def offsets_of(client: Client) -> list[timedelta]:
    return [each.execute_at - START for each in stored(client)]


def is_end(event: EVENT, kind: str, *counts: int) -> bool:
    """Whether the last event has this kind, and counts what was read, made, ..."""
    names = ("read", "made", "known", "refused")[: len(counts)]
    found = event["event"], *(event[each] for each in names)
    assert found == (kind, *counts), event
    return True


def test_each_line_is_a_job_made_once_by_the_name_of_the_import(
    http: Calling, client: Client
) -> None:
    body = lines(orders(1200))
    first, last = import_(http, body, "may")
    assert first == {"event": "started", "import": "may", "start": None}
    assert is_end(last, "done", 1200, 1200, 0, 0)
    assert orders_of(client) == [*range(1, 1201)]
    assert is_end(import_(http, body, "may")[-1], "done", 1200, 0, 1200, 0)
    first, last = import_(http, body)
    assert is_end(last, "done", 1200, 1200, 0, 0)
    assert first["import"] == last["import"]
    assert is_end(import_(http, body, first["import"])[-1], "done", 1200, 0, 1200, 0)
    assert len(stored(client)) == 2400


def test_an_import_may_come_in_parts(
    client: Client, clock: ManualClock, calling: Calls
) -> None:
    http = calling(clock=clock, limits=Limits(import_lines=2))
    query: dict[str, Any] = {"import": "may", "interval": 60}
    first, last = import_(http, lines(orders(2)), **query)
    assert is_end(last, "done", 2, 2, 0, 0)
    assert first["start"] == write_instant(START)
    clock.advance(SECOND)
    query |= {"first": 3, "start": first["start"]}
    assert is_end(import_(http, lines(orders(2)), **query)[-1], "done", 2, 2, 0, 0)
    assert is_end(import_(http, lines(orders(3)), **query)[-1], "stopped", 2, 0, 2, 0)
    assert {each.execute_at - START: each.key for each in stored(client)} == {
        timedelta(minutes=n - 1): f"import may:{n}" for n in range(1, 5)
    }


def test_lines_follow_each_other_as_the_import_or_the_server_says(
    client: Client, clock: ManualClock, calling: Calls
) -> None:
    defaults = JobDefaults(interval=10 * SECOND, jitter=SECOND)
    http = calling(jobs=defaults, clock=clock)
    body = lines(orders(3))
    import_(http, body)
    found = offsets_of(client)
    assert all(10 * n <= each / SECOND <= 10 * n + 1 for n, each in enumerate(found))
    for query, expected in (
        ({"interval": 0, "jitter": 0}, [0, 0, 0]),
        ({"interval": 2, "jitter": 0, "start": "2030-01-01T00:00:07Z"}, [7, 9, 11]),
    ):
        client.delete_definitions(name="send")
        client.schedule(SEND)
        import_(http, body, **query)
        assert offsets_of(client) == [each * SECOND for each in expected]


GOOD = b'{"type":"send","payload":{"order":1}}'
DEEP = b'{"a":' * 150 + b"1" + b"}" * 150
BAD = {
    "nonsense": (b"nonsense", "", "it is no JSON: Expecting value at column 1"),
    "half": (b'{"type":"send"', "", "each line is a whole object"),
    "two": (b'{"type":"send"}{"type":"send"}', "", "it is no JSON: Extra data"),
    "text": (b'"type"', "", "it must be an object"),
    "array": (b"[]", "", "it must be an object"),
    "NaN": (b'{"type":"send","payload":{"a":NaN}}', "", "NaN"),
    "infinity": (b'{"type":"send","payload":{"a":-Infinity}}', "", "NaN"),
    "digits": (b'{"payload":{"a":' + b"9" * 5000 + b"}}", "", "too many digits"),
    "very deep": (b'{"a":' * 50_000, "", "nested too deep"),
    "deep": (b'{"type":"send","payload":' + DEEP + b"}", "payload", "more than 100 de"),
    "control": (b'{"type":"se\0nd"}', "", "it is no JSON: Invalid control character"),
    "NUL": (b'{"type":"se\\u0000nd"}', "type", "holds a NUL"),
    "latin": ('{"type":"größe"}'.encode("latin-1"), "", "not UTF-8 from its byte 12 "),
    "UTF-16": ('{"type":"send"}'.encode("utf-16"), "", "not UTF-8 from its byte 1 on"),
    "long": (b'{"type":"' + b"x" * 1_100_000 + b'"}', "", "at most 1048576 bytes"),
    "large": (b'{"type":"send","payload":{"a":"%070000d"}}' % 0, "payload", "bytes"),
    "unknown type": (b'{"type":"nobody"}', "", "PUT /v1/types/nobody"),
    "no type": (b"{}", "type", "it is missing"),
    "typo": (b'{"type":"send","kye":"7"}', "kye", "did you mean key?"),
    "owner": (b'{"type":"send","owner":"shop"}', "owner", "there is no such field"),
}


@pytest.mark.parametrize(("line", "field", "detail"), BAD.values(), ids=BAD)
def test_a_wrong_line_does_not_stop_the_others(
    http: Calling, client: Client, line: bytes, field: str, detail: str
) -> None:
    body = b"\r\n".join([GOOD, b"", line, GOOD, b""])
    _, refused, last = import_(http, body, "may", on_error="skip")
    assert (refused["event"], refused["line"]) == ("refused", 3)
    assert detail in refused["detail"]
    if refused["errors"]:
        assert refused["errors"][0]["field"] == field
    assert is_end(last, "done", 3, 2, 0, 1)
    assert {each.key for each in stored(client)} == {"import may:1", "import may:4"}


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_lines_may_be_split_into_any_parts(
    http: Calling, client: Client, size: int
) -> None:
    """The first may begin with a byte order mark, and the last have no line end."""
    body = b"\xef\xbb\xbf" + GOOD + b"\r\n \t\n\n" + GOOD + b"\n" + GOOD

    async def parts() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), size):
            yield body[begin : begin + size]

    answer = http.post(PATH, content=parts(), headers=LINES, params={"import": "may"})
    assert is_end(events_of(answer)[-1], "done", 3, 3, 0, 0)
    assert {each.key for each in stored(client)} == {
        f"import may:{n}" for n in (1, 4, 5)
    }


def test_a_line_without_end_takes_little_memory() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"x" * 65_536

    async def kept() -> list[int]:
        return [len(each) async for each in jobs.lines_of(parts(), 1000)]

    tracemalloc.start()
    try:
        assert asyncio.run(kept()) == [1000]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_of_a_line_that_is_too_long_nothing_is_taken(
    client: Client, calling: Calls
) -> None:
    """Nor if it begins with a byte order mark, and what is kept of it is a job."""
    http = calling(limits=Limits(body_bytes=100))

    async def parts() -> AsyncIterator[bytes]:
        yield b'\xef\xbb\xbf{"type": "send", "delay": 1.' + b"5" * 200
        yield b"}\n"

    answer = http.post(PATH, content=parts(), headers=LINES)
    _, refused, last = events_of(answer)
    assert "at most 100 bytes" in refused["detail"]
    assert is_end(last, "stopped", 1, 0, 0, 1)
    assert stored(client) == []


def test_an_import_stops_at_a_wrong_line_by_default(
    http: Calling, client: Client
) -> None:
    body = lines(orders(700)) + b"nonsense\n" + lines(orders(700))
    _, refused, last = import_(http, body, "may")
    assert refused["line"] == 701
    assert is_end(last, "stopped", 701, 700, 0, 1)
    assert "import=may" in last["detail"]
    assert len(stored(client)) == 700
    mended = body.replace(b"nonsense", GOOD)
    assert is_end(import_(http, mended, "may")[-1], "done", 1401, 701, 700, 0)


def test_an_import_names_a_thousand_wrong_lines_at_most(http: Calling) -> None:
    events = import_(http, b"nonsense\n" * 1500, on_error="skip")
    assert len(events) == 1002
    assert is_end(events[-1], "done", 1500, 0, 0, 1500)


def test_an_import_has_a_limit_of_lines(calling: Calls, clock: ManualClock) -> None:
    http = calling(limits=Limits(import_lines=3), clock=clock)
    for end in (b"", b"\n"):
        body = b"\n".join([GOOD] * 3)
        assert is_end(import_(http, body + end)[-1], "done", 3, 3, 0, 0)
        for more in (b"\n" + GOOD, b"\n\n\n" + GOOD):
            last = import_(http, body + more + end)[-1]
            assert is_end(last, "stopped", 3, 3, 0, 0)
            assert "at most 3 lines" in last["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *json_table("http/jobs/imports_refused"),
        ({"import": "x" * 181}, "import"),
    ],
)
def test_a_wrong_query_is_refused(
    refusing: Calling, query: dict[str, Any], field: str
) -> None:
    answer = refusing.post(PATH, content=GOOD, headers=LINES, params=query)
    assert field_of(answer) == field


def test_only_plain_lines_are_taken(refusing: Calling) -> None:
    for headers in (
        {"Content-Type": "text/csv"},
        LINES | {"Content-Encoding": "gzip"},
    ):
        assert refusing.post(PATH, content=GOOD, headers=headers).status_code == 415
    assert is_end(import_(refusing, b"")[-1], "done", 0, 0, 0, 0)


def test_a_line_that_its_caller_may_not_send_is_refused_alone(
    client: Client, calling: Calls
) -> None:
    key: dict[str, Any] = {"type": "send", "key": "7"}
    import_(calling(), lines([key | {"queue": "theirs"}]))
    http = calling(access=As(queues={"default", "a"}))
    jobs = [{"type": "send", "queue": "a"}, {"type": "send", "queue": "b"}]
    _, refused, last = import_(http, lines(jobs), on_error="skip")
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:queue")
    assert is_end(last, "done", 2, 1, 0, 1)
    jobs = [*orders(1), key | {"timeout": 9}, *orders(1)]
    _, refused, last = import_(http, lines(jobs))
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:key")
    assert is_end(last, "stopped", 3, 2, 0, 1)


def test_a_type_that_is_deleted_takes_no_line(http: Calling, client: Client) -> None:
    body = lines(orders(3))
    import_(http, body)
    client.delete_definition(SEND.id)
    _, *refused, last = import_(http, body)
    assert [each["line"] for each in refused] == [1, 2, 3]
    assert is_end(last, "stopped", 3, 0, 0, 3)


class Failing(Client):
    """The store goes away after some batches."""

    left = 1

    async def aenqueue_all(self, *args: Any, **options: Any) -> Any:
        if self.left == 0:
            raise StoreUnavailableError("away, with a secret")
        self.left -= 1
        return self.enqueue_all(*args, **options)


def test_what_was_made_stays_when_the_store_goes_away(
    memory: MemoryStore, calling: Calls
) -> None:
    client = Failing(memory)
    client.schedule(SEND)
    http = calling(client)
    body = lines(orders(1200))
    last = import_(http, body, "may")[-1]
    assert is_end(last, "failed", 500, 500, 0, 0)
    assert "try again" in last["detail"]
    assert "secret" not in last["detail"]
    client.left = 9
    assert is_end(import_(http, body, "may")[-1], "done", 1200, 700, 500, 0)


def test_progress_is_told_each_second_and_later_less_often(
    http: Calling, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_BATCH", 1)

    async def body() -> AsyncIterator[bytes]:
        for number in range(1, 9):
            yield lines(orders(1))
            clock.advance((3000 if number == 4 else 1) * SECOND)

    _, *told, last = events_of(http.post(PATH, content=body(), headers=LINES))
    assert {each["event"] for each in told} == {"progress"}
    assert [each["read"] for each in told] == [2, 3, 4, 5]
    assert is_end(last, "done", 8, 8, 0, 0)


def head(length: int, more: str = "") -> bytes:
    return (
        f"POST {PATH}?import=may HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def read_all(connection: socket.socket) -> str:
    """Read until the server closes, or has answered all."""
    found = b""
    while part := connection.recv(65_536):
        found += part
        if b'"done"' in found and found.endswith(b"\r\n0\r\n\r\n"):
            break
    return found.decode()


def exchange(app: FastAPI, sent: bytes) -> str:
    with (
        served(app) as where,
        socket.create_connection(where, FAILED_AFTER) as connection,
    ):
        connection.sendall(sent)
        return read_all(connection)


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_sender_that_waits_for_100_continue_gets_it(
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
        assert '"read": 3, "made": 3' in read_all(sender)
    assert len(stored(client)) == 3


@pytest.mark.slow
def test_a_sender_that_falls_asleep_may_begin_again(
    client: Client, http: Calling
) -> None:
    limits = Limits(read=timedelta(milliseconds=300))
    body = lines(orders(3))
    text = exchange(create_app(client, limits=limits), head(10_000) + body[:-10])
    assert text.startswith("HTTP/1.1 200")
    assert '"event": "failed"' in text
    assert "took too long to arrive" in text
    assert "Traceback" not in text
    assert is_end(import_(http, body, "may")[-1], "done", 3)
    assert len(stored(client)) == 3


@pytest.mark.slow
def test_a_sender_that_hung_up_may_send_again(client: Client) -> None:
    body = lines(orders(1700))
    made = 0
    with served(create_app(client)) as where:
        with socket.create_connection(where, FAILED_AFTER) as sender:
            sender.sendall(head(len(body)) + body[:-100])
            while made < 1500:
                made = len(stored(client))
        with socket.create_connection(where, FAILED_AFTER) as sender:
            sender.sendall(head(len(body)) + body)
            text = read_all(sender)
    last = json.loads(text[text.index('{"event": "done"') :].splitlines()[0])
    assert (last["read"], last["made"] + last["known"]) == (1700, 1700)
    assert orders_of(client) == [*range(1, 1701)]


@pytest.mark.slow
def test_a_sender_that_is_stopped_gets_its_answer(client: Client) -> None:
    def body() -> Iterator[bytes]:
        yield b"nonsense\n"
        for _ in range(200):
            yield lines(orders(100))

    with client_of(create_app(client)) as http:
        answer = http.post(PATH, content=body(), headers=LINES)
        assert events_of(answer)[-1]["event"] == "stopped"
        assert http.get("/healthz").status_code == 200
    assert stored(client) == []
    # A sender that goes on for too long is left.
    limits = Limits(read=timedelta(milliseconds=300))
    sent = head(10_000_000) + b"nonsense\n" + GOOD * 600
    text = exchange(create_app(client, limits=limits), sent)
    assert '"event": "stopped"' in text or '"event": "failed"' in text


COUNT = 4_000
LONG = 20 * FAILED_AFTER


@contextmanager
def server(url: str) -> Iterator[tuple[Process, str]]:
    """A process that serves a store and runs nothing, and its URL."""
    process = Process("serve", "--no-run", "--port", "0", "--store", url)
    try:
        yield process, process.listening()
    finally:
        process.end(signal.SIGKILL)


def imported(url: str, until: threading.Event, *, after: int) -> httpx.Response:
    """Send all lines; after some of them the sender waits for an event."""
    return httpx.post(
        url + PATH,
        content=body(until, after=after),
        headers=LINES,
        params={"import": "may"},
        timeout=LONG,
    )


def body(until: threading.Event, *, after: int) -> Iterator[bytes]:
    """The lines; after some of them it waits for an event."""
    for begin in range(0, COUNT, 500):
        if begin == after:
            assert until.wait(LONG)
        yield lines(
            {"type": "send", "payload": {"order": number}}
            for number in range(begin, begin + 500)
        )


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", SHARED)
def test_an_import_that_broke_off_and_is_repeated_makes_each_line_once(
    store_url: str,
) -> None:
    ran: Counter[int] = Counter()
    news = threading.Condition()

    def note(instance: TaskInstance) -> None:
        assert instance.payload is not None
        with news:
            ran[int(str(instance.payload["order"]))] += 1
            news.notify_all()

    with (
        opened(store_url, has_tables=True) as store,
        Scheduler(note, store, max_workers=8) as scheduler,
    ):
        scheduler.schedule(SEND)
        half = threading.Event()
        with server(store_url) as (process, url):

            def kill() -> None:
                with news:
                    assert news.wait_for(lambda: len(ran) > 1000, LONG)
                process.end(signal.SIGKILL)
                half.set()

            killer = threading.Thread(target=kill)
            killer.start()
            with pytest.raises(httpx.TransportError):
                imported(url, half, after=COUNT // 2)
            killer.join()
        with server(store_url) as (_, url):
            answer = imported(url, half, after=0)
        last = json.loads(answer.text.splitlines()[-1])
        assert (last["event"], last["read"], last["refused"]) == ("done", COUNT, 0)
        assert last["known"] > 1000
        assert last["made"] > 0
        assert last["made"] + last["known"] == COUNT
        with news:
            assert news.wait_for(lambda: len(ran) == COUNT, LONG)
        ended = sum(scheduler.counts().values())
    assert ended == COUNT
    assert ran == Counter(range(COUNT))


class Forgetful(Client):
    """Forgets its jobs, so that only the import itself can take memory."""

    async def aenqueue_all(self, name: str, given: Any, /, **options: Any) -> Any:
        made = self.enqueue_all(name, given, **options)
        self._store = MemoryStore()
        self._store.put_definitions([SEND])
        return made


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_memory_of_an_import_is_bounded_however_long_it_is() -> None:
    client = Forgetful(MemoryStore())
    client.schedule(SEND)
    line = lines([{"type": "send", "payload": {"text": "x" * 10_000}}])
    peaks = []

    def endless() -> Iterator[bytes]:
        for number in range(20):
            yield line * 100
            _, peak = tracemalloc.get_traced_memory()
            peaks.append(peak)
            if number == 9:
                tracemalloc.reset_peak()

    with client_of(create_app(client)) as http:
        tracemalloc.start()
        try:
            answer = http.post(PATH, content=endless(), headers=LINES)
        finally:
            tracemalloc.stop()
    last = json.loads(answer.text.splitlines()[-1])
    assert (last["event"], last["made"]) == ("done", 2000)
    assert peaks[-1] < 20_000_000
