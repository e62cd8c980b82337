"""Instances over HTTP: read, cancelled, and run again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import Outcome
from go_scheduler.http.bodies.instances import InstanceAnswer, RunAnswer
from go_scheduler.models import RunEnd, Stage, TaskRun
from go_scheduler.testing.builders import LEASE, claimed, finish, pending, running
from go_scheduler.testing.clock import START
from tests.conftest import instance

if TYPE_CHECKING:
    from go_scheduler import Store
    from tests.http.serving import Calling


def test_an_instance_is_read_with_all_that_is_known_of_it(
    http: Calling, store: Store
) -> None:
    instance = pending(store)
    answer = http.get(f"/v1/instances/{instance.id}")
    assert answer.status_code == 200
    body = answer.json()
    assert body["definition_id"] == str(instance.definition.id)
    assert (body["state"], body["runs"], body["skipped"]) == ("pending", 0, None)
    assert body["execute_at"].endswith("Z")
    assert body["updated_at"] == body["created_at"]


def test_lists_are_of_what_was_asked_for(http: Calling, store: Store) -> None:
    second, first = running(store), pending(store)

    def listed(**query: str | int) -> list[str]:
        answer = http.get("/v1/instances", params=query)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["items"]]

    assert {*listed()} == {str(first.id), str(second.id)}
    assert listed(definition_id=str(first.definition.id)) == [str(first.id)]
    assert listed(state="running", newest_first="true") == [str(second.id)]
    assert listed(since="2999-01-01T00:00:00Z") == []
    page = http.get("/v1/instances", params={"limit": 1}).json()
    assert len(listed(limit=1, after=page["next"])) == 1
    assert http.get("/v1/instances", params={"since": "today"}).status_code == 422


def test_what_was_skipped_says_why(http: Calling, store: Store) -> None:
    instance = claimed(store)
    finish(store, instance, Outcome.SKIPPED, error="too late")
    skipped = http.get(f"/v1/instances/{instance.id}").json()["skipped"]
    assert (skipped["count"], skipped["reason"]) == (1, "too late")


def test_what_has_failed_has_its_runs_and_is_run_again(
    http: Calling, store: Store
) -> None:
    instance = running(store)
    path = f"/v1/instances/{instance.id}"
    refused = http.post(f"{path}/retry")
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:go_scheduler:state"
    finish(store, instance, Outcome.FAILED, error="it broke")
    [run] = http.get(f"{path}/runs").json()["items"]
    assert (run["outcome"], run["error"]) == ("failed", "it broke")
    assert run["worker"] is None
    over = http.get(path).json()
    assert over["updated_at"] == over["completed_at"]
    assert http.post(f"{path}/retry").json()["state"] == "pending"


def test_how_far_a_run_on_a_bus_has_come_is_answered() -> None:
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
    run = TaskRun(
        instance_id=accepted.id,
        attempt=1,
        node=None,
        started_at=START,
        ended_at=START,
        outcome=RunEnd.LOST,
        error=None,
        lost_in=Stage.STARTED,
    )
    assert RunAnswer.of(run).model_dump(mode="json")["lost_in"] == "started"


def test_what_has_not_ended_is_cancelled(http: Calling, store: Store) -> None:
    runs, instance = running(store), pending(store)
    answer = http.post(f"/v1/instances/{instance.id}/cancel")
    assert answer.json() == {"cancelled": "cancelled"}
    again = http.post(f"/v1/instances/{instance.id}/cancel")
    assert again.status_code == 409
    assert "cancelled" in again.json()["detail"]
    answer = http.post(f"/v1/instances/{runs.id}/cancel")
    assert answer.json() == {"cancelled": "requested"}


@pytest.mark.parametrize(
    ("method", "tail"),
    [("GET", ""), ("GET", "/runs"), ("POST", "/cancel"), ("POST", "/retry")],
)
def test_one_that_is_not_there_is_not_found(
    http: Calling, method: str, tail: str
) -> None:
    answer = http.request(method, f"/v1/instances/{uuid4()}{tail}")
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:go_scheduler:no-instance"


def test_an_id_that_is_none_is_refused(http: Calling) -> None:
    answer = http.get("/v1/instances/7")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "id"


def test_the_payload_and_the_policy_are_shown(http: Calling, store: Store) -> None:
    definition: dict[str, Any] = {
        "trigger": {"on_demand": True},
        "retry": {"max_attempts": 3},
    }
    id = http.post("/v1/definitions", json=definition).json()["id"]
    body = http.post(f"/v1/definitions/{id}/run", json={"payload": {"a": 1}}).json()
    assert (body["payload"], body["max_attempts"]) == ({"a": 1}, 3)


def test_one_is_found_by_its_key(http: Calling) -> None:
    id = http.post("/v1/definitions", json={"trigger": {"on_demand": True}}).json()[
        "id"
    ]
    made = [
        http.post(f"/v1/definitions/{id}/run", json={"key": each}).json()["id"]
        for each in ("a", "b")
    ]
    asked = {"definition_id": id, "key": "b"}
    found = http.get("/v1/instances", params=asked).json()["items"]
    assert [each["id"] for each in found] == made[1:]
