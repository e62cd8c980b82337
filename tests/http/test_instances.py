"""Instances over HTTP: read, cancel and retry them.

The commands of ``tests/cli/test_instances.py`` list, filter and show them by a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import Outcome
from go_scheduler.testing.builders import finish, pending, running
from tests.http.serving import field_of, is_problem

if TYPE_CHECKING:
    from go_scheduler import MemoryStore
    from tests.http.serving import Calling

PATH = "/v1/instances"


def test_instances_are_read_cancelled_and_retried(
    http: Calling, memory: MemoryStore
) -> None:
    second, first = running(memory), pending(memory)
    path = f"{PATH}/{second.id}"
    assert is_problem(http.post(f"{path}/retry"), 409, "state")
    finish(memory, second, Outcome.FAILED, error="it broke")
    [run] = http.get(f"{path}/runs").json()["items"]
    assert (run["outcome"], run["error"]) == ("failed", "it broke")
    assert run["worker"] is None
    for id, at in ((first.id, "created_at"), (second.id, "completed_at")):
        body = http.get(f"{PATH}/{id}").json()
        assert body["updated_at"] == body[at]
    assert http.post(f"{path}/retry").json()["state"] == "pending"
    for each in (first, second):
        cancelled = http.post(f"{PATH}/{each.id}/cancel").json()
        assert cancelled == {"cancelled": "cancelled"}
    requested = http.post(f"{PATH}/{running(memory).id}/cancel").json()
    assert requested == {"cancelled": "requested"}
    again = http.post(f"{path}/cancel")
    assert again.status_code == 409
    assert "cancelled" in again.json()["detail"]


@pytest.mark.parametrize("call", ["GET ", "GET /runs", "POST /cancel", "POST /retry"])
def test_an_unknown_instance_is_not_found(refusing: Calling, call: str) -> None:
    method, tail = call.split(" ")
    answer = refusing.request(method, f"{PATH}/{uuid4()}{tail}")
    assert is_problem(answer, 404, "no-instance")


@pytest.mark.parametrize(("path", "field"), [("/7", "id"), ("?since=today", "since")])
def test_a_wrong_id_or_query_is_refused(
    refusing: Calling, path: str, field: str
) -> None:
    assert field_of(refusing.get(f"{PATH}{path}")) == field


def test_an_instance_is_found_by_its_key(http: Calling) -> None:
    definition = {"trigger": {"on_demand": True}, "retry": {"max_attempts": 3}}
    id = http.post("/v1/definitions", json=definition).json()["id"]
    run = f"/v1/definitions/{id}/run"
    made = [http.post(run, json={"key": each}).json() for each in ("a", "b")]
    assert made[0]["max_attempts"] == 3
    query = {"definition_id": id, "key": "b"}
    assert http.get(PATH, params=query).json()["items"] == made[1:]
