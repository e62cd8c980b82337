"""Callers who may know of some queues or owners find and change nothing else."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import IntervalTrigger, MemoryStore, Scheduler, TaskDefinition
from go_scheduler.http import create_app
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.telemetry.figures import Gathering
from go_scheduler.testing.builders import claim, start
from tests.conftest import seconds
from tests.http.serving import Calling
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import Request

    from go_scheduler import Store, TaskInstance
    from go_scheduler.client import Client

EVERY = {"every": 60}


class Only:
    """Takes everybody for the same caller."""

    origins = ()

    def __init__(self, **fields: Any) -> None:
        fields = {"scopes": frozenset(SCOPES), **fields}
        self._caller = Caller(subject="somebody", **fields)

    async def authenticate(self, request: Request) -> Caller:
        return self._caller


def scheduled(client: Client, **fields: Any) -> TaskDefinition:
    trigger = IntervalTrigger(seconds(60))
    return client.schedule(TaskDefinition(trigger=trigger, **fields))


@pytest.fixture
def of_queue(client: Client) -> Iterator[Calling]:
    with Calling(create_app(client, access=Only(queues={"mine"}))) as http:
        yield http


@pytest.fixture
def of_owner(client: Client) -> Iterator[Calling]:
    with Calling(create_app(client, access=Only(owners={"shop"}))) as http:
        yield http


CALLS = [
    ("GET", "", None),
    ("PUT", "", {"trigger": EVERY, "queue": "mine"}),
    ("PATCH", "", {"name": "x"}),
    ("DELETE", "", None),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("POST", "/run", None),
    (
        "POST",
        "/backfill",
        {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"},
    ),
    ("GET", "/preview", None),
    ("GET", "/why", None),
]


@pytest.mark.parametrize(("method", "tail", "body"), CALLS)
def test_what_is_anothers_is_not_there(
    of_queue: Calling, client: Client, method: str, tail: str, body: object
) -> None:
    theirs = scheduled(client, queue="theirs")
    answer = of_queue.request(method, f"/v1/definitions/{theirs.id}{tail}", json=body)
    assert answer.status_code == 404
    assert client.get_definition(theirs.id) == theirs


@pytest.mark.parametrize(
    ("method", "tail"),
    [("GET", ""), ("GET", "/runs"), ("POST", "/cancel"), ("POST", "/retry")],
)
def test_nor_is_what_is_of_it(
    of_queue: Calling, client: Client, method: str, tail: str
) -> None:
    theirs = client.run_now(scheduled(client, queue="theirs").id)
    assert (
        of_queue.request(method, f"/v1/instances/{theirs.id}{tail}").status_code == 404
    )
    why = of_queue.get("/v1/why", params={"definition_id": str(theirs.id)})
    assert why.status_code == 404


def test_what_is_theirs_is_read_and_changed(of_queue: Calling, client: Client) -> None:
    mine, theirs = scheduled(client, queue="mine"), scheduled(client, queue="theirs")
    instance = client.run_now(mine.id)
    client.run_now(theirs.id)
    listed = of_queue.get("/v1/definitions").json()["items"]
    assert [each["id"] for each in listed] == [str(mine.id)]
    listed = of_queue.get("/v1/instances").json()["items"]
    assert [each["id"] for each in listed] == [str(instance.id)]
    for id in (mine.id, instance.id):
        why = of_queue.get("/v1/why", params={"definition_id": str(id)})
        assert why.status_code == 200
    path = f"/v1/definitions/{mine.id}"
    assert of_queue.post(f"{path}/pause").status_code == 200
    cancel = of_queue.post(f"/v1/instances/{instance.id}/cancel")
    assert cancel.status_code == 200
    assert of_queue.post(f"/v1/instances/{instance.id}/retry").status_code == 409
    # Nor may it go where they do not see it.
    assert of_queue.patch(path, json={"queue": "theirs"}).status_code == 403
    asked = of_queue.get("/v1/definitions", params={"queue": "theirs"})
    assert asked.status_code == 403
    body = {"trigger": EVERY, "queue": "theirs"}
    assert of_queue.post("/v1/definitions", json=body).status_code == 403


def test_lists_and_counts_tell_nothing_of_what_is_anothers(client: Client) -> None:
    put = []
    for queue, owner in (("mine", "shop"), ("theirs", "bank")):
        named = [
            TaskDefinition(
                trigger=IntervalTrigger(seconds(60)), id=uuid4(), queue=queue
            )
            for _ in range(3)
        ]
        put.append({str(each.id) for each in client.declare(named, owner=owner)})
        for each in named:
            client.run_now(each.id)
    for only in ({"queues": {"mine"}}, {"owners": {"shop"}}):
        with Calling(create_app(client, access=Only(**only))) as http:
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
            assert (stats["instances"]["pending"], stats["workers"]) == (3, None)
            assert stats["nodes"] is None
            refused = http.get("/v1/nodes")
            assert (refused.status_code, refused.json()["type"][-10:]) == (
                403,
                "restricted",
            )


def test_figures_are_of_what_a_caller_may_know() -> None:
    metrics = Gathering()
    with Scheduler(None, MemoryStore(), listeners=[metrics]) as scheduler:
        for queue in ("mine", "theirs"):
            scheduler.run_now(scheduled(scheduler, queue=queue).id)

        def shown(**fields: Any) -> str:
            app = create_app(scheduler, access=Only(**fields), metrics=metrics)
            with Calling(app) as http:
                return http.get("/metrics").text

        everything = shown()
        assert 'go_scheduler_instances{state="pending"} 2.0' in everything
        assert 'go_scheduler_backlog{queue="theirs"} 1.0' in everything
        assert "go_scheduler_healthy 1.0" in everything
        assert "go_scheduler_nodes 1.0" in everything
        of_queue = shown(queues={"mine"})
        assert 'go_scheduler_instances{state="pending"} 1.0' in of_queue
        assert 'go_scheduler_backlog{queue="mine"} 1.0' in of_queue
        of_owner = shown(owners={"shop"})
        assert 'go_scheduler_instances{state="pending"} 0.0' in of_owner
        for text in (of_queue, of_owner):
            assert "theirs" not in text
            assert "go_scheduler_healthy" not in text
            assert "go_scheduler_nodes" not in text
        assert "go_scheduler_backlog{" not in of_owner


def test_where_nodes_run_is_for_admins_alone() -> None:
    begun, ended = Event(), Event()

    def handler(instance: TaskInstance) -> None:
        begun.set()
        assert ended.wait(FAILED_AFTER)

    with Scheduler(handler, MemoryStore()) as scheduler:
        run = scheduler.run_now(scheduled(scheduler).id)
        assert begun.wait(FAILED_AFTER)
        [node] = scheduler.nodes()
        for scopes in (frozenset(SCOPES), frozenset({"runs:read"})):
            knows = "admin" in scopes
            access = Only(scopes=scopes)
            with Calling(create_app(scheduler, access=access)) as http:
                for path in (
                    f"/v1/why?definition_id={run.id}",
                    f"/v1/definitions/{run.definition.id}/why",
                ):
                    why = http.get(path).json()
                    assert why["because"] == "running"
                    assert (f"host {node.host}, pid {node.pid}" in str(why)) is knows
                    assert (why["node"] is not None) is knows
        ended.set()


def test_who_has_a_lock_is_not_said_if_it_is_anothers(
    of_queue: Calling, client: Client, store: Store
) -> None:
    mine = scheduled(client, queue="mine", lock="shared")
    theirs = scheduled(client, queue="theirs", lock="shared", name="secret")
    ids = []
    for definition in (theirs, mine):
        ids.append(client.run_now(definition.id).id)
        start(store, *claim(store, queues=[definition.queue]))
    assert client.why(mine.id).because == "parked"
    for path in (
        f"/v1/why?definition_id={ids[1]}",
        f"/v1/definitions/{mine.id}/why",
    ):
        why = of_queue.get(path).json()
        assert (why["because"], why["holder"]) == ("parked", None)
        assert not any(each in str(why) for each in ("secret", str(ids[0])))


def test_what_one_of_an_owner_creates_is_the_owners(
    of_owner: Calling, client: Client
) -> None:
    body = of_owner.post("/v1/definitions", json={"trigger": EVERY}).json()
    assert body["owner"] == "shop"
    put = of_owner.put(f"/v1/definitions/{uuid4()}", json={"trigger": EVERY})
    assert (put.status_code, put.json()["owner"]) == (201, "shop")
    assert len(client.list_definitions(owner="shop")) == 2
    other = {"trigger": EVERY, "owner": "bank"}
    assert of_owner.post("/v1/definitions", json=other).status_code == 403
    nobodys = scheduled(client)
    body = {"trigger": EVERY, "id": str(nobodys.id)}
    assert of_owner.post("/v1/definitions", json=body).status_code == 404


def test_one_of_several_owners_says_which(client: Client) -> None:
    with Calling(create_app(client, access=Only(owners={"shop", "bank"}))) as http:
        answer = http.post("/v1/definitions", json={"trigger": EVERY})
        assert answer.json()["errors"][0]["field"] == "owner"
        body = {"trigger": EVERY, "owner": "bank"}
        assert http.post("/v1/definitions", json=body).json()["owner"] == "bank"


def test_each_route_needs_its_scope(client: Client) -> None:
    definition = scheduled(client)
    instance = client.run_now(definition.id)
    routes = {
        "jobs:read": [
            ("GET", "/v1/definitions"),
            ("GET", f"/v1/definitions/{definition.id}"),
            ("GET", f"/v1/definitions/{definition.id}/preview"),
            ("GET", "/v1/types"),
            ("GET", "/v1/types/mail"),
            ("GET", "/openapi.json"),
            ("POST", "/v1/preview"),
        ],
        "jobs:write": [
            ("POST", "/v1/definitions"),
            ("PUT", f"/v1/definitions/{definition.id}"),
            ("PATCH", f"/v1/definitions/{definition.id}"),
            ("DELETE", f"/v1/definitions/{definition.id}"),
            ("PUT", "/v1/types/mail"),
            ("DELETE", "/v1/types/mail"),
            ("POST", "/v1/jobs"),
        ],
        "jobs:pause": [
            ("POST", f"/v1/definitions/{definition.id}/pause"),
            ("POST", f"/v1/definitions/{definition.id}/resume"),
        ],
        "runs:read": [
            ("GET", f"/v1/definitions/{definition.id}/why"),
            ("GET", "/v1/instances"),
            ("GET", f"/v1/instances/{instance.id}"),
            ("GET", f"/v1/instances/{instance.id}/runs"),
            ("GET", f"/v1/why?definition_id={instance.id}"),
            ("GET", "/v1/stats"),
        ],
        "runs:write": [
            ("POST", f"/v1/definitions/{definition.id}/run"),
            ("POST", f"/v1/definitions/{definition.id}/backfill"),
            ("POST", f"/v1/instances/{instance.id}/cancel"),
            ("POST", f"/v1/instances/{instance.id}/retry"),
        ],
        "admin": [("GET", "/v1/nodes"), ("GET", "/metrics")],
    }
    for scope in SCOPES:
        others = frozenset(SCOPES) - {scope}
        with Calling(create_app(client, access=Only(scopes=others))) as http:
            for method, path in routes.get(scope, ()):
                answer = http.request(method, path, json={})
                assert answer.status_code == 403, (scope, method, path)
                assert scope in answer.json()["detail"]
    assert client.get_definition(definition.id) == definition
