"""Imports: each line is a job once, whatever the lines hold and whoever sends them."""

from __future__ import annotations

import json
import socket
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import MemoryStore, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.http import create_app
from go_scheduler.http.jobs import importing
from go_scheduler.http.jobs.jitter import JobDefaults
from go_scheduler.http.limits import Limits
from go_scheduler.json import write_instant
from go_scheduler.testing.builders import SECOND
from go_scheduler.testing.clock import START
from tests.http.jobs.conftest import SEND, task
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


def test_the_key_of_a_line_is_the_key_of_its_job(http: Calling, client: Client) -> None:
    client.enqueue("send", key="order 7")
    jobs = [*orders(1, key="order 7"), *orders(2, key="order 8")]
    assert is_end(import_(http, lines(jobs))[-1], "done", 3, 1, 2, 0)
    assert {each.key for each in stored(client)} == {"order 7", "order 8"}


def test_lines_that_a_full_queue_drops_are_counted(
    http: Calling, client: Client
) -> None:
    client.schedule(replace(SEND, max_queue=2, when_full="drop"))
    for made, known, dropped in ((2, 0, 1), (0, 3, 0)):
        last = import_(http, lines(orders(3)), "may")[-1]
        assert is_end(last, "done", 3, made, known)
        assert last["dropped"] == dropped


def test_lines_may_have_many_types_and_settings_of_their_own(
    http: Calling, client: Client
) -> None:
    client.schedule(task("b"))
    jobs: list[dict[str, Any]] = [
        *orders(2),
        {"type": "b", "queue": "slow", "retry": {"max_attempts": 2}},
        {"type": "b", "at": "2031-01-01T00:00:00Z"},
        {"type": "b", "delay": 5, "queue": "slow"},
    ]
    for counts in ((5, 5, 0, 0), (5, 0, 5, 0)):
        assert is_end(import_(http, lines(jobs), "may")[-1], "done", *counts)
    found = [(each.definition.name, each.definition.queue) for each in stored(client)]
    slow = [("b", "slow")] * 2
    assert sorted(found, key=str) == [
        ("b", "default"),
        *slow,
        *[("send", "default")] * 2,
    ]


def test_lines_are_staggered_over_a_window_and_moved_by_a_jitter(
    http: Calling, client: Client
) -> None:
    client.schedule(task("b"))
    own: list[dict[str, Any]] = [
        {"type": "b", "delay": 7},
        {"type": "b", "at": "2031-01-01T00:00:00Z"},
    ]
    import_(http, lines([*own, *orders(998)]), window=3600)
    found = [each for each in stored(client) if each.definition.name == "send"]
    for part in range(6):
        begin = START + timedelta(minutes=10 * part)
        count = sum(0 <= (each.execute_at - begin) // SECOND < 600 for each in found)
        assert 160 <= count <= 172
    assert {each.execute_at.year for each in stored(client)} == {START.year, 2031}
    before = {each.execute_at for each in found}
    import_(http, lines(orders(3)), "may", window=3600, jitter=60)
    moved = [it for it in stored(client) if (it.key or "").startswith("import may:")]
    assert not {each.execute_at for each in moved} & before


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
    "large number": (b'{"type":"send","payload":{"a":1e999}}', "payload", "is inf"),
    "digits": (b'{"payload":{"a":' + b"9" * 5000 + b"}}", "", "too many digits"),
    "very deep": (b'{"a":' * 50_000, "", "nested too deep"),
    "deep": (b'{"type":"send","payload":' + DEEP + b"}", "payload", "more than 100 de"),
    "control": (b'{"type":"se\0nd"}', "", "it is no JSON: Invalid control character"),
    "NUL": (b'{"type":"se\\u0000nd"}', "type", "holds a NUL"),
    "surrogate": (b'{"type":"\\ud800"}', "type", "lone surrogate"),
    "payload NUL": (b'{"type":"send","payload":{"a":"\\u0000"}}', "payload", "a NUL"),
    "latin": ('{"type":"größe"}'.encode("latin-1"), "", "not UTF-8 from its byte 12 "),
    "UTF-16": ('{"type":"send"}'.encode("utf-16"), "", "not UTF-8 from its byte 1 on"),
    "long": (b'{"type":"' + b"x" * 1_100_000 + b'"}', "", "at most 1048576 bytes"),
    "large": (b'{"type":"send","payload":{"a":"%070000d"}}' % 0, "payload", "bytes"),
    "unknown type": (b'{"type":"nobody"}', "", "PUT /v1/types/nobody"),
    "no type": (b"{}", "type", "it is missing"),
    "typo": (b'{"type":"send","kye":"7"}', "kye", "did you mean key?"),
    "time": (b'{"type":"send","at":"soon"}', "at", "RFC 3339"),
    "both": (
        b'{"type":"send","delay":1,"at":"2030-01-01T00:00:00Z"}',
        "delay",
        "not by both",
    ),
    "key": (b'{"type":"send","key":""}', "key", "1 to 200 characters"),
    "retry": (b'{"type":"send","retry":{"max_attempts":0}}', "retry.max_attempts", ""),
    "owner": (b'{"type":"send","queue":"a","owner":""}', "owner", "1 to 200 char"),
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
    keys = {each.key for each in stored(client)}
    assert keys == {"import may:1", "import may:4"}


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_lines_may_be_split_into_any_parts(
    http: Calling, client: Client, size: int
) -> None:
    """The first may begin with a byte order mark, and the last have no line end."""
    body = b"\xef\xbb\xbf" + GOOD + b"\r\n \t\n\n" + GOOD + b"\n" + GOOD

    async def parts() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), size):
            yield body[begin : begin + size]

    query = {"import": "may"}
    answer = http.post(PATH, content=parts(), headers=LINES, params=query)
    assert is_end(events_of(answer)[-1], "done", 3, 3, 0, 0)
    assert {each.key for each in stored(client)} == {
        f"import may:{n}" for n in (1, 4, 5)
    }


def test_a_line_has_a_longest_length_and_takes_no_more_memory() -> None:
    found = importing.Lines(10)
    parts = (b"x" * 10 + b"\r\n", b"x" * 11 + b"\na\n", b"x" * 50)
    lines = [line.data for part in parts for line in found.take(part)]
    rest = [line.data for line in found.rest()]
    assert lines + rest == [b"x" * 10, None, b"a", None]
    endless = importing.Lines(1000)
    tracemalloc.start()
    try:
        for _ in range(200):
            assert list(endless.take(b"x" * 65_536)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


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
        answer = refusing.post(PATH, content=GOOD, headers=headers)
        assert answer.status_code == 415
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
    # Somebody else has a definition by the id that the job would get.
    id = TaskDefinition.id_for('job ["shop", "send", "7"]')
    client.declare([replace(SEND, id=id, named=True)], owner="bank")
    jobs = [*orders(1), key | {"queue": "a", "owner": "shop"}, *orders(1)]
    _, refused, last = import_(calling(), lines(jobs), on_error="skip")
    assert (refused["line"], refused["type"]) == (2, "urn:go_scheduler:invalid")
    assert is_end(last, "done", 3, 2, 0, 1)


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
    monkeypatch.setattr(importing, "_BATCH", 1)

    async def body() -> AsyncIterator[bytes]:
        for number in range(1, 9):
            yield lines(orders(1))
            clock.advance((3000 if number == 4 else 1) * SECOND)

    answer = http.post(PATH, content=body(), headers=LINES)
    _, *told, last = events_of(answer)
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
