"""Definitions over HTTP: what is sent is kept, what is there is read and changed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from fastapi import FastAPI

from go_scheduler import (
    CronTrigger,
    Overlap,
    RetryPolicy,
    ScheduleWarning,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.client.awaitable import awaitable
from go_scheduler.http import create_app
from tests.conftest import seconds
from tests.http.jobs.asking import As
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler import Store

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
    answer = http.post("/v1/definitions", json={"trigger": DAILY, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def path_of(body: dict[str, Any]) -> str:
    return f"/v1/definitions/{body['id']}"


def test_what_is_sent_is_what_is_kept_and_answered(
    http: Calling, client: Client
) -> None:
    answer = http.post("/v1/definitions", json=FULL)
    assert answer.status_code == 201
    body = answer.json()
    assert answer.headers["Location"] == path_of(body)
    assert answer.headers["ETag"] == '"1"'
    kept = client.get_definition(UUID(body["id"]))
    assert kept.trigger == CronTrigger("0 9 * * *", "Europe/Berlin")
    assert kept.retry == RetryPolicy(
        max_attempts=None,
        delay=seconds(10),
        factor=2,
        max_delay=seconds(100),
        jitter=seconds(3),
        stop_on=["builtins.KeyError"],
    )
    assert kept.catch_up is not None
    assert (kept.catch_up.mode, kept.catch_up.grace) == ("all", seconds(5))
    assert (kept.timeout, kept.overlap) == (seconds(1.5), Overlap.SKIP)
    limits = kept.start_timeout, kept.heartbeat_timeout
    assert limits == (seconds(2.5), seconds(3))
    state = {"expression": "0 9 * * *", "timezone": "Europe/Berlin"}
    trigger = {"kind": "cron", "state": state}
    assert body.items() >= {**FULL, "trigger": trigger, "state": "paused"}.items()
    assert not kept.named
    read = http.get(path_of(body))
    assert read.headers["ETag"] == '"1"'
    assert {**read.json(), "warnings": []} == body


def test_what_was_read_may_be_sent_back_and_changes_nothing(http: Calling) -> None:
    body = created(http, **FULL)
    answer = http.put(path_of(body), json=body)
    assert (answer.status_code, answer.json()) == (200, body)


def test_to_create_the_same_again_changes_nothing_and_something_else_conflicts(
    http: Calling,
) -> None:
    id = str(uuid4())
    body = created(http, id=id)
    again = http.post("/v1/definitions", json={"trigger": DAILY, "id": id})
    assert (again.status_code, again.json()) == (200, body)
    other = http.post("/v1/definitions", json={"trigger": {"every": 60}, "id": id})
    assert other.status_code == 409
    assert other.json()["type"] == "urn:go_scheduler:revision"


def test_to_put_creates_and_replaces(http: Calling) -> None:
    path = f"/v1/definitions/{uuid4()}"
    made = http.put(path, json={"trigger": DAILY})
    assert made.status_code == 201
    assert made.headers["Location"] == path
    replaced = http.put(path, json={"trigger": DAILY, "name": "other"})
    assert replaced.status_code == 200
    assert replaced.headers["ETag"] == '"2"'
    assert replaced.json()["name"] == "other"


def test_of_a_condition_that_does_not_hold_nothing_is_changed(http: Calling) -> None:
    path, body = f"/v1/definitions/{uuid4()}", {"trigger": DAILY}
    for given in ('"1"', "*"):
        answer = http.put(path, json=body, headers={"If-Match": given})
        assert answer.status_code == 412
        assert answer.json()["type"] == "urn:go_scheduler:revision"
    new = {"If-None-Match": "*"}
    assert http.put(path, json=body, headers=new).status_code == 201
    assert http.put(path, json=body, headers=new).status_code == 412
    for given, status in (
        ('"7"', 412),
        ('W/"1"', 412),
        ('"7", "1"', 200),
        ("*", 200),
        ("1", 422),
    ):
        answer = http.put(path, json=body, headers={"If-Match": given})
        assert answer.status_code == status, given
    answer = http.put(path, json=body, headers={"If-None-Match": '"1"'})
    assert answer.status_code == 422
    answer = http.put(path, json={**body, "revision": 7})
    assert answer.status_code == 409
    answer = http.patch(path, json={"name": "x"}, headers={"If-Match": '"7"'})
    assert answer.status_code == 412
    answer = http.patch(path, json={"name": "x"}, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["revision"]) == (200, 2)


def test_a_patch_changes_what_is_in_it(http: Calling) -> None:
    body = created(http, **FULL)
    answer = http.patch(
        path_of(body),
        json={
            "queue": "fast",
            "metadata": {"shop": None, "parts": {"first": 1}},
            "retry": {"max_attempts": 3},
            "lock": None,
            "paused": True,
        },
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200, answer.text
    now = answer.json()
    assert now["queue"] == "fast"
    assert now["metadata"] == {"parts": {"first": 1}}
    assert now["retry"] == {**FULL["retry"], "max_attempts": 3}
    assert now["lock"] is None
    assert now["trigger"] == body["trigger"]
    other = http.patch(path_of(body), json={"trigger": {"every": 60}}).json()
    assert other["trigger"]["kind"] == "interval"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"id": str(uuid4())}, "id"),
        ({"paused": True}, "paused"),
        ({"note": "x"}, "note"),
        ({"queu": "x"}, "queu"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"owner": "shop"}, "owner"),
        ([], ""),
    ],
)
def test_a_patch_that_is_wrong_changes_nothing(
    http: Calling, patch: object, field: str
) -> None:
    body = created(http)
    answer = http.patch(path_of(body), json=patch)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert http.get(path_of(body)).json()["revision"] == 1


class Busy(Client):
    """One whose definitions somebody else changes whenever they have been read."""

    changes = 0
    more: Mapping[str, Any] = {}

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        read = super().get_definition(definition_id)
        if self.changes:
            self.changes -= 1
            self.schedule(replace(read, lock=f"lock {self.changes}", **self.more))
        return read

    aget_definition = awaitable(get_definition)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "given", "status"),
    [
        (3, None, 200),
        (9, None, 409),
        (1, '"1"', 412),
    ],
)
def test_a_patch_of_what_somebody_else_has_changed_is_made_again(
    store: Store, changes: int, given: str | None, status: int
) -> None:
    client = Busy(store)
    with Calling(create_app(client)) as http:
        path = path_of(created(http))
        client.changes = changes
        headers = {} if given is None else {"If-Match": given}
        answer = http.patch(path, json={"name": "mine"}, headers=headers)
        assert answer.status_code == status
        if status == 200:
            assert (answer.json()["name"], answer.json()["lock"]) == ("mine", "lock 0")


def test_a_put_of_who_is_restricted_replaces_what_they_have_read(
    store: Store,
) -> None:
    client = Busy(store)
    with Calling(create_app(client, access=As(queues={"default"}))) as http:
        path = path_of(created(http))
        for changes, headers, status in (
            (3, {}, 200),
            (9, {}, 409),
            (1, {"If-Match": http.get(path).headers["ETag"]}, 412),
        ):
            client.changes = changes
            body = {"trigger": DAILY, "name": "mine"}
            answer = http.put(path, json=body, headers=headers)
            assert answer.status_code == status, answer.text
            client.changes = 0
        # One that somebody else has moved to where they see nothing is not there.
        client.changes, client.more = 1, {"queue": "theirs"}
        assert http.put(path, json={"trigger": DAILY}).status_code == 404
        assert client.list_definitions(queue="theirs")[0].name == "mine"


def test_the_id_of_a_put_is_that_of_its_path(http: Calling) -> None:
    body = {"trigger": DAILY, "id": str(uuid4())}
    answer = http.put(f"/v1/definitions/{uuid4()}", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "id"


def test_what_is_put_may_be_in_a_declared_set(http: Calling, client: Client) -> None:
    body = created(http, owner="shop")
    assert body["owner"] == "shop"
    assert http.put(path_of(body), json={"trigger": DAILY}).json()["owner"] == "shop"
    other = http.put(path_of(body), json={"trigger": DAILY, "owner": "bank"})
    assert other.status_code == 422
    client.declare([], owner="office", version=3)
    refused = http.post("/v1/definitions", json={"trigger": DAILY, "owner": "office"})
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:go_scheduler:declared"


def test_what_its_author_may_not_have_meant_is_told_by_the_answer(
    http: Calling,
) -> None:
    odd = {"cron": "0 9 13 * 5"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScheduleWarning)
        body = created(http, trigger=odd)
    assert body["warnings"]


def test_lists_go_on_page_by_page_and_are_of_what_was_asked_for(
    http: Calling,
) -> None:
    ids = {created(http, queue="a", metadata={"n": n})["id"] for n in range(3)}
    paused = created(http, name="x", queue="b", paused=True, owner="shop")["id"]

    def listed(**query: str | int) -> list[str]:
        answer = http.get("/v1/definitions", params=query)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["items"]]

    assert {*listed()} == {*ids, paused}
    assert {*listed(queue="a", soonest_first="true")} == ids
    assert (
        listed(name="x") == listed(state="paused") == listed(owner="shop") == [paused]
    )
    assert len(listed(metadata='{"n": 1}')) == 1
    first = http.get("/v1/definitions", params={"limit": 3}).json()
    assert first["next"] is not None
    assert len(listed(after=first["next"])) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"metadata": "{"}, "metadata"),
        ({"metadata": "[" * 5000}, "metadata"),
        ({"metadata": "[]"}, "metadata"),
        ({"metadata": '{"a": NaN}'}, "metadata"),
        ({"after": "x"}, "after"),
        ({"name": "a\0b"}, "name"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"state": "open"}, "state"),
        ({"nam": "x"}, "nam"),
    ],
)
def test_a_list_that_is_asked_for_wrongly_is_refused(
    http: Calling, query: dict[str, str], field: str
) -> None:
    answer = http.get("/v1/definitions", params=query)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_a_definition_is_paused_and_resumed(http: Calling) -> None:
    path = path_of(created(http))
    paused = http.post(f"{path}/pause", json={"note": "why"}).json()
    assert (paused["state"], paused["note"]) == ("paused", "why")
    assert http.post(f"{path}/resume").json()["state"] == "active"
    assert http.post(f"{path}/pause").json()["note"] is None


def test_a_definition_is_run_once_more_and_by_a_key_only_once(http: Calling) -> None:
    path = path_of(created(http))
    body = {"payload": {"order": 7}, "key": "order 7", "delay": 3600}
    made = http.post(f"{path}/run", json=body)
    assert made.status_code == 201
    assert made.headers["Location"] == f"/v1/instances/{made.json()['id']}"
    again = http.post(f"{path}/run", json=body)
    assert (again.status_code, again.json()) == (200, made.json())
    assert http.post(f"{path}/run").status_code == 201
    wrong: list[tuple[dict[str, object], str]] = [
        ({"payload": {"a": "\0"}}, "payload"),
        ({"key": ""}, "key"),
        ({"delay": -1}, "delay"),
        ({"payloads": {}}, "payloads"),
    ]
    for body, field in wrong:
        answer = http.post(f"{path}/run", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == field
    both = {"at": "2030-01-01T00:00:00Z", "delay": 1}
    assert http.post(f"{path}/run", json=both).status_code == 422


def test_the_past_of_a_schedule_is_run(http: Calling) -> None:
    path = path_of(created(http, paused=True))
    body = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-11T00:00:00Z", "limit": 4}
    first = http.post(f"{path}/backfill", json=body).json()
    assert (first["made"], first["next"]) == (4, "2020-01-05T08:00:00Z")
    rest = http.post(f"{path}/backfill", json={**body, "limit": 10_000}).json()
    assert (rest["made"], rest["there"], rest["next"]) == (6, 4, None)
    backwards = {"start": body["end"], "end": body["start"]}
    refused = http.post(f"{path}/backfill", json=backwards)
    assert refused.json()["errors"][0]["field"] == "start"
    note = http.post(f"{path}/pause", json={"note": "a\0b"})
    assert note.json()["errors"][0]["field"] == "note"


def test_a_definition_says_when_it_fires_and_why(http: Calling) -> None:
    path = path_of(created(http))
    asked = {"n": 2, "after": "2030-03-30T12:00:00+01:00"}
    answer = http.get(f"{path}/preview", params=asked).json()
    assert [each["local"] for each in answer["times"]] == [
        "2030-03-31T09:00:00+02:00",
        "2030-04-01T09:00:00+02:00",
    ]
    assert len(http.get(f"{path}/preview").json()["times"]) == 10
    why = http.get(f"{path}/why", params={"at": "2030-04-01T07:00:00Z"}).json()
    assert why["because"] == "to come"


def test_what_is_deleted_is_gone(http: Calling) -> None:
    path = path_of(created(http))
    answer = http.delete(path)
    assert (answer.status_code, answer.json()) == (200, {"running": 0})
    for method, tail in (
        ("DELETE", ""),
        ("GET", ""),
        ("PATCH", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/run"),
        ("GET", "/preview"),
        ("GET", "/why"),
    ):
        body: dict[str, Any] = {"json": {}} if method in ("PATCH", "POST") else {}
        answer = http.request(method, f"{path}{tail}", **body)
        assert answer.status_code == 404, tail
        assert answer.json()["type"] == "urn:go_scheduler:no-definition"


def test_a_definition_of_a_foreign_kind_is_shown_as_it_is(
    http: Calling, client: Client
) -> None:
    id = client.schedule(TaskDefinition(trigger=CronTrigger("0 9 * * *"))).id
    assert http.get(f"/v1/definitions/{id}").json()["description"] == (
        "every day at 09:00"
    )


def test_where_it_is_mounted_places_are_told_as_callers_write_them(
    app: FastAPI,
) -> None:
    outer = FastAPI()
    outer.mount("/inner", app)
    with Calling(outer) as http:
        made = http.post("/inner/v1/definitions", json={"trigger": DAILY})
        path = made.headers["Location"]
        assert path == f"/inner{path_of(made.json())}"
        assert http.get(path).status_code == 200
        run = http.post(f"{path}/run")
        assert http.get(run.headers["Location"]).status_code == 200
        put = http.put(f"/inner/v1/definitions/{uuid4()}", json={"trigger": DAILY})
        assert http.get(put.headers["Location"]).status_code == 200
        assert http.put("/inner/v1/types/send", json={}).status_code == 201
        job = http.post("/inner/v1/jobs", json={"type": "send"})
        assert http.get(job.headers["Location"]).status_code == 200
