"""Callers who are restricted to queues or owners see and change nothing else.

``access/test_routes.py`` has all routes of what is somebody else's.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from go_scheduler import IntervalTrigger, MemoryStore, Scheduler, TaskDefinition
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.telemetry.figures import Gathering
from go_scheduler.testing.builders import claim, start
from tests.conftest import seconds
from tests.http.serving import As, Calling, field_of, is_problem
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler import TaskInstance
    from go_scheduler.client import Client

    Calls = Callable[..., Calling]

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
