"""Jobs are submitted: now or later, once by their key, with what their type says."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import (
    MemoryStore,
    OnDemandTrigger,
    RetryPolicy,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.http import create_app
from go_scheduler.http.jobs.jitter import JobDefaults
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, SECOND, claim, clean_up, finish
from go_scheduler.testing.clock import START
from tests.http.jobs.asking import LINES, As, events_of, field_of, lines
from tests.http.serving import called, client_of
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

SEND = TaskDefinition(
    id=TaskDefinition.id_for("task send"), name="send", trigger=OnDemandTrigger()
)
ORDER = {"type": "send", "payload": {"order": 7}}


@pytest.fixture
def client() -> Client:
    client = Client(MemoryStore(ManualClock()))
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


def only(client: Client) -> TaskInstance:
    [found] = client.list_instances()
    return found


def test_a_job_is_one_row_of_its_type(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/jobs", json=ORDER)
        assert answer.status_code == 201
        found = only(client)
        assert answer.headers["location"] == f"/v1/instances/{found.id}"
        assert answer.json() == {
            "instance_id": str(found.id),
            "definition_id": str(SEND.id),
            "state": "pending",
        }
        assert (found.payload, found.execute_at) == ({"order": 7}, START)

    ask(client, asking)
    assert client.list_definitions() == [client.get_definition(SEND.id)]


def test_where_jobs_are_read_is_told_to_whoever_looks_among_them(
    client: Client,
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for method, path, status in (
            ("GET", "/v1/jobs", 405),
            ("GET", "/v1/jobs/7", 404),
            ("DELETE", "/v1/jobs/7", 404),
        ):
            answer = await http.request(method, path)
            assert answer.status_code == status
            assert answer.headers.get("allow") == ("POST" if status == 405 else None)
            assert answer.json()["detail"].endswith(
                "; a job that was submitted is read at /v1/instances/{instance_id}"
            )
        detail = (await http.get("/v1/job")).json()["detail"]
        assert "/v1/instances" not in detail

    ask(client, asking)


@pytest.mark.parametrize(
    ("when", "execute_at"),
    [
        ({"at": "2031-01-01T00:00:00Z"}, None),
        ({"delay": 90}, START + 90 * SECOND),
        ({"delay": 0}, START),
    ],
)
def test_a_job_has_its_time(
    client: Client, when: dict[str, object], execute_at: object
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        assert (await http.post("/v1/jobs", json=ORDER | when)).status_code == 201

    ask(client, asking)
    found = only(client).execute_at
    assert found == execute_at or found.isoformat() == "2031-01-01T00:00:00+00:00"


@pytest.mark.parametrize("more", [{}, {"queue": "slow"}])
def test_a_known_key_is_answered_by_the_job_that_has_it(
    client: Client, more: dict[str, object]
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        first = await http.post("/v1/jobs", json=ORDER | {"key": "7"} | more)
        assert first.status_code == 201
        header = {"Idempotency-Key": "7"}
        for body, headers in (
            (ORDER | {"key": "7"} | more, {}),
            (ORDER | more, header),
            (ORDER | {"key": "7", "payload": {"order": 8}} | more, header),
        ):
            again = await http.post("/v1/jobs", json=body, headers=headers)
            assert (again.status_code, again.json()) == (200, first.json())
            assert again.headers["location"] == first.headers["location"]
        answer = await http.post("/v1/jobs", json=ORDER | {"key": "8"}, headers=header)
        assert field_of(answer) == "key"

    ask(client, asking)
    assert only(client).payload == {"order": 7}


def test_a_job_with_settings_of_its_own_has_its_own_definition(client: Client) -> None:
    client.schedule(replace(SEND, lock="smtp", timeout=5 * SECOND))
    own = {
        "queue": "slow",
        "priority": 0,
        "retry": {"max_attempts": 3, "delay": 5},
        "expire_after": 60,
        "start_timeout": 7,
        "heartbeat_timeout": 8,
        "metadata": {"shop": 7},
    }

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/jobs", json=ORDER | own)
        assert answer.status_code == 201
        found = only(client)
        of = found.definition
        assert answer.json()["definition_id"] == str(of.id) != str(SEND.id)
        assert found.payload == {"order": 7}
        assert (of.name, of.queue, of.priority) == ("send", "slow", 0)
        assert of.retry == RetryPolicy(max_attempts=3, delay=5 * SECOND)
        assert (of.expire_after, of.metadata) == (60 * SECOND, {"shop": 7})
        assert (of.lock, of.timeout) == ("smtp", 5 * SECOND)
        assert (of.start_timeout, of.heartbeat_timeout) == (7 * SECOND, 8 * SECOND)
        assert not of.named

    ask(client, asking)


def test_what_a_job_says_as_its_type_does_needs_no_definition(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        body = ORDER | {"queue": "default", "priority": 1, "metadata": {}}
        assert (await http.post("/v1/jobs", json=body)).status_code == 201

    ask(client, asking)
    assert only(client).definition.id == SEND.id


def test_what_has_a_key_is_not_changed_by_another_one_with_it(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        body = ORDER | {"key": "7"}
        first = await http.post("/v1/jobs", json=body | {"queue": "a"})
        again = await http.post("/v1/jobs", json=body | {"queue": "b", "timeout": 9})
        assert (again.status_code, again.json()) == (200, first.json())

    ask(client, asking)
    of = only(client).definition
    assert (of.queue, of.timeout) == ("a", None)


@pytest.mark.parametrize("owner", [None, "shop"])
def test_a_key_is_one_for_jobs_with_settings_of_their_own_and_without(
    client: Client, owner: str | None
) -> None:
    if owner is not None:
        client.declare([replace(SEND, named=True)], owner=owner, adopt=True)
    access = As() if owner is None else As(owners={owner, "bank"})

    async def asking(http: httpx.AsyncClient) -> None:
        own: dict[str, Any] = {"queue": "slow", "owner": owner}
        orders: dict[str, list[dict[str, Any]]] = {
            "a": [{}, own, {}],
            "b": [own, {}, own],
        }
        for key, order in orders.items():
            answers = [
                await http.post("/v1/jobs", json=ORDER | more | {"key": key})
                for more in order
            ]
            assert [each.status_code for each in answers] == [201, 200, 200]
            assert len({each.text for each in answers}) == 1
        both: list[dict[str, Any]] = [ORDER | {"key": "c"}, ORDER | own | {"key": "c"}]
        answer = await http.post(
            "/v1/jobs/import", content=lines([*both, *both]), headers=LINES
        )
        assert (events_of(answer)[-1]["made"], events_of(answer)[-1]["known"]) == (1, 3)

    ask(client, asking, access=access)
    assert sorted(each.key or "" for each in client.list_instances()) == ["a", "b", "c"]


def test_of_two_at_once_one_with_settings_of_its_own_one_makes_the_key(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = ORDER | {"key": "7"}
    look = client.alist_definitions

    async def asking(http: httpx.AsyncClient) -> None:
        await http.post("/v1/jobs", json=ORDER)
        own: asyncio.Future[httpx.Response] | None = None

        async def look_and_wait(**asked: Any) -> object:
            nonlocal own
            found = await look(**asked)
            if own is None:
                own = asyncio.ensure_future(
                    http.post("/v1/jobs", json=body | {"queue": "slow"})
                )
                # It would end by now if it were not to wait.
                await asyncio.wait([own], timeout=0.1)
            return found

        monkeypatch.setattr(client, "alist_definitions", look_and_wait)
        plain = await http.post("/v1/jobs", json=body)
        assert own is not None
        again = await own
        assert (plain.status_code, again.status_code) == (201, 200)
        assert plain.json() == again.json()

    ask(client, asking)


def test_what_another_server_makes_meanwhile_has_the_key(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = client.aschedule

    async def schedule_late(own: TaskDefinition) -> TaskDefinition:
        put = await schedule(own)
        client.enqueue("send", key="7")
        return put

    monkeypatch.setattr(client, "aschedule", schedule_late)

    async def asking(http: httpx.AsyncClient) -> None:
        body = ORDER | {"key": "7", "queue": "slow"}
        answer = await http.post("/v1/jobs", json=body)
        assert answer.status_code == 200
        assert answer.json()["instance_id"] == str(only(client).id)

    ask(client, asking)
    assert [each.id for each in client.list_definitions()] == [SEND.id]


def test_nobody_runs_what_they_may_not_see_by_its_key(client: Client) -> None:
    access = As()

    async def asking(http: httpx.AsyncClient) -> None:
        body = ORDER | {"queue": "theirs", "key": "7"}
        made = (await http.post("/v1/jobs", json=body)).json()
        # As if its run were still to be made: its definition alone is there.
        of = client.get_definition(UUID(made["definition_id"]))
        client.delete_definition(of.id)
        client.schedule(replace(of, revision=0))
        access.caller = replace(access.caller, queues=frozenset({"default", "slow"}))
        for more in ({}, {"queue": "slow"}):
            answer = await http.post("/v1/jobs", json=ORDER | more | {"key": "7"})
            assert answer.status_code == 409
            assert answer.json()["type"] == "urn:go_scheduler:key"
        assert client.list_instances() == []
        access.caller = replace(access.caller, queues=None)
        for status in (201, 200):
            answer = await http.post("/v1/jobs", json=ORDER | {"key": "7"})
            assert answer.status_code == status
            assert answer.json()["definition_id"] == str(of.id)

    ask(client, asking, access=access)


@pytest.mark.parametrize("owner", [None, "shop"])
def test_what_is_over_and_gone_leaves_its_key_to_another(
    store: Store, clock: ManualClock, owner: str | None
) -> None:
    client = Client(store)
    if owner is None:
        client.schedule(SEND)
    else:
        client.declare([SEND], owner=owner)
    access = As() if owner is None else As(owners={owner})

    async def asking(http: httpx.AsyncClient) -> None:
        body = ORDER | {"queue": "slow", "key": "7"}
        for _ in range(2):
            assert (await http.post("/v1/jobs", json=body)).status_code == 201
            [run] = claim(store, queues=["slow"])
            assert run.payload == {"order": 7}
            assert finish(store, run)
            assert (await http.post("/v1/jobs", json=body)).status_code == 200
            clock.advance(HOUR)
            assert clean_up(store) == 2
            assert client.list_definitions() == [client.get_definition(SEND.id)]

    ask(client, asking, access=access)


def test_a_paused_type_has_its_jobs_wait_those_with_their_own_settings_too(
    client: Client,
) -> None:
    client.pause(SEND.id)

    async def asking(http: httpx.AsyncClient) -> None:
        await http.post("/v1/jobs", json=ORDER | {"queue": "slow"})

    ask(client, asking)
    assert only(client).definition.paused
    assert client.resume_definitions(name="send") == 2
    assert not only(client).definition.paused


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"payload": {}}, "type"),
        ({"type": ""}, "type"),
        ({"type": "\0"}, "type"),
        ({"type": "\ud800"}, "type"),
        ({"type": 7}, "type"),
        (ORDER | {"payload": [7]}, "payload"),
        (ORDER | {"payload": {"a": "\0"}}, "payload"),
        (ORDER | {"payload": {"a": "x" * 70_000}}, "payload"),
        (ORDER | {"at": "tomorrow"}, "at"),
        (ORDER | {"at": "2030-01-01T00:00:00"}, "at"),
        (ORDER | {"at": "0001-01-01T00:00:00+14:00"}, "at"),
        (ORDER | {"at": "9999-12-31T23:59:59Z", "jitter": 1e9}, "at"),
        (ORDER | {"at": "2030-01-01T00:00:00Z", "delay": 1}, "delay"),
        (ORDER | {"delay": -1}, "delay"),
        (ORDER | {"delay": 1e300}, "delay"),
        (ORDER | {"delay": 3.1557e9, "jitter": 3e9}, "delay"),
        (ORDER | {"delay": "1"}, "delay"),
        (ORDER | {"jitter": -1}, "jitter"),
        (ORDER | {"key": ""}, "key"),
        (ORDER | {"key": "x" * 201}, "key"),
        (ORDER | {"queue": "\0"}, "queue"),
        (ORDER | {"priority": 4}, "priority"),
        (ORDER | {"timeout": 0.01}, "timeout"),
        (ORDER | {"retry": {"factor": 0}}, "retry.factor"),
        (ORDER | {"retry": {"wait": 1}}, "retry.wait"),
        (ORDER | {"metadata": {"a": "x" * 70_000}}, "metadata"),
        (ORDER | {"lock": ""}, "lock"),
        (ORDER | {"owner": ""}, "owner"),
        (ORDER | {"owner": "x" * 201, "queue": "slow"}, "owner"),
        (ORDER | {"pay_load": {}}, "pay_load"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(
    client: Client, body: dict[str, object], field: str
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        text, headers = json.dumps(body), {"Content-Type": "application/json"}
        answer = await http.post("/v1/jobs", content=text, headers=headers)
        assert field_of(answer) == field

    ask(client, asking)
    assert client.list_instances() == []
    assert len(client.list_definitions()) == 1


def test_a_payload_is_checked_by_the_schema_of_its_type(client: Client) -> None:
    schema = {
        "properties": {
            "items": {"items": {"properties": {"price": {"type": "number"}}}}
        },
        "required": ["items"],
    }
    types = JobTypes()

    @types.task("resize")
    def resize(width: int) -> None:
        raise AssertionError

    async def asking(http: httpx.AsyncClient) -> None:
        await http.put("/v1/types/pay", json={"schema": schema})
        for payload, field, text in (
            (
                {"items": [{"price": "9"}]},
                "payload.items[0].price",
                "'9' is not of type",
            ),
            (None, "payload", "'items' is a required property"),
        ):
            given: dict[str, object] = {"type": "pay", "payload": payload}
            answer = await http.post("/v1/jobs", json=given)
            assert field_of(answer) == field
            assert answer.json()["errors"][0]["detail"].startswith(text)
        for wrong in ("{}", '{"width": "x"}', '{"widths": 7}'):
            given = {"type": "resize", "payload": json.loads(wrong)}
            assert field_of(await http.post("/v1/jobs", json=given)) == "payload"
        assert client.list_instances() == []
        # Nobody has scheduled it yet.
        for queue, count in ((None, 1), ("slow", 2)):
            given = {"type": "resize", "payload": {"width": 7}, "queue": queue}
            assert (await http.post("/v1/jobs", json=given)).status_code == 201
            payloads = [each.payload for each in client.list_instances()]
            assert payloads == [{"width": 7}] * count

    ask(client, asking, types=types)


def test_a_type_that_nobody_knows_is_said_to_be_declared(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for more in ({}, {"queue": "slow"}):
            answer = await http.post("/v1/jobs", json={"type": "a b"} | more)
            assert answer.status_code == 404
            assert "PUT /v1/types/a%20b" in answer.json()["detail"]
        client.schedule(replace(SEND, id=TaskDefinition.id_for("task a b"), name="a b"))
        answer = await http.post("/v1/jobs", json={"type": "a b"})
        assert answer.status_code == 201

    ask(client, asking)


def test_jobs_may_run_a_little_later_each(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for number in range(50):
            await http.post("/v1/jobs", json=ORDER | {"key": f"{number}"})
        for more in ({"jitter": 0}, {"jitter": 0, "delay": 7}):
            await http.post("/v1/jobs", json=ORDER | more)
        at = "2030-01-01T00:00:00Z"
        await http.post("/v1/jobs", json=ORDER | {"jitter": 9, "at": at})

    ask(client, asking, jobs=JobDefaults(jitter=timedelta(hours=1)))
    found = client.list_instances(limit=100)
    later = [each.execute_at - START for each in found if each.key is not None]
    assert len(set(later)) == 50
    assert all(0 * SECOND <= each <= 3600 * SECOND for each in later)
    assert max(later) > 1800 * SECOND
    exact = [each.execute_at - START for each in found if each.key is None]
    assert {0 * SECOND, 7 * SECOND} < set(exact)


def test_what_a_definition_is_run_with_by_hand_is_checked_as_its_type_says(
    client: Client,
) -> None:
    types, access = JobTypes(), As()

    @types.task("resize")
    def resize(width: int) -> None:
        raise AssertionError

    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    client.schedule(resize.definition)
    ids = [resize.definition.id]
    for name in ("resize", "pay"):
        of = TaskDefinition(trigger=OnDemandTrigger(), name=name)
        ids.append(client.schedule(of).id)

    async def asking(http: httpx.AsyncClient) -> None:
        await http.put("/v1/types/pay", json={"schema": schema})
        for id, field, fits in (
            (ids[0], "payload", {"width": 7}),
            (ids[1], "payload", {"width": 7}),
            (ids[2], "payload.n", {"n": 7}),
        ):
            path = f"/v1/definitions/{id}/run"
            wrong = {"n": "x"}
            assert field_of(await http.post(path, json={"payload": wrong})) == field
            assert field_of(await http.post(path, json={})) == "payload"
            answer = await http.post(path, json={"payload": fits})
            assert (answer.status_code, answer.json()["payload"]) == (201, fits)
        # Of another's type nothing is told, nor of what has none.
        client.declare([], owner="shop")
        of = TaskDefinition(
            trigger=OnDemandTrigger(), name="pay", id=UUID(int=7), queue="mine"
        )
        nameless = replace(of, id=UUID(int=8), name=None)
        client.schedule_all([of, nameless])
        access.caller = replace(access.caller, queues=frozenset({"mine"}))
        for each in (of, nameless):
            path = f"/v1/definitions/{each.id}/run"
            answer = await http.post(path, json={"payload": {"n": "x"}})
            assert answer.status_code == 201

    ask(client, asking, types=types, access=access)


def test_callers_keep_to_their_queues(client: Client) -> None:
    access = As(queues={"a"})
    client.schedule(
        replace(SEND, id=TaskDefinition.id_for("task b"), name="b", queue="a")
    )

    async def asking(http: httpx.AsyncClient) -> None:
        for body in (ORDER, ORDER | {"queue": "a"}):
            answer = await http.post("/v1/jobs", json=body)
            assert answer.status_code == 404
        body = {"type": "b", "queue": "b"}
        assert (await http.post("/v1/jobs", json=body)).status_code == 403
        body = {"type": "b", "lock": "9", "key": "7"}
        assert (await http.post("/v1/jobs", json=body)).status_code == 201
        access.caller = replace(access.caller, scopes=frozenset({"jobs:read"}))
        assert (await http.post("/v1/jobs", json=body)).status_code == 403

    ask(client, asking, access=access)


def test_a_known_key_shows_nobody_elses_job(client: Client) -> None:
    client.schedule(replace(SEND, id=TaskDefinition.id_for("task b"), name="b"))
    access = As()

    async def asking(http: httpx.AsyncClient) -> None:
        body: dict[str, object] = {"type": "resize", "payload": {"width": 7}}
        body["key"] = "7"
        own = body | {"queue": "theirs"}
        assert (await http.post("/v1/jobs", json=own)).status_code == 201
        access.caller = replace(access.caller, queues=frozenset({"default"}))
        answer = await http.post("/v1/jobs", json=body | {"timeout": 9})
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:go_scheduler:key"
        assert "instance_id" not in answer.text

    types = JobTypes()

    @types.task("resize")
    def resize(width: int) -> None:
        raise AssertionError

    ask(client, asking, access=access, types=types)
    assert len(client.list_instances()) == 1


def test_a_type_that_has_been_moved_meanwhile_is_not_shown(client: Client) -> None:
    access = As(queues={"default"})

    async def asking(http: httpx.AsyncClient) -> None:
        assert (await http.post("/v1/jobs", json=ORDER)).status_code == 201
        # What is known of it is kept for a while.
        client.schedule(replace(SEND, queue="theirs"))
        answer = await http.post("/v1/jobs", json=ORDER)
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:go_scheduler:key"

    ask(client, asking, access=access)


def test_what_the_server_runs_is_taken_by_nobody_who_is_restricted(
    client: Client,
) -> None:
    types = JobTypes()

    @types.task("resize")
    def resize(width: int) -> None:
        raise AssertionError

    access = As(queues={"a"})
    body: dict[str, object] = {"trigger": {"on_demand": True}, "queue": "a"}

    async def asking(http: httpx.AsyncClient) -> None:
        id = str(resize.definition.id)
        path = f"/v1/definitions/{id}"
        for answer in (
            await http.post("/v1/definitions", json=body | {"id": id}),
            await http.put(path, json=body),
        ):
            assert answer.status_code == 409
            assert answer.json()["type"] == "urn:go_scheduler:type"
        assert (await http.post("/v1/definitions", json=body)).status_code == 201
        access.caller = replace(access.caller, queues=None)
        assert (await http.put(path, json=body)).status_code == 201

    ask(client, asking, access=access, types=types)


def test_callers_with_owners_have_what_the_server_runs_done_as_theirs(
    client: Client,
) -> None:
    types = JobTypes()

    @types.task("resize")
    def resize(width: int) -> None:
        raise AssertionError

    access = As(owners={"shop"})
    client.declare([], owner="bank", version=7)

    async def asking(http: httpx.AsyncClient) -> None:
        body: dict[str, object] = {"type": "resize", "payload": {"width": 7}}
        assert (await http.post("/v1/jobs", json=body)).status_code == 201
        answer = await http.post("/v1/jobs", json=body | {"owner": "bank"})
        assert answer.status_code == 403
        access.caller = replace(access.caller, owners=frozenset({"shop", "bank"}))
        assert field_of(await http.post("/v1/jobs", json=body)) == "owner"
        answer = await http.post("/v1/jobs", json=body | {"owner": "bank"})
        assert answer.status_code == 409
        assert "declared with versions" in answer.json()["detail"]

    ask(client, asking, access=access, types=types)
    found = only(client)
    assert (found.definition.owner, found.payload) == ("shop", {"width": 7})


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"queue": "slow"}])
def test_of_twenty_with_one_key_at_once_one_makes_it(
    own_time_store: Store, more: dict[str, object]
) -> None:
    client = Client(own_time_store)
    client.schedule(SEND)
    with client_of(create_app(client)) as http, ThreadPoolExecutor(20) as pool:
        all_there = threading.Barrier(20)

        def post(_: int) -> tuple[int, str]:
            all_there.wait(FAILED_AFTER)
            answer = http.post("/v1/jobs", json=ORDER | {"key": "7"} | more)
            return answer.status_code, answer.json()["instance_id"]

        answers = list(pool.map(post, range(20)))
    found = only(client)
    assert sorted(status for status, _ in answers) == [200] * 19 + [201]
    assert {id for _, id in answers} == {str(found.id)}
