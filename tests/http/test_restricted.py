"""Routes are closed without their scopes; restricted callers keep to what is theirs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.client.on_demand import Job
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import OPEN_PATHS, BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.telemetry.figures import Gathering
from go_scheduler.testing.builders import HOUR, claim, start
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.http.access.house import Key
from tests.http.serving import As, Calling, field_of, is_problem
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from go_scheduler import TaskInstance

    Calls = Callable[..., Calling]


Operation = tuple[str, str]
SOME = UUID(int=7)
READING = ("jobs:read", "runs:read", "admin")
PAGE = (Path(__file__).parents[2] / "docs/http-api.md").read_text()
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


def keyed(client: Client) -> Calling:
    access = BearerAccess(keys=[each.known for each in KEYS.values()])
    return Calling(create_app(client, access=access))


@pytest.fixture(scope="module")
def http() -> Iterator[Calling]:
    with keyed(Client(MemoryStore())) as http:
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
        assert http.get("/openapi.json", headers=KEYS[who].header).status_code == status


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
    with keyed(client) as http:
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


EVERY = {"every": 60}


def definition(**fields: Any) -> TaskDefinition:
    return TaskDefinition(trigger=IntervalTrigger(seconds(60)), **fields)


def test_a_caller_reads_and_changes_their_queue_alone(
    client: Client, calling: Calls
) -> None:
    http = calling(access=As(queues={"mine"}))
    mine = client.schedule(definition(queue="mine"))
    theirs = client.schedule(definition(queue="theirs"))
    instance = client.run_now(mine.id)
    foreign = client.run_now(theirs.id)
    for path, own in (("definitions", mine), ("instances", instance)):
        listed = http.get(f"/v1/{path}").json()["items"]
        assert [each["id"] for each in listed] == [str(own.id)]
    for id, status in (
        (mine.id, 200),
        (instance.id, 200),
        (theirs.id, 404),
        (foreign.id, 404),
    ):
        why = http.get("/v1/why", params={"definition_id": str(id)})
        assert why.status_code == status
    path = f"/v1/definitions/{mine.id}"
    assert http.post(f"{path}/pause").status_code == 200
    assert http.post(f"/v1/instances/{instance.id}/cancel").status_code == 200
    assert http.post(f"/v1/instances/{instance.id}/retry").status_code == 409
    # Restricted callers do not move it to a queue that they may not see.
    for answer in (
        http.patch(path, json={"queue": "theirs"}),
        http.get("/v1/definitions", params={"queue": "theirs"}),
        http.post("/v1/definitions", json={"trigger": EVERY, "queue": "theirs"}),
    ):
        assert is_problem(answer, 403, "queue")


def test_lists_and_counts_tell_nothing_of_others(
    client: Client, calling: Calls
) -> None:
    put = []
    for queue, owner in (("mine", "shop"), ("theirs", "bank")):
        named = [definition(id=uuid4(), queue=queue) for _ in range(3)]
        put.append({str(each.id) for each in client.declare(named, owner=owner)})
        for each in named:
            client.run_now(each.id)
    for only in ({"queues": {"mine"}}, {"owners": {"shop"}}):
        http = calling(access=As(**only))
        for path, of in (("definitions", "id"), ("instances", "definition_id")):
            found: list[str] = []
            after: dict[str, str] = {}
            for size in (2, 1):
                page = http.get(f"/v1/{path}", params={"limit": 2, **after}).json()
                assert len(page["items"]) == size
                found += [each[of] for each in page["items"]]
                after = {"after": page["next"]}
            assert (page["next"], {*found}) == (None, put[0])
        stats = http.get("/v1/stats").json()
        assert stats["instances"]["pending"] == 3
        assert stats["nodes"] is stats["workers"] is None
        assert is_problem(http.get("/v1/nodes"), 403, "restricted")


def test_metrics_tell_nothing_of_others(calling: Calls) -> None:
    metrics = Gathering()
    with Scheduler(None, MemoryStore(), listeners=[metrics]) as scheduler:
        for queue in ("mine", "theirs"):
            scheduler.run_now(scheduler.schedule(definition(queue=queue)).id)
        pending = 'go_scheduler_instances{state="pending"}'
        backlog = "go_scheduler_backlog{queue="
        nodes = ["go_scheduler_healthy 1.0", "go_scheduler_nodes 1.0"]
        for fields, expected, hidden in (
            ({}, [f"{pending} 2.0", f'{backlog}"theirs"}} 1.0', *nodes], "\0"),
            ({"queues": {"mine"}}, [f"{pending} 1.0", f'{backlog}"mine"}} 1.0'], "\0"),
            ({"owners": {"shop"}}, [f"{pending} 0.0"], backlog),
        ):
            access = As(**fields)
            text = calling(scheduler, access=access, metrics=metrics).get("/metrics")
            for each in expected:
                assert each in text.text
            assert hidden not in text.text
            if fields:
                for secret in ("theirs", "go_scheduler_healthy", "go_scheduler_nodes"):
                    assert secret not in text.text


def test_only_admins_see_where_nodes_run(calling: Calls) -> None:
    begun, ended = Event(), Event()

    def handler(instance: TaskInstance) -> None:
        begun.set()
        assert ended.wait(FAILED_AFTER)

    with Scheduler(handler, MemoryStore()) as scheduler:
        run = scheduler.run_now(scheduler.schedule(definition()).id)
        assert begun.wait(FAILED_AFTER)
        [node] = scheduler.nodes()
        for scopes in (SCOPES, {"runs:read"}):
            http = calling(scheduler, access=As(scopes=scopes))
            for path in (
                f"/v1/why?definition_id={run.id}",
                f"/v1/definitions/{run.definition.id}/why",
            ):
                why = http.get(path).json()
                assert why["because"] == "running"
                is_admin = "admin" in scopes
                assert (f"host {node.host}, pid {node.pid}" in str(why)) is is_admin
                assert (why["node"] is not None) is is_admin
        ended.set()


def test_somebody_elses_lock_has_no_holder(
    client: Client, memory: MemoryStore, calling: Calls
) -> None:
    http = calling(access=As(queues={"mine"}))
    mine = client.schedule(definition(queue="mine", lock="shared"))
    theirs = client.schedule(definition(queue="theirs", lock="shared", name="secret"))
    ids = []
    for each in (theirs, mine):
        ids.append(client.run_now(each.id).id)
        start(memory, *claim(memory, queues=[each.queue]))
    assert client.why(mine.id).because == "parked"
    for path in (
        f"/v1/why?definition_id={ids[1]}",
        f"/v1/definitions/{mine.id}/why",
    ):
        why = http.get(path).json()
        assert (why["because"], why["holder"]) == ("parked", None)
        assert not any(each in str(why) for each in ("secret", str(ids[0])))


def test_what_a_caller_with_owners_creates_is_their_owners(
    client: Client, calling: Calls
) -> None:
    http = calling(access=As(owners={"shop"}))
    body: dict[str, object] = {"trigger": EVERY}
    for method, path in (
        ("POST", "/v1/definitions"),
        ("PUT", f"/v1/definitions/{uuid4()}"),
    ):
        made = http.request(method, path, json=body)
        assert (made.status_code, made.json()["owner"]) == (201, "shop")
    assert len(client.list_definitions(owner="shop")) == 2
    other = http.post("/v1/definitions", json=body | {"owner": "bank"})
    assert is_problem(other, 403, "owner")
    nobodys = client.schedule(definition())
    taken = http.post("/v1/definitions", json=body | {"id": str(nobodys.id)})
    assert taken.status_code == 404
    http = calling(access=As(owners={"shop", "bank"}))
    assert field_of(http.post("/v1/definitions", json=body)) == "owner"
    named = http.post("/v1/definitions", json=body | {"owner": "bank"})
    assert named.json()["owner"] == "bank"


def test_of_a_definition_that_is_seen_jobs_in_other_queues_are_hidden(
    client: Client, calling: Calls
) -> None:
    of = client.schedule(
        TaskDefinition(
            trigger=OnDemandTrigger(),
            id=TaskDefinition.id_for("task send"),
            name="send",
            queue="mine",
        )
    )
    job = Job(key="7", payload={"secret": 7}, overrides={"queue": "theirs"})
    [hidden] = client.enqueue_all("send", [job])
    http = calling(access=As(queues={"mine"}))
    path = f"/v1/definitions/{of.id}"
    again = http.post(f"{path}/run", json={"key": "7"})
    assert is_problem(again, 409, "key")
    why = http.get(f"{path}/why")
    assert why.json()["instance"] is None
    assert http.get(f"/v1/instances/{hidden.id}").status_code == 404
    assert http.get("/v1/instances").json()["items"] == []
    for answer in (again, why):
        assert "secret" not in answer.text
        assert "theirs" not in answer.text
    http = calling(access=As(queues={"theirs"}))
    assert http.get(path).status_code == 404
    [seen] = http.get("/v1/instances").json()["items"]
    assert (seen["id"], seen["queue"]) == (str(hidden.id), "theirs")
