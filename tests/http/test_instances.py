"""Instances over HTTP: read, cancel and retry them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import Outcome
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.bodies.instances import InstanceAnswer
from go_scheduler.testing.builders import LEASE, claimed, finish, pending, running
from go_scheduler.testing.clock import START
from tests.conftest import instance
from tests.http.serving import Calling, field_of, is_problem

if TYPE_CHECKING:
    from go_scheduler import MemoryStore, Store
    from go_scheduler.testing import ManualClock

PATH = "/v1/instances"


def test_each_kind_of_store_has_them_read_cancelled_and_retried(
    store: Store, clock: ManualClock
) -> None:
    with Calling(create_app(Client(store), clock=clock)) as http:
        second, first = running(store), pending(store)
        body = http.get(f"{PATH}/{first.id}").json()
        assert body["definition_id"] == str(first.definition.id)
        assert (body["state"], body["runs"], body["skipped"]) == ("pending", 0, None)
        assert body["execute_at"].endswith("Z")
        assert body["updated_at"] == body["created_at"]

        def listed(**query: str | int) -> list[str]:
            answer = http.get(PATH, params=query)
            return [each["id"] for each in answer.json()["items"]]

        assert {*listed()} == {str(first.id), str(second.id)}
        assert listed(definition_id=str(first.definition.id)) == [str(first.id)]
        assert listed(state="running", newest_first="true") == [str(second.id)]
        assert listed(since="2999-01-01T00:00:00Z") == []
        page = http.get(PATH, params={"limit": 1}).json()
        assert len(listed(limit=1, after=page["next"])) == 1
        path = f"{PATH}/{second.id}"
        assert is_problem(http.post(f"{path}/retry"), 409, "state")
        finish(store, second, Outcome.FAILED, error="it broke")
        [run] = http.get(f"{path}/runs").json()["items"]
        assert (run["outcome"], run["error"]) == ("failed", "it broke")
        assert run["worker"] is None
        over = http.get(path).json()
        assert over["updated_at"] == over["completed_at"]
        assert http.post(f"{path}/retry").json()["state"] == "pending"
        for each in (first, second):
            cancelled = http.post(f"{PATH}/{each.id}/cancel").json()
            assert cancelled == {"cancelled": "cancelled"}
        requested = http.post(f"{PATH}/{running(store).id}/cancel").json()
        assert requested == {"cancelled": "requested"}
        again = http.post(f"{path}/cancel")
        assert again.status_code == 409
        assert "cancelled" in again.json()["detail"]


def test_a_skipped_instance_says_why(http: Calling, memory: MemoryStore) -> None:
    instance = claimed(memory)
    finish(memory, instance, Outcome.SKIPPED, error="too late")
    skipped = http.get(f"{PATH}/{instance.id}").json()["skipped"]
    assert (skipped["count"], skipped["reason"]) == (1, "too late")


def test_an_answer_has_the_stage_and_progress_of_a_run_on_a_bus() -> None:
    accepted = replace(
        instance(),
        accepted_at=START,
        start_by=START + LEASE,
        worker="mail 7",
        progress={"done": 3},
    )
    found = InstanceAnswer.of(accepted).model_dump(mode="json")
    assert (found["stage"], found["progress"]) == ("accepted", {"done": 3})
    assert found["accepted_at"] == "2030-01-01T00:00:00Z"
    assert found["start_by"] == "2030-01-01T00:00:20Z"


@pytest.mark.parametrize("call", ["GET ", "GET /runs", "POST /cancel", "POST /retry"])
def test_an_unknown_instance_is_not_found(refusing: Calling, call: str) -> None:
    method, tail = call.split(" ")
    answer = refusing.request(method, f"{PATH}/{uuid4()}{tail}")
    assert is_problem(answer, 404, "no-instance")


@pytest.mark.parametrize(
    ("path", "field"), [("/7", "id"), ("?since=today", "since")], ids=["id", "since"]
)
def test_a_wrong_id_or_query_is_refused(
    refusing: Calling, path: str, field: str
) -> None:
    assert field_of(refusing.get(f"{PATH}{path}")) == field


def test_an_instance_has_its_payload_and_policy_and_is_found_by_its_key(
    http: Calling,
) -> None:
    definition = {"trigger": {"on_demand": True}, "retry": {"max_attempts": 3}}
    id = http.post("/v1/definitions", json=definition).json()["id"]
    made = [
        http.post(
            f"/v1/definitions/{id}/run", json={"key": each, "payload": {"a": 1}}
        ).json()
        for each in ("a", "b")
    ]
    assert (made[0]["payload"], made[0]["max_attempts"]) == ({"a": 1}, 3)
    query = {"definition_id": id, "key": "b"}
    assert http.get(PATH, params=query).json()["items"] == made[1:]
