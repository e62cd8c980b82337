"""Every route needs its scope, and hides what is somebody else's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import IntervalTrigger, MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import OPEN_PATHS
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.testing.builders import HOUR
from go_scheduler.testing.clock import START
from tests.http.access.house import Key
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Operation = tuple[str, str]
SOME = UUID(int=7)
READING = ("jobs:read", "runs:read", "admin")
PAGE = (Path(__file__).parents[3] / "docs/http-api.md").read_text()
KEYS = {
    "nobody": Key(scopes=[]),
    "reader": Key(scopes=["jobs:read"]),
    "mail": Key(scopes=["admin"], queues=["mail"]),
    "shop": Key(scopes=["admin"], owners=["shop"]),
    "root": Key(scopes=["admin"]),
}
DESCRIBED = create_app(Client(MemoryStore())).openapi()["paths"]
OPERATIONS: Mapping[Operation, Any] = {
    (method.upper(), path): operation["security"][0]["token"]
    for path, operations in DESCRIBED.items()
    for method, operation in operations.items()
    if path not in OPEN_PATHS
}
"""The scopes of each route."""

BODIES: Mapping[str, Any] = {
    "PUT /v1/definitions/{id}": {"trigger": {"every": 60}},
    "PATCH /v1/definitions/{id}": {"priority": 1},
    "POST /v1/definitions/{id}/backfill": {
        "start": START.isoformat(),
        "end": (START + HOUR).isoformat(),
    },
}


def calling(client: Client) -> Calling:
    access = BearerAccess(keys=[each.known for each in KEYS.values()])
    return Calling(create_app(client, access=access))


@pytest.fixture(scope="module")
def http() -> Iterator[Calling]:
    with calling(Client(MemoryStore())) as http:
        yield http


def test_the_page_has_all_routes_by_their_scopes() -> None:
    needed: dict[str, list[str]] = {scope: [] for scope in SCOPES}
    # The description lists all routes but its own.
    needed["jobs:read"].append("GET /openapi.json")
    for operation, [scope] in OPERATIONS.items():
        needed[scope].append(" ".join(operation))
        is_read = operation[0] == "GET" and not operation[1].startswith("/v1/work")
        assert is_read is (scope in READING) or operation[1] == "/v1/preview"
    table = PAGE.partition("## Scopes")[2]
    rows = re.findall(r"^\| `([a-z:]+)` \| (.+) \|$", table, re.M)
    shown = {scope: re.findall(r"`([^`]+)`", routes) for scope, routes in rows}
    assert [*shown] == [*SCOPES]
    for scope, routes in shown.items():
        assert sorted(routes) == sorted(needed[scope])


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_a_route_is_closed_without_its_scope(
    http: Calling, operation: Operation
) -> None:
    method, path = operation
    url = re.sub(r"\{(instance_id|definition_id|id)\}", str(SOME), path)
    url = url.replace("{", "").replace("}", "")
    statuses = {
        who: http.request(
            method, url, headers=KEYS[who].header if who else {}
        ).status_code
        for who in (None, "nobody", "reader")
    }
    assert (statuses[None], statuses["nobody"]) == (401, 403)
    assert (statuses["reader"] == 403) is (OPERATIONS[operation] != ["jobs:read"])


def test_the_description_needs_a_scope_too(http: Calling) -> None:
    for who, status in (("nobody", 403), ("reader", 200)):
        answer = http.get("/openapi.json", headers=KEYS[who].header)
        assert answer.status_code == status


@pytest.mark.parametrize("who", ["mail", "shop"])
def test_what_is_of_another_queue_or_owner_is_hidden_and_stays_as_it_is(
    who: str,
) -> None:
    client = Client(MemoryStore())
    task = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), queue="sms"))
    every = client.schedule(
        TaskDefinition(trigger=IntervalTrigger(HOUR), queue="sms", id=uuid4())
    )
    instance = client.run_now(task.id, key="known")
    with calling(client) as http:
        for method, path in (each for each in OPERATIONS if "{id}" in each[1]):
            body = BODIES.get(f"{method} {path}")
            kind = f"application/{'merge-patch+' if method == 'PATCH' else ''}json"
            for id in [instance.id] if "instances" in path else [task.id, every.id]:
                answer = http.request(
                    method,
                    path.replace("{id}", str(id)),
                    content=None if body is None else json.dumps(body),
                    params={"at": START.isoformat()} if "why" in path else {},
                    headers=KEYS[who].header | ({"Content-Type": kind} if body else {}),
                )
                assert answer.status_code == 404, (method, path, answer.text)
                assert "sms" not in answer.text
        for path in ("/v1/definitions", "/v1/instances"):
            for seen, counts in ((who, [0]), ("root", [1, 2])):
                answer = http.get(path, headers=KEYS[seen].header)
                assert len(answer.json()["items"]) in counts
    assert client.get_definition(every.id) == every
    assert client.get_definition(task.id) == task
    assert client.get_instance(instance.id) == instance
