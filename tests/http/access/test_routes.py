"""Every route names what it takes, and gives nothing of others' to anybody."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx
import pytest

from go_scheduler import IntervalTrigger, MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import OPEN_PATHS
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.testing.builders import HOUR
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping

Operation = tuple[str, str]
SOME = UUID(int=7)
READING = ("jobs:read", "runs:read", "admin")
PAGE = (Path(__file__).parents[3] / "docs/http-api.md").read_text()


class Keys:
    """Keys by the names of those who have them."""

    def __init__(self) -> None:
        self.known: list[ApiKey] = []
        self.headers: dict[str, dict[str, str]] = {}

    def add(self, subject: str, **given: Any) -> None:
        new = new_key()
        self.known.append(ApiKey(subject=subject, hash=new.kept, **given))
        self.headers[subject] = {"Authorization": f"Bearer {new.key}"}


def keys() -> Keys:
    found = Keys()
    found.add("nobody", scopes=[])
    found.add("reader", scopes=["jobs:read"])
    found.add("mail", scopes=["admin"], queues=["mail"])
    found.add("shop", scopes=["admin"], owners=["shop"])
    found.add("root", scopes=["admin"])
    return found


KEYS = keys()
DESCRIBED = create_app(Client(MemoryStore())).openapi()["paths"]
OPERATIONS: Mapping[Operation, Any] = {
    (method.upper(), path): operation
    for path, operations in DESCRIBED.items()
    for method, operation in operations.items()
    if path not in OPEN_PATHS
}


def calling(client: Client) -> httpx.AsyncClient:
    access = BearerAccess(keys=KEYS.known)
    transport = httpx.ASGITransport(create_app(client, access=access))
    return httpx.AsyncClient(transport=transport, base_url="https://tasks")


def named(operation: Operation) -> str:
    return " ".join(operation)


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_route_names_the_scopes_that_it_takes(operation: Operation) -> None:
    [needed] = OPERATIONS[operation]["security"]
    [scope] = needed["token"]
    assert scope in SCOPES
    is_read = operation[0] == "GET" and not operation[1].startswith("/v1/work")
    assert is_read is (scope in READING) or operation[1] == "/v1/preview"


def test_the_page_has_all_routes_by_their_scopes() -> None:
    needed: dict[str, set[str]] = {scope: set() for scope in SCOPES}
    for operation, described in OPERATIONS.items():
        [security] = described["security"]
        needed[security["token"][0]].add(named(operation))
    # It describes all others, and not itself.
    needed["jobs:read"].add("GET /openapi.json")
    table = PAGE.partition("## Scopes")[2]
    rows = re.findall(r"^\| `([a-z:]+)` \| (.+) \|$", table, re.M)
    shown = {scope: re.findall(r"`([^`]+)`", routes) for scope, routes in rows}
    assert [*shown] == [*SCOPES]
    assert {scope: sorted(each) for scope, each in shown.items()} == {
        scope: sorted(each) for scope, each in needed.items()
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_route_is_closed_to_those_without_and_open_to_nobody_else(
    operation: Operation,
) -> None:
    method, path = operation
    [needed] = OPERATIONS[operation]["security"]

    async def asked() -> None:
        async with calling(Client(MemoryStore())) as client:
            url = path.replace("{", "").replace("}", "")
            for part in ("instance_id", "definition_id", "id"):
                url = url.replace(f"/{part}", f"/{SOME}")
            statuses = {}
            for who in (None, "nobody", "reader"):
                headers = {} if who is None else KEYS.headers[who]
                answer = await client.request(method, url, headers=headers)
                statuses[who] = answer.status_code
            assert statuses[None] == 401
            assert statuses["nobody"] == 403
            assert (statuses["reader"] == 403) is (needed["token"] != ["jobs:read"])

    asyncio.run(asked())


def test_what_is_described_and_measured_needs_a_scope_too() -> None:
    async def asked() -> None:
        async with calling(Client(MemoryStore())) as client:
            for path, who, status in (
                ("/openapi.json", "nobody", 403),
                ("/openapi.json", "reader", 200),
                ("/metrics", "reader", 403),
                ("/metrics", "root", 200),
                ("/v1/nodes", "reader", 403),
                ("/v1/nodes", "root", 200),
            ):
                answer = await client.get(path, headers=KEYS.headers[who])
                assert answer.status_code == status, path

    asyncio.run(asked())


BODIES: Mapping[str, Any] = {
    "PUT /v1/definitions/{id}": {"trigger": {"every": 60}},
    "PATCH /v1/definitions/{id}": {"priority": 1},
    "POST /v1/definitions/{id}/backfill": {
        "start": START.isoformat(),
        "end": (START + HOUR).isoformat(),
    },
}
OF_ONE = [each for each in OPERATIONS if "{id}" in each[1]]


@pytest.mark.parametrize("who", ["mail", "shop"])
@pytest.mark.parametrize("operation", OF_ONE, ids=named)
def test_what_is_of_another_queue_or_owner_is_not_there_and_stays_as_it_is(
    operation: Operation, who: str
) -> None:
    method, path = operation
    store = MemoryStore()
    client = Client(store)
    task = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), queue="sms"))
    every = client.schedule(
        TaskDefinition(trigger=IntervalTrigger(HOUR), queue="sms", id=uuid4())
    )
    instance = client.run_now(task.id, key="known")
    body = BODIES.get(named(operation))
    content = None if body is None else json.dumps(body)

    async def asked() -> None:
        async with calling(client) as caller:
            ids = [instance.id] if "instances" in path else [task.id, every.id]
            for each in ids:
                answer = await caller.request(
                    method,
                    path.replace("{id}", str(each)),
                    content=content,
                    params={"at": START.isoformat()} if "why" in path else {},
                    headers=KEYS.headers[who]
                    | ({} if body is None else {"Content-Type": _type(method)}),
                )
                assert answer.status_code == 404, answer.text
                assert "sms" not in answer.text

    def _type(method: str) -> str:
        return f"application/{'merge-patch+' if method == 'PATCH' else ''}json"

    asyncio.run(asked())
    assert client.get_definition(every.id) == every
    assert client.get_definition(task.id) == task
    assert client.get_instance(instance.id) == instance


@pytest.mark.parametrize("who", ["mail", "shop"])
def test_lists_have_nothing_of_others(who: str) -> None:
    client = Client(MemoryStore())
    task = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), queue="sms"))
    client.run_now(task.id)

    async def asked() -> None:
        async with calling(client) as caller:
            for path in ("/v1/definitions", "/v1/instances"):
                for seen, count in ((who, 0), ("root", 1)):
                    answer = await caller.get(path, headers=KEYS.headers[seen])
                    assert len(answer.json()["items"]) == count
            if who == "mail":
                answer = await caller.get(
                    "/v1/definitions",
                    params={"queue": "sms"},
                    headers=KEYS.headers[who],
                )
                assert answer.status_code == 403

    asyncio.run(asked())
