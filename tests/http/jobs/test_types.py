"""Types of jobs: declared for workers elsewhere, or run by the server itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import HandlerRegistry, MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.cli.showing import runs_where
from go_scheduler.client import Client
from go_scheduler.dispatch import Dispatcher, open_bus
from go_scheduler.handlers.job_types import MARK, JobTypes
from go_scheduler.http import create_app
from go_scheduler.http.bodies.jobs import TypeAnswer
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import SECOND
from tests.http.jobs.asking import As, field_of
from tests.http.serving import called

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx


SEND = TaskDefinition.id_for("task send")
ON_DEMAND = TaskDefinition(trigger=OnDemandTrigger())
OWNER = "urn:go_scheduler:owner"
SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def client() -> Client:
    return Client(MemoryStore())


def ask(
    client: Client,
    asking: Callable[[httpx.AsyncClient], Awaitable[None]],
    **options: Any,
) -> None:
    async def run() -> None:
        async with called(create_app(client, **options)) as http:
            await asking(http)

    asyncio.run(run())


def job_types() -> JobTypes:
    types = JobTypes()

    @types.task("resize", queue="pictures")
    def resize(picture: str) -> None:
        """Make it smaller."""

    return types


def test_a_type_is_declared_changed_read_and_deleted(client: Client) -> None:
    body = {
        "queue": "mail",
        "priority": 2,
        "retry": {"max_attempts": 3, "delay": 5},
        "timeout": 10,
        "start_timeout": 20,
        "heartbeat_timeout": 30,
        "expire_after": 60,
        "overlap": "skip",
        "lock": "smtp",
        "max_queue": 2,
        "when_full": "drop",
        "description": "Sends.",
        "schema": SCHEMA,
    }

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.put("/v1/types/send", json=body)
        assert answer.status_code == 201, answer.text
        found = answer.json()
        assert {name: found[name] for name in body if name != "retry"} == {
            name: body[name] for name in body if name != "retry"
        }
        assert found["retry"]["max_attempts"] == 3
        assert (found["type"], found["runs_here"]) == ("send", False)
        assert (await http.get("/v1/types/send")).json() == found
        assert (await http.get("/v1/types")).json() == {"items": [found], "next": None}
        stored = client.get_definition(SEND)
        assert (stored.name, stored.queue, stored.lock) == ("send", "mail", "smtp")
        assert stored.start_timeout == 20 * SECOND
        assert stored.heartbeat_timeout == 30 * SECOND
        assert (stored.max_queue, stored.when_full) == (2, "drop")
        assert stored.trigger == OnDemandTrigger()
        answer = await http.put("/v1/types/send", json={"queue": "post"})
        assert (answer.status_code, answer.json()["queue"]) == (200, "post")
        assert answer.json()["schema"] is None
        assert (await http.delete("/v1/types/send")).status_code == 204
        for method in ("GET", "DELETE"):
            answer = await http.request(method, "/v1/types/send")
            assert answer.status_code == 404
            assert answer.json()["type"] == "urn:go_scheduler:no-type"
            assert "PUT /v1/types/send" in answer.json()["detail"]

    ask(client, asking)
    assert client.list_definitions() == []


def test_a_name_may_have_any_letters(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for name, path in (("a/b", "a%2Fb"), ("größe 7", "gr%C3%B6%C3%9Fe%207")):
            answer = await http.put(f"/v1/types/{path}", json={})
            assert (answer.status_code, answer.json()["type"]) == (201, name)
        for path in ("%00", "x" * 201):
            for method in ("PUT", "GET", "DELETE"):
                answer = await http.request(method, f"/v1/types/{path}", json={})
                assert field_of(answer) == "type"

    ask(client, asking)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schema": {"type": "nonsense"}}, "schema.type"),
        ({"schema": {"$ref": "https://example.org/schema"}}, "schema"),
        ({"schema": {"properties": {"a": {"pattern": "^(a+)+$"}}}}, "schema"),
        ({"schema": {"patternProperties": {"^(a+)+$": False}}}, "schema"),
        ({"schema": {"description": "x" * 70_000}}, "schema"),
        ({"schema": []}, "schema"),
        ({"queue": ""}, "queue"),
        ({"priority": 9}, "priority"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"overlap": "maybe"}, "overlap"),
        ({"max_queue": 0}, "max_queue"),
        ({"when_full": "wait"}, "when_full"),
        ({"schemas": {}}, "schemas"),
        ({"description": 7}, "description"),
    ],
)
def test_a_type_that_cannot_be_is_refused_by_its_field(
    client: Client, body: dict[str, object], field: str
) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        assert field_of(await http.put("/v1/types/send", json=body)) == field

    ask(client, asking)
    assert client.list_definitions() == []


def test_a_type_whose_runs_go_over_a_bus_is_listed_as_such(client: Client) -> None:
    types = job_types()

    async def asking(http: httpx.AsyncClient) -> None:
        items = (await http.get("/v1/types")).json()["items"]
        assert [(each["type"], each["over_bus"]) for each in items] == [
            ("cut", True),
            ("resize", False),
        ]
        answers = [TypeAnswer.model_validate(each) for each in items]
        assert [*map(runs_where, answers)] == ["by workers on a bus", "by the server"]

    with open_bus("memory://") as bus:
        types.job_type("cut", schema={})(Dispatcher(bus))
        ask(client, asking, types=types)


def test_what_the_server_runs_is_listed_and_not_changed(client: Client) -> None:
    types = job_types()

    async def asking(http: httpx.AsyncClient) -> None:
        [found] = (await http.get("/v1/types")).json()["items"]
        assert (found["type"], found["queue"]) == ("resize", "pictures")
        assert (found["runs_here"], found["revision"]) == (True, None)
        assert found["description"] == "Make it smaller."
        assert found["schema"]["properties"] == {"picture": {"type": "string"}}
        client.schedule(types.tasks["resize"].definition)
        assert (await http.get("/v1/types/resize")).json() == found
        for method in ("PUT", "DELETE"):
            answer = await http.request(method, "/v1/types/resize", json={})
            assert answer.status_code == 409
            assert "the server runs it itself" in answer.json()["detail"]

    ask(client, asking, types=types)


def test_the_tasks_of_any_registry_are_types(client: Client) -> None:
    handlers = HandlerRegistry()

    @handlers.task("send")
    def send(order: int) -> None:
        raise AssertionError

    async def asking(http: httpx.AsyncClient) -> None:
        [found] = (await http.get("/v1/types")).json()["items"]
        assert (found["type"], found["description"]) == ("send", "")
        assert "order" in found["schema"]["properties"]

    ask(client, asking, types=handlers)


def test_what_others_have_declared_is_left(client: Client) -> None:
    task = TaskDefinition(id=SEND, name="send", trigger=OnDemandTrigger())
    client.schedule(task)

    async def asking(http: httpx.AsyncClient) -> None:
        assert (await http.get("/v1/types/send")).json()["type"] == "send"
        assert (await http.get("/v1/types")).json()["items"] == []
        for method in ("PUT", "DELETE"):
            answer = await http.request(method, "/v1/types/send", json={})
            assert answer.status_code == 409
            assert "a task of a program" in answer.json()["detail"]

    ask(client, asking)
    assert client.get_definition(SEND) == task


def test_lists_go_on_and_show_no_copies(client: Client) -> None:
    async def asking(http: httpx.AsyncClient) -> None:
        for number in range(5):
            await http.put(f"/v1/types/{number}", json={})
        said = client.list_definitions()[0].metadata
        client.schedule(TaskDefinition(trigger=OnDemandTrigger(), metadata=said))
        client.schedule(
            TaskDefinition(trigger=OnDemandTrigger(), metadata=said, name="copy")
        )
        seen: list[str] = []
        asked: dict[str, Any] = {"limit": 2}
        while True:
            page = (await http.get("/v1/types", params=asked)).json()
            seen += [each["type"] for each in page["items"]]
            if page["next"] is None:
                break
            asked["after"] = page["next"]
        assert sorted(seen) == ["0", "1", "2", "3", "4", "resize"]

    ask(client, asking, types=job_types())


def test_callers_keep_to_their_queues_and_owners(client: Client) -> None:
    access = As(queues={"a"}, owners={"shop"})

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.put("/v1/types/send", json={"queue": "b"})
        assert answer.status_code == 403
        answer = await http.put("/v1/types/send", json={"queue": "a"})
        assert (answer.status_code, answer.json()["owner"]) == (201, "shop")
        assert len((await http.get("/v1/types")).json()["items"]) == 1
        answer = await http.put("/v1/types/other", json={"queue": "a", "owner": "bank"})
        assert answer.status_code == 403
        access.caller = replace(access.caller, owners=frozenset({"bank", "inn"}))
        assert field_of(await http.put("/v1/types/x", json={"queue": "a"})) == "owner"
        assert (await http.get("/v1/types")).json()["items"] == []
        assert (await http.get("/v1/types/send")).status_code == 404
        for method in ("PUT", "DELETE"):
            body = {"queue": "a", "owner": "inn"}
            answer = await http.request(method, "/v1/types/send", json=body)
            assert answer.status_code == 409, answer.text
        access.caller = replace(access.caller, owners=frozenset({"inn"}))
        client.declare([], owner="inn", version=7)
        answer = await http.put("/v1/types/new", json={"queue": "a"})
        assert answer.status_code == 409
        assert "declared with versions" in answer.json()["detail"]
        access.caller = replace(access.caller, scopes=frozenset({"jobs:read"}))
        assert (await http.put("/v1/types/send", json={})).status_code == 403

    ask(client, asking, access=access)


def test_who_is_restricted_declares_types_of_their_owner_alone(client: Client) -> None:
    access = As(queues={"a"})

    async def asking(http: httpx.AsyncClient) -> None:
        definition = {"trigger": {"on_demand": True}, "queue": "a", "name": "send"}
        for path, body in (
            ("types/send", {"queue": "a", "owner": "shop"}),
            (f"definitions/{SEND}", definition),
        ):
            refused = await http.put(f"/v1/{path}", json=body)
            assert (refused.status_code, refused.json()["type"]) == (403, OWNER)
        # By another name it takes no type's place.
        put = await http.put(f"/v1/definitions/{SEND}", json=definition | {"name": "x"})
        assert put.status_code == 201
        renamed = await http.patch(f"/v1/definitions/{SEND}", json={"name": "send"})
        assert renamed.status_code == 403
        answer = await http.post("/v1/jobs", json={"type": "send"})
        assert answer.status_code == 404
        access.caller = replace(access.caller, owners=frozenset({"shop"}))
        new = f"/v1/definitions/{TaskDefinition.id_for('task new')}"
        put = await http.put(new, json=definition | {"name": "new"})
        assert (put.status_code, put.json()["owner"]) == (201, "shop")

    ask(client, asking, access=access)


class Meanwhile(Client):
    """Before it declares something, somebody else does something."""

    act: Callable[[Client], object]

    async def adeclare(self, *args: Any, **kwargs: Any) -> list[TaskDefinition]:
        self.act(Client(self._store))
        return await super().adeclare(*args, **kwargs)


@pytest.mark.parametrize("path", ["types/send", f"definitions/{SEND}"])
def test_nobody_takes_what_somebody_else_has_taken_meanwhile(path: str) -> None:
    client = Meanwhile(MemoryStore())
    theirs = replace(ON_DEMAND, id=SEND, name="send", named=True, queue="b")
    client.act = lambda other: other.declare([theirs], owner="bank")
    access = As(owners={"shop"})

    async def asking(http: httpx.AsyncClient) -> None:
        body: dict[str, object] = {"queue": "a"}
        put = body | {"trigger": {"on_demand": True}, "owner": "shop"}
        if "types" not in path:
            body = put
        answer = await http.put(f"/v1/{path}", json=body)
        assert answer.status_code == (409 if "types" in path else 404)
        assert "bank" not in answer.text
        # What is wrong otherwise is told as ever.
        client.act = lambda other: None
        access.caller = replace(access.caller, owners=frozenset({"", "shop"}))
        answer = await http.put(f"/v1/{path[:-1]}0", json=body | {"owner": ""})
        assert answer.status_code == 422
        access.caller = replace(access.caller, owners=None)
        client.act = lambda other: other.schedule(replace(ON_DEMAND, id=UUID(int=7)))
        answer = await http.put(f"/v1/definitions/{UUID(int=7)}", json=put)
        assert "in no declared set" in answer.json()["detail"]

    ask(client, asking, access=access)
    assert client.get_definition(SEND).owner == "bank"


def test_a_type_is_read_once_for_many_jobs_and_anew_after_a_while() -> None:
    clock = ManualClock()
    read: list[object] = []

    class Counting(Client):
        def list_definitions(self, **asked: Any) -> Any:
            read.append(asked)
            return super().list_definitions(**asked)

        async def alist_definitions(self, **asked: Any) -> Any:
            return self.list_definitions(**asked)

    client = Counting(MemoryStore(clock))

    async def asking(http: httpx.AsyncClient) -> None:
        await http.put("/v1/types/send", json={})
        read.clear()
        for _ in range(10):
            answer = await http.post("/v1/jobs", json={"type": "send"})
            assert answer.status_code == 201
        assert len(read) == 1
        said: Any = {MARK: {"schema": SCHEMA}}
        client.schedule(replace(client.get_definition(SEND), metadata=said))
        clock.advance(11 * SECOND)
        assert field_of(await http.post("/v1/jobs", json={"type": "send"})) == "payload"
        client.delete_definition(SEND)
        answer = await http.post("/v1/jobs", json={"type": "send", "payload": {"n": 1}})
        assert answer.status_code == 404
        answer = await http.post("/v1/jobs", json={"type": "send", "payload": {"n": 1}})
        assert answer.status_code == 404
        for number in range(1001):
            name = f"task {number}"
            client.schedule(
                TaskDefinition(
                    trigger=OnDemandTrigger(),
                    id=TaskDefinition.id_for(f"task {name}"),
                    name=name,
                )
            )
            assert (await http.post("/v1/jobs", json={"type": name})).status_code == 201
        read.clear()
        await http.post("/v1/jobs", json={"type": "task 1000"})
        assert read == []
        await http.post("/v1/jobs", json={"type": "task 0"})
        assert len(read) == 1

    ask(client, asking, clock=clock)


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"properties": {"a": {"pattern": "^(a+)+$"}}}]
)
def test_of_a_type_whose_schema_somebody_has_spoilt_jobs_are_refused(
    client: Client, schema: dict[str, Any]
) -> None:
    said: Any = {MARK: {"schema": schema}}
    client.schedule(
        TaskDefinition(id=SEND, name="send", trigger=OnDemandTrigger(), metadata=said)
    )

    async def asking(http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/jobs", json={"type": "send"})
        assert answer.status_code == 422
        assert "schema" in answer.json()["detail"]

    ask(client, asking)
