"""Jobs are submitted: now or later, once by their key, with their type's settings."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import Queue
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import RetryPolicy, Scheduler, State
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.testing.builders import HOUR, SECOND
from go_scheduler.testing.clock import START
from tests.case_tables import json_table
from tests.http.jobs.conftest import ON_DEMAND, SEND, task
from tests.http.serving import (
    LINES,
    As,
    Calling,
    client_of,
    events_of,
    field_of,
    is_problem,
    lines,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.handlers.job_types import JobTypes
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

    Calls = Callable[..., Calling]

PATH = "/v1/jobs"
ORDER: dict[str, Any] = {"type": "send", "payload": {"order": 7}}
RESIZE: dict[str, Any] = {"type": "resize", "payload": {"width": 7}}


def only(client: Client) -> TaskInstance:
    [found] = client.list_instances()
    return found


def submitted(http: Calling, status: int = 201, /, **body: Any) -> dict[str, Any]:
    answer = http.post(PATH, json=ORDER | body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_job_is_one_instance_of_its_type(http: Calling, client: Client) -> None:
    answer = http.post(PATH, json=ORDER)
    assert answer.status_code == 201
    found = only(client)
    assert answer.headers["location"] == f"/v1/instances/{found.id}"
    assert answer.json() == {
        "instance_id": str(found.id),
        "definition_id": str(SEND.id),
        "state": "pending",
    }
    assert (found.payload, found.execute_at) == ({"order": 7}, START)
    assert client.list_definitions() == [client.get_definition(SEND.id)]


def test_a_job_is_read_as_an_instance(http: Calling) -> None:
    for method, path, status in (
        ("GET", PATH, 405),
        ("GET", f"{PATH}/7", 404),
        ("DELETE", f"{PATH}/7", 404),
    ):
        answer = http.request(method, path)
        assert answer.status_code == status
        assert answer.headers.get("allow") == ("POST" if status == 405 else None)
        assert answer.json()["detail"].endswith(
            "; a job that was submitted is read at /v1/instances/{instance_id}"
        )
    assert "/v1/instances" not in http.get("/v1/job").json()["detail"]


@pytest.mark.parametrize("more", [{}, {"queue": "slow"}])
def test_a_known_key_is_answered_by_the_job_that_has_it(
    http: Calling, client: Client, more: dict[str, object]
) -> None:
    first = http.post(PATH, json=ORDER | {"key": "7"} | more)
    assert first.status_code == 201
    header = {"Idempotency-Key": "7"}
    for body, headers in (
        ({"key": "7"}, {}),
        ({}, header),
        ({"key": "7", "payload": {"order": 8}}, header),
        ({"key": "7", "queue": "b", "timeout": 9}, {}),
    ):
        again = http.post(PATH, json=ORDER | more | body, headers=headers)
        assert (again.status_code, again.json()) == (200, first.json())
        assert again.headers["location"] == first.headers["location"]
    assert field_of(http.post(PATH, json=ORDER | {"key": "8"}, headers=header)) == "key"
    found = only(client)
    assert found.payload == {"order": 7}
    definition = found.definition
    assert definition.queue == more.get("queue", "default")
    assert definition.timeout is None


def test_a_job_has_settings_of_its_own_and_all_others_of_its_type(
    http: Calling, client: Client
) -> None:
    of = client.schedule(replace(SEND, lock="smtp", timeout=5 * SECOND))
    answer = submitted(
        http,
        queue="slow",
        priority=0,
        retry={"max_attempts": 3, "delay": 5},
        expire_after=60,
        start_timeout=7,
        heartbeat_timeout=8,
        metadata={"shop": 7},
    )
    found = only(client)
    assert answer["definition_id"] == str(found.definition.id) == str(SEND.id)
    assert found.payload == {"order": 7}
    own: dict[str, Any] = {
        "queue": "slow",
        "priority": 0,
        "retry": RetryPolicy(max_attempts=3, delay=5 * SECOND),
        "expire_after": 60 * SECOND,
        "start_timeout": 7 * SECOND,
        "heartbeat_timeout": 8 * SECOND,
        "metadata": {"shop": 7},
    }
    assert (found.definition, found.overrides) == (replace(of, **own), own)
    shown = http.get(answer_path(answer)).json()
    assert (shown["queue"], shown["max_attempts"]) == ("slow", 3)
    # What the job has not said is its type's, also later.
    client.schedule(replace(of, timeout=9 * SECOND, queue="other", priority=3))
    assert only(client).definition == replace(of, timeout=9 * SECOND, **own)
    assert client.list_definitions() == [client.get_definition(SEND.id)]


def answer_path(answer: dict[str, Any]) -> str:
    return f"/v1/instances/{answer['instance_id']}"


def test_jobs_with_and_without_settings_share_their_keys(
    http: Calling, client: Client
) -> None:
    own = {"queue": "slow"}
    orders: dict[str, list[dict[str, Any]]] = {"a": [{}, own, {}], "b": [own, {}, own]}
    for key, order in orders.items():
        answers = [http.post(PATH, json=ORDER | it | {"key": key}) for it in order]
        assert [each.status_code for each in answers] == [201, 200, 200]
        assert len({each.text for each in answers}) == 1
    both = lines([ORDER | {"key": "c"}, ORDER | own | {"key": "c"}] * 2)
    last = events_of(http.post(f"{PATH}/import", content=both, headers=LINES))[-1]
    assert (last["made"], last["known"]) == (1, 3)
    assert sorted(each.key or "" for each in client.list_instances()) == ["a", "b", "c"]


def test_a_job_is_run_and_tried_again_by_its_own_settings(
    own_time_store: Store,
) -> None:
    runs: Queue[TaskInstance] = Queue()

    async def send(instance: TaskInstance) -> None:
        runs.put(instance)
        if instance.runs == 1:
            await asyncio.Event().wait()

    with Scheduler(send, own_time_store, queues=["own"]) as scheduler:
        scheduler.schedule(replace(SEND, retry=RetryPolicy(max_attempts=1)))
        with client_of(create_app(scheduler)) as http:
            retry = {"max_attempts": 2, "delay": 0.1}
            body = {"queue": "own", "timeout": 0.2, "retry": retry, "lock": "one"}
            answer = http.post(PATH, json=ORDER | body)
            assert answer.status_code == 201
            for number in (1, 2):
                run = runs.get(timeout=FAILED_AFTER)
                assert (run.runs, run.payload) == (number, {"order": 7})
                assert (run.definition.queue, run.definition.lock) == ("own", "one")
    assert only(Client(own_time_store)).state is State.COMPLETED
    [failed] = own_time_store.list_runs(run.id)
    assert (failed.error or "").startswith("timed out after 0:00:00.2")


def test_the_jobs_of_a_paused_type_wait_even_with_settings_of_their_own(
    http: Calling, client: Client
) -> None:
    client.pause(SEND.id)
    submitted(http, queue="slow")
    assert only(client).definition.paused
    assert client.resume_definitions(name="send") == 1
    assert not only(client).definition.paused


@pytest.fixture(scope="module")
def strict(shared_client: Client, shared: Calling) -> Iterator[Calling]:
    """An application for the tests of refusals."""
    shared_client.schedule(SEND)
    yield shared
    assert shared_client.list_instances() == []
    assert len(shared_client.list_definitions()) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *json_table("http/jobs/jobs_refused"),
        ({"type": "\ud800"}, "type"),
        ({"owner": "shop"}, "owner"),
    ],
)
def test_a_wrong_job_is_refused_by_its_field(
    strict: Calling, body: dict[str, object], field: str
) -> None:
    text, headers = json.dumps(ORDER | body), {"Content-Type": "application/json"}
    assert field_of(strict.post(PATH, content=text, headers=headers)) == field


def test_a_payload_is_checked_by_its_type(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    http = calling(types=types)
    price = {"properties": {"price": {"type": "number"}}}
    schema = {"properties": {"items": {"items": price}}, "required": ["items"]}
    http.put("/v1/types/pay", json={"schema": schema})
    wrong: list[tuple[str, dict[str, object] | None, str, str]] = [
        ("pay", {"items": [{"price": "9"}]}, "payload.items[0].price", "'9' is not of"),
        ("pay", None, "payload", "'items' is a required property"),
        ("resize", {}, "payload", ""),
        ("resize", {"width": "x"}, "payload", ""),
        ("resize", {"widths": 7}, "payload", ""),
    ]
    for name, payload, field, detail in wrong:
        answer = http.post(PATH, json={"type": name, "payload": payload})
        assert field_of(answer) == field
        assert answer.json()["errors"][0]["detail"].startswith(detail)
    assert client.list_instances() == []
    # Nobody has scheduled the task of the server yet.
    for queue in (None, "slow"):
        assert http.post(PATH, json=RESIZE | {"queue": queue}).status_code == 201
    assert [each.payload for each in client.list_instances()] == [{"width": 7}] * 2


def test_an_unknown_type_is_refused_with_the_way_to_declare_it(
    http: Calling, client: Client
) -> None:
    for more in ({}, {"queue": "slow"}):
        answer = http.post(PATH, json={"type": "a b"} | more)
        assert answer.status_code == 404
        assert "PUT /v1/types/a%20b" in answer.json()["detail"]
    client.schedule(task("a b"))
    assert http.post(PATH, json={"type": "a b"}).status_code == 201


def test_jobs_run_later_by_a_random_jitter(client: Client, calling: Calls) -> None:
    http = calling(jobs=JobDefaults(jitter=HOUR))
    for number in range(50):
        submitted(http, key=f"{number}")
    submitted(http, jitter=0)
    submitted(http, jitter=0, delay=7)
    submitted(http, jitter=9, at="2030-01-01T00:00:00Z")
    submitted(http, jitter=0, at="2030-01-01T00:01:00Z")
    found = client.list_instances(limit=100)
    later = [each.execute_at - START for each in found if each.key is not None]
    assert len(set(later)) == 50
    assert all(0 * SECOND <= each <= HOUR for each in later)
    assert max(later) > HOUR / 2
    exact = {each.execute_at - START for each in found if each.key is None}
    assert {0 * SECOND, 7 * SECOND, 60 * SECOND} < exact


def test_a_run_by_hand_checks_the_payload_as_its_type_says(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    access = As()
    http = calling(types=types, access=access)
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    http.put("/v1/types/pay", json={"schema": schema})
    own = types.tasks["resize"].definition
    of_types = [own, replace(ON_DEMAND, name="resize", id=UUID(int=1))]
    of_types.append(replace(ON_DEMAND, name="pay", id=UUID(int=2)))
    client.schedule_all(of_types)
    for definition, field, fits in zip(
        of_types,
        ("payload", "payload", "payload.n"),
        ({"width": 7}, {"width": 7}, {"n": 7}),
        strict=True,
    ):
        path = f"/v1/definitions/{definition.id}/run"
        assert field_of(http.post(path, json={"payload": {"n": "x"}})) == field
        assert field_of(http.post(path, json={})) == "payload"
        answer = http.post(path, json={"payload": fits})
        assert (answer.status_code, answer.json()["payload"]) == (201, fits)
    # A type that the caller may not see checks no payload.
    hidden = replace(ON_DEMAND, name="pay", id=UUID(int=7), queue="mine")
    nameless = replace(hidden, id=UUID(int=8), name=None)
    client.schedule_all([hidden, nameless])
    access.become(queues={"mine"})
    for each in (hidden, nameless):
        path = f"/v1/definitions/{each.id}/run"
        assert http.post(path, json={"payload": {"n": "x"}}).status_code == 201


def test_callers_keep_to_their_queues(client: Client, calling: Calls) -> None:
    access = As(queues={"a"})
    http = calling(access=access)
    client.schedule(task("b", queue="a"))
    b = {"type": "b", "lock": "9", "key": "7"}
    for body, status in (
        (ORDER, 404),
        (ORDER | {"queue": "a"}, 404),
        ({"type": "b", "queue": "b"}, 403),
        (b, 201),
    ):
        assert http.post(PATH, json=body).status_code == status
    access.become(scopes={"jobs:read"})
    assert http.post(PATH, json=b).status_code == 403


def test_a_known_key_or_type_shows_nobody_elses_job(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    access = As()
    http = calling(access=access, types=types)
    body = RESIZE | {"key": "7"}
    assert http.post(PATH, json=body | {"queue": "theirs"}).status_code == 201
    access.become(queues={"default", "pictures"})
    answer = http.post(PATH, json=body | {"timeout": 9})
    assert is_problem(answer, 409, "key")
    assert "instance_id" not in answer.text
    assert len(client.list_instances()) == 1
    submitted(http)
    # The server remembers the type for a while after it has been moved.
    client.schedule(replace(SEND, queue="theirs"))
    assert is_problem(http.post(PATH, json=ORDER), 409, "key")


def test_restricted_callers_do_not_take_the_types_of_the_server(
    calling: Calls, types: JobTypes
) -> None:
    access = As(queues={"a"})
    http = calling(access=access, types=types)
    body: dict[str, object] = {"trigger": {"on_demand": True}, "queue": "a"}
    id = str(types.tasks["resize"].definition.id)
    path = f"/v1/definitions/{id}"
    assert is_problem(http.post("/v1/definitions", json=body | {"id": id}), 409, "type")
    assert is_problem(http.put(path, json=body), 409, "type")
    assert http.post("/v1/definitions", json=body).status_code == 201
    access.become(queues=None)
    assert http.put(path, json=body).status_code == 201


def test_a_job_belongs_to_the_owner_of_its_type(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    access = As(owners={"shop"})
    http = calling(access=access, types=types)
    assert is_problem(http.post(PATH, json=RESIZE), 403, "owner")
    assert http.post(PATH, json=ORDER).status_code == 404
    client.declare([replace(SEND, named=True)], owner="shop", adopt=True)
    client.declare([types.tasks["resize"].definition], owner="shop", removed="keep")
    for body in (ORDER, RESIZE | {"queue": "slow"}):
        answer = calling(access=access, types=types).post(PATH, json=body)
        assert answer.status_code == 201
    assert {each.definition.owner for each in client.list_instances()} == {"shop"}


@pytest.mark.slow
def test_of_twenty_jobs_with_one_key_at_once_one_is_made(own_time_store: Store) -> None:
    """Two servers are sent them, and some have settings of their own."""
    client = Client(own_time_store)
    client.schedule(SEND)
    with (
        client_of(create_app(client)) as one,
        client_of(create_app(Client(own_time_store))) as other,
        ThreadPoolExecutor(20) as pool,
    ):
        all_there = threading.Barrier(20)

        def post(number: int) -> tuple[int, str]:
            several: list[dict[str, Any]] = [{}, {"queue": "slow"}, {"timeout": 9}]
            body = ORDER | {"key": "7"} | several[number % 3]
            all_there.wait(FAILED_AFTER)
            answer = (one, other)[number % 2].post(PATH, json=body)
            return answer.status_code, answer.json()["instance_id"]

        answers = list(pool.map(post, range(20)))
    assert sorted(status for status, _ in answers) == [200] * 19 + [201]
    assert {id for _, id in answers} == {str(only(client).id)}
