"""Definitions over HTTP: create, read, change, pause, run and delete them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from fastapi import FastAPI

from go_scheduler import Overlap, RetryPolicy, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.client.awaitable import awaitable
from tests.conftest import seconds
from tests.http.serving import As, Calling, field_of, is_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler import MemoryStore

PATH = "/v1/definitions"
DAILY = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
FULL: dict[str, Any] = {
    "name": "report",
    "queue": "slow",
    "priority": 2,
    "trigger": DAILY,
    "metadata": {"shop": 7, "parts": [1, {"deep": None}]},
    "expire_after": 60,
    "timeout": 1.5,
    "start_timeout": 2.5,
    "heartbeat_timeout": 3,
    "retry": {
        "max_attempts": None,
        "delay": 10,
        "factor": 2,
        "max_delay": 100,
        "jitter": {"seconds": 3},
        "stop_on": ["builtins.KeyError"],
    },
    "catch_up": {"mode": "all", "grace": 5, "within": 3600, "drop_after": 7200},
    "jitter": 30,
    "overlap": "skip",
    "lock": "printer",
    "max_per_node": 3,
    "max_queue": 4,
    "when_full": "drop",
    "paused": True,
    "note": "not yet",
}


def created(http: Calling, **fields: object) -> dict[str, Any]:
    answer = http.post(PATH, json={"trigger": DAILY, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def path_of(body: dict[str, Any]) -> str:
    return f"{PATH}/{body['id']}"


def test_all_fields_are_kept_and_answered(http: Calling, client: Client) -> None:
    answer = http.post(PATH, json=FULL)
    assert answer.status_code == 201
    body = answer.json()
    assert answer.headers["Location"] == path_of(body)
    assert answer.headers["ETag"] == '"1"'
    kept = client.get_definition(UUID(body["id"]))
    assert kept.retry == RetryPolicy(
        max_attempts=None,
        delay=seconds(10),
        factor=2,
        max_delay=seconds(100),
        jitter=seconds(3),
        stop_on=["builtins.KeyError"],
    )
    assert (kept.timeout, kept.overlap) == (seconds(1.5), Overlap.SKIP)
    limits = kept.start_timeout, kept.heartbeat_timeout
    assert limits == (seconds(2.5), seconds(3))
    state = {"expression": "0 9 * * *", "timezone": "Europe/Berlin"}
    trigger = {"kind": "cron", "state": state}
    assert body.items() >= {**FULL, "trigger": trigger, "state": "paused"}.items()
    assert body["description"] == "every day at 09:00 (Europe/Berlin)"
    assert '"expire_after":60,' in answer.text
    assert not kept.named
    read = http.get(path_of(body))
    assert read.headers["ETag"] == '"1"'
    assert {**read.json(), "warnings": []} == body
    again = http.put(path_of(body), json=body)
    assert (again.status_code, again.json()) == (200, body)


def test_a_second_create_changes_nothing_and_another_definition_conflicts(
    http: Calling,
) -> None:
    id = str(uuid4())
    body = created(http, id=id)
    again = http.post(PATH, json={"trigger": DAILY, "id": id})
    assert (again.status_code, again.json()) == (200, body)
    other = http.post(PATH, json={"trigger": {"every": 60}, "id": id})
    assert is_problem(other, 409, "revision")


def test_put_creates_and_replaces(http: Calling) -> None:
    path = f"{PATH}/{uuid4()}"
    made = http.put(path, json={"trigger": DAILY})
    assert (made.status_code, made.headers["Location"]) == (201, path)
    replaced = http.put(path, json={"trigger": DAILY, "name": "other"})
    assert (replaced.status_code, replaced.headers["ETag"]) == (200, '"2"')
    assert replaced.json()["name"] == "other"
    other = http.put(path, json={"trigger": DAILY, "id": str(uuid4())})
    assert field_of(other) == "id"


def test_conditional_requests_change_only_the_revision_that_they_name(
    http: Calling,
) -> None:
    path, body = f"{PATH}/{uuid4()}", {"trigger": DAILY}
    for name, value, status in (
        ("If-Match", '"1"', 412),
        ("If-Match", "*", 412),
        ("If-None-Match", '"1"', 422),
        ("If-None-Match", "*", 201),
        ("If-None-Match", "*", 412),
        ("If-Match", '"7"', 412),
        ("If-Match", 'W/"1"', 412),
        ("If-Match", '"7", "1"', 200),
        ("If-Match", "*", 200),
        ("If-Match", "1", 422),
    ):
        answer = http.put(path, json=body, headers={name: value})
        assert answer.status_code == status, (name, value)
        assert status != 412 or is_problem(answer, 412, "revision")
    assert http.put(path, json={**body, "revision": 7}).status_code == 409
    for tag, status in (('"7"', 412), ('"1"', 200)):
        answer = http.patch(path, json={"name": "x"}, headers={"If-Match": tag})
        assert answer.status_code == status
    assert answer.json()["revision"] == 2


def test_a_patch_changes_the_fields_in_it(http: Calling) -> None:
    body = created(http, **FULL)
    patch = {
        "queue": "fast",
        "metadata": {"shop": None, "parts": {"first": 1}},
        "retry": {"max_attempts": 3},
        "lock": None,
        "paused": True,
    }
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = http.patch(path_of(body), json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
    now = answer.json()
    assert (now["queue"], now["lock"]) == ("fast", None)
    assert now["metadata"] == {"parts": {"first": 1}}
    assert now["retry"] == {**FULL["retry"], "max_attempts": 3}
    assert now["trigger"] == body["trigger"]
    other = http.patch(path_of(body), json={"trigger": {"every": 60}}).json()
    assert other["trigger"]["kind"] == "interval"


def test_a_wrong_patch_changes_nothing(http: Calling) -> None:
    path = path_of(created(http))
    wrong: list[tuple[object, str]] = [
        ({"id": str(uuid4())}, "id"),
        ({"paused": True}, "paused"),
        ({"note": "x"}, "note"),
        ({"queu": "x"}, "queu"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"owner": "shop"}, "owner"),
        ([], ""),
    ]
    for patch, field in wrong:
        assert field_of(http.patch(path, json=patch)) == field
    assert http.get(path).json()["revision"] == 1


class Busy(Client):
    """Somebody else changes a definition each time that it has been read."""

    changes = 0
    more: Mapping[str, Any] = {}

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        read = super().get_definition(definition_id)
        if self.changes:
            self.changes -= 1
            self.schedule(replace(read, lock=f"lock {self.changes}", **self.more))
        return read

    aget_definition = awaitable(get_definition)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_change_of_a_definition_that_others_change_is_repeated(
    memory: MemoryStore, calling: Callable[..., Calling], method: str
) -> None:
    client = Busy(memory)
    # Only the puts of restricted callers name the revision that was read.
    http = calling(client, access=As(queues={"default"}))
    path = path_of(created(http))
    body = {"name": "mine"} | ({"trigger": DAILY} if method == "PUT" else {})
    for changes, has_tag, status in ((3, False, 200), (9, False, 409), (1, True, 412)):
        headers = {"If-Match": http.get(path).headers["ETag"]} if has_tag else {}
        client.changes = changes
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        if method == "PATCH" and status == 200:
            assert (answer.json()["name"], answer.json()["lock"]) == ("mine", "lock 0")
        client.changes = 0
    # Somebody moves it to a queue that the caller may not see.
    client.changes, client.more = 1, {"queue": "theirs"}
    assert http.request(method, path, json=body).status_code == 404
    assert client.list_definitions(queue="theirs")[0].name == "mine"


def test_a_definition_may_be_in_a_declared_set(http: Calling, client: Client) -> None:
    body = created(http, owner="shop")
    assert body["owner"] == "shop"
    assert http.put(path_of(body), json={"trigger": DAILY}).json()["owner"] == "shop"
    other = http.put(path_of(body), json={"trigger": DAILY, "owner": "bank"})
    assert other.status_code == 422
    client.declare([], owner="office", version=3)
    refused = http.post(PATH, json={"trigger": DAILY, "owner": "office"})
    assert is_problem(refused, 409, "declared")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metadata", "{"),
        ("metadata", "[" * 5000),
        ("metadata", "[]"),
        ("metadata", '{"a": NaN}'),
        ("after", "x"),
        ("name", "a\0b"),
        ("limit", "0"),
        ("limit", "1001"),
        ("state", "open"),
        ("nam", "x"),
    ],
)
def test_a_wrong_query_is_refused(refusing: Calling, field: str, value: str) -> None:
    assert field_of(refusing.get(PATH, params={field: value})) == field


def test_a_definition_is_run_once_more_and_only_once_by_a_key(http: Calling) -> None:
    path = f"{path_of(created(http))}/run"
    body = {"payload": {"order": 7}, "key": "order 7", "delay": 3600}
    made = http.post(path, json=body)
    assert made.status_code == 201
    assert made.headers["Location"] == f"/v1/instances/{made.json()['id']}"
    again = http.post(path, json=body)
    assert (again.status_code, again.json()) == (200, made.json())
    assert http.post(path).status_code == 201
    wrong: list[tuple[dict[str, object], str]] = [
        ({"payload": {"a": "\0"}}, "payload"),
        ({"key": ""}, "key"),
        ({"delay": -1}, "delay"),
        ({"payloads": {}}, "payloads"),
        ({"at": "2030-01-01T00:00:00Z", "delay": 1}, "payload"),
    ]
    for body, field in wrong:
        assert field_of(http.post(path, json=body)) == field


def test_a_past_time_of_a_schedule_is_backfilled(http: Calling) -> None:
    path = f"{path_of(created(http, paused=True))}/backfill"
    body = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-11T00:00:00Z", "limit": 4}
    first = http.post(path, json=body).json()
    assert (first["made"], first["next"]) == (4, "2020-01-05T08:00:00Z")
    rest = http.post(path, json={**body, "limit": 10_000}).json()
    assert (rest["made"], rest["there"], rest["next"]) == (6, 4, None)
    backwards = {"start": body["end"], "end": body["start"]}
    assert field_of(http.post(path, json=backwards)) == "start"


def test_a_definition_says_when_it_fires(http: Calling) -> None:
    path = path_of(created(http))
    query = {"n": 2, "after": "2030-03-30T12:00:00+01:00"}
    answer = http.get(f"{path}/preview", params=query).json()
    assert [each["local"] for each in answer["times"]] == [
        "2030-03-31T09:00:00+02:00",
        "2030-04-01T09:00:00+02:00",
    ]
    assert len(http.get(f"{path}/preview").json()["times"]) == 10


@pytest.mark.parametrize(
    ("field", "value"), [("late", -1), ("since", "2999-01-01"), ("retention", "long")]
)
def test_a_wrong_query_for_fire_times_is_refused(
    http: Calling, field: str, value: object
) -> None:
    path = path_of(created(http))
    assert field_of(http.get(f"{path}/audit", params={field: value})) == field


def test_a_deleted_definition_is_gone(http: Calling) -> None:
    path = path_of(created(http))
    answer = http.delete(path)
    assert (answer.status_code, answer.json()) == (200, {"running": 0})
    for method, tails in {
        "DELETE": [""],
        "GET": ["", "/preview", "/why", "/audit"],
        "PATCH": [""],
        "POST": ["/pause", "/resume", "/run"],
    }.items():
        body: dict[str, Any] = {"json": {}} if method in ("PATCH", "POST") else {}
        for tail in tails:
            answer = http.request(method, f"{path}{tail}", **body)
            assert is_problem(answer, 404, "no-definition")


def test_a_mounted_application_answers_paths_as_its_callers_write_them(
    app: FastAPI,
) -> None:
    outer = FastAPI()
    outer.mount("/inner", app)
    with Calling(outer) as http:
        made = http.post(f"/inner{PATH}", json={"trigger": DAILY})
        path = made.headers["Location"]
        assert path == f"/inner{path_of(made.json())}"
        assert http.put("/inner/v1/types/send", json={}).status_code == 201
        for answer in (
            made,
            http.post(f"{path}/run"),
            http.put(f"/inner{PATH}/{uuid4()}", json={"trigger": DAILY}),
            http.post("/inner/v1/jobs", json={"type": "send"}),
        ):
            assert http.get(answer.headers["Location"]).status_code == 200
