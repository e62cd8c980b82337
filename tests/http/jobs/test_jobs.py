"""Jobs are submitted: now or later, once by their key, with their type's settings."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import RetryPolicy, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.jobs.jitter import JobDefaults
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, SECOND, claim, clean_up, finish
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
    # A job that says the same as its type needs no definition of its own.
    submitted(http, queue="default", priority=1, metadata={})
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


def test_a_job_with_settings_of_its_own_has_its_own_definition(
    http: Calling, client: Client
) -> None:
    client.schedule(replace(SEND, lock="smtp", timeout=5 * SECOND))
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
    own = found.definition
    assert answer["definition_id"] == str(own.id) != str(SEND.id)
    assert found.payload == {"order": 7}
    assert own == replace(
        SEND,
        id=own.id,
        trigger=own.trigger,
        queue="slow",
        priority=0,
        retry=RetryPolicy(max_attempts=3, delay=5 * SECOND),
        expire_after=60 * SECOND,
        metadata={"shop": 7},
        lock="smtp",
        timeout=5 * SECOND,
        start_timeout=7 * SECOND,
        heartbeat_timeout=8 * SECOND,
    )
    assert not own.named


@pytest.mark.parametrize("owner", [None, "shop"])
def test_jobs_with_and_without_settings_share_their_keys(
    client: Client, calling: Calls, owner: str | None
) -> None:
    if owner is not None:
        client.declare([replace(SEND, named=True)], owner=owner, adopt=True)
    http = calling(access=As() if owner is None else As(owners={owner, "bank"}))
    own: dict[str, Any] = {"queue": "slow", "owner": owner}
    orders: dict[str, list[dict[str, Any]]] = {"a": [{}, own, {}], "b": [own, {}, own]}
    for key, order in orders.items():
        answers = [http.post(PATH, json=ORDER | it | {"key": key}) for it in order]
        assert [each.status_code for each in answers] == [201, 200, 200]
        assert len({each.text for each in answers}) == 1
    both = lines([ORDER | {"key": "c"}, ORDER | own | {"key": "c"}] * 2)
    last = events_of(http.post(f"{PATH}/import", content=both, headers=LINES))[-1]
    assert (last["made"], last["known"]) == (1, 3)
    assert sorted(each.key or "" for each in client.list_instances()) == ["a", "b", "c"]


def test_a_job_that_another_server_makes_meanwhile_has_the_key(
    http: Calling, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = client.aschedule

    async def schedule_late(own: TaskDefinition) -> TaskDefinition:
        put = await schedule(own)
        client.enqueue("send", key="7")
        return put

    monkeypatch.setattr(client, "aschedule", schedule_late)
    answer = submitted(http, 200, key="7", queue="slow")
    assert answer["instance_id"] == str(only(client).id)
    assert [each.id for each in client.list_definitions()] == [SEND.id]


def test_nobody_runs_a_definition_that_they_may_not_see_by_its_key(
    client: Client, calling: Calls
) -> None:
    access = As()
    http = calling(access=access)
    made = submitted(http, queue="theirs", key="7")
    # Its definition exists, and its instance does not exist yet.
    own = client.get_definition(UUID(made["definition_id"]))
    client.delete_definition(own.id)
    client.schedule(replace(own, revision=0))
    access.become(queues={"default", "slow"})
    for more in ({}, {"queue": "slow"}):
        assert is_problem(http.post(PATH, json=ORDER | more | {"key": "7"}), 409, "key")
    assert client.list_instances() == []
    access.become(queues=None)
    for status in (201, 200):
        assert submitted(http, status, key="7")["definition_id"] == str(own.id)


@pytest.mark.parametrize("owner", [None, "shop"])
def test_a_job_that_is_deleted_leaves_its_key_to_another(
    store: Store, clock: ManualClock, calling: Calls, owner: str | None
) -> None:
    client = Client(store)
    if owner is None:
        client.schedule(SEND)
    else:
        client.declare([SEND], owner=owner)
    http = calling(client, access=As() if owner is None else As(owners={owner}))
    for _ in range(2):
        submitted(http, queue="slow", key="7")
        [run] = claim(store, queues=["slow"])
        assert run.payload == {"order": 7}
        assert finish(store, run)
        submitted(http, 200, queue="slow", key="7")
        clock.advance(HOUR)
        assert clean_up(store) == 2
        assert client.list_definitions() == [client.get_definition(SEND.id)]


def test_the_jobs_of_a_paused_type_wait_even_with_settings_of_their_own(
    http: Calling, client: Client
) -> None:
    client.pause(SEND.id)
    submitted(http, queue="slow")
    assert only(client).definition.paused
    assert client.resume_definitions(name="send") == 2
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
        ({"owner": "x" * 201, "queue": "slow"}, "owner"),
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


def test_the_server_runs_jobs_as_those_of_the_callers_owner(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    access = As(owners={"shop"})
    http = calling(access=access, types=types)
    client.declare([], owner="bank", version=7)
    assert http.post(PATH, json=RESIZE).status_code == 201
    found = only(client)
    assert (found.definition.owner, found.payload) == ("shop", {"width": 7})
    bank = RESIZE | {"owner": "bank"}
    assert http.post(PATH, json=bank).status_code == 403
    access.become(owners={"shop", "bank"})
    assert field_of(http.post(PATH, json=RESIZE)) == "owner"
    answer = http.post(PATH, json=bank)
    assert is_problem(answer, 409, "owner")
    assert "declared with versions" in answer.json()["detail"]


@pytest.mark.slow
def test_of_twenty_jobs_with_one_key_at_once_one_is_made(own_time_store: Store) -> None:
    """Some of them have settings of their own, and so a definition of their own."""
    client = Client(own_time_store)
    client.schedule(SEND)
    with client_of(create_app(client)) as http, ThreadPoolExecutor(20) as pool:
        all_there = threading.Barrier(20)

        def post(number: int) -> tuple[int, str]:
            body = ORDER | {"key": "7"} | ({"queue": "slow"} if number % 2 else {})
            all_there.wait(FAILED_AFTER)
            answer = http.post(PATH, json=body)
            return answer.status_code, answer.json()["instance_id"]

        answers = list(pool.map(post, range(20)))
    assert sorted(status for status, _ in answers) == [200] * 19 + [201]
    assert {id for _, id in answers} == {str(only(client).id)}
