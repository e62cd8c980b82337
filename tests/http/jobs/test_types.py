"""Types of jobs: declared for workers elsewhere, or run by the server itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import HandlerRegistry, MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.cli.output import runs_where
from go_scheduler.client import Client
from go_scheduler.dispatch import Dispatcher, open_bus
from go_scheduler.handlers.job_types import MARK, JobTypes
from go_scheduler.http.jobs import TypeAnswer
from go_scheduler.testing.builders import SECOND
from tests.case_tables import json_table
from tests.http.jobs.conftest import ON_DEMAND, SEND, task
from tests.http.serving import As, Calling, field_of, is_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from go_scheduler.testing import ManualClock

    Calls = Callable[..., Calling]

PATH = "/v1/types"
JOBS = "/v1/jobs"
SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def client(memory: MemoryStore) -> Client:
    return Client(memory)


def listed(http: Calling, **query: object) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = http.get(PATH, params=query).json()["items"]
    return items


def test_a_type_is_declared_changed_and_deleted(http: Calling, client: Client) -> None:
    """The commands ``types`` have all of its settings, also by a server."""
    limits = {"start_timeout": 20, "heartbeat_timeout": 30}
    path = f"{PATH}/send"
    answer = http.put(path, json=limits | {"queue": "mail", "schema": SCHEMA})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert found.items() >= {**limits, "runs_here": False}.items()
    assert http.get(PATH).json() == {"items": [found], "next": None}
    stored = client.get_definition(SEND.id)
    assert (stored.name, stored.trigger) == ("send", OnDemandTrigger())
    assert (stored.start_timeout, stored.heartbeat_timeout) == (
        20 * SECOND,
        30 * SECOND,
    )
    answer = http.put(path, json={"queue": "post"})
    assert (answer.status_code, answer.json()["queue"]) == (200, "post")
    assert answer.json()["schema"] is None
    assert http.delete(path).status_code == 204
    for method in ("GET", "DELETE"):
        answer = http.request(method, path)
        assert is_problem(answer, 404, "no-type")
        assert "PUT /v1/types/send" in answer.json()["detail"]
    assert client.list_definitions() == []


def test_a_name_may_have_any_letters(http: Calling) -> None:
    for name, path in (("a/b", "a%2Fb"), ("größe 7", "gr%C3%B6%C3%9Fe%207")):
        answer = http.put(f"{PATH}/{path}", json={})
        assert (answer.status_code, answer.json()["type"]) == (201, name)
    for path in ("%00", "x" * 201):
        for method in ("PUT", "GET", "DELETE"):
            answer = http.request(method, f"{PATH}/{path}", json={})
            assert field_of(answer) == "type"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *json_table("http/jobs/types_refused"),
        ({"schema": {"description": "x" * 70_000}}, "schema"),
    ],
)
def test_a_wrong_type_is_refused_by_its_field(
    refusing: Calling, body: dict[str, object], field: str
) -> None:
    assert field_of(refusing.put(f"{PATH}/send", json=body)) == field


def test_the_types_of_the_server_are_listed_and_not_changed(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    http = calling(types=types)
    [found] = listed(http)
    assert (found["type"], found["queue"]) == ("resize", "pictures")
    assert (found["runs_here"], found["revision"]) == (True, None)
    assert found["description"] == "Make it smaller."
    assert found["schema"]["properties"] == {"width": {"type": "integer"}}
    client.schedule(types.tasks["resize"].definition)
    assert http.get(f"{PATH}/resize").json() == found
    for method in ("PUT", "DELETE"):
        answer = http.request(method, f"{PATH}/resize", json={})
        assert is_problem(answer, 409, "type")
        assert "the server runs it itself" in answer.json()["detail"]
    with open_bus("memory://") as bus:
        types.job_type("cut", schema={})(Dispatcher(bus))
        items = sorted(listed(calling(types=types)), key=lambda each: each["type"])
    assert [(each["type"], each["over_bus"]) for each in items] == [
        ("cut", True),
        ("resize", False),
    ]
    answers = [TypeAnswer.model_validate(each) for each in items]
    assert [*map(runs_where, answers)] == ["by workers on a bus", "by the server"]


def test_the_tasks_of_any_registry_are_types(calling: Calls) -> None:
    handlers = HandlerRegistry()

    @handlers.task("send")
    def send(order: int) -> None:
        raise AssertionError

    [found] = listed(calling(types=handlers))
    assert (found["type"], found["description"]) == ("send", "")
    assert "order" in found["schema"]["properties"]


def test_a_task_of_a_program_is_not_changed(http: Calling, client: Client) -> None:
    client.schedule(SEND)
    assert http.get(f"{PATH}/send").json()["type"] == "send"
    assert listed(http) == []
    for method in ("PUT", "DELETE"):
        answer = http.request(method, f"{PATH}/send", json={})
        assert is_problem(answer, 409, "type")
        assert "a task of a program" in answer.json()["detail"]
    assert client.get_definition(SEND.id) == SEND


def test_lists_have_pages_and_leave_out_copies(
    client: Client, calling: Calls, types: JobTypes
) -> None:
    http = calling(types=types)
    for number in range(5):
        http.put(f"{PATH}/{number}", json={})
    metadata = client.list_definitions()[0].metadata
    for name in (None, "copy"):
        copy = TaskDefinition(trigger=OnDemandTrigger(), metadata=metadata, name=name)
        client.schedule(copy)
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while query.get("after", "") is not None:
        page = http.get(PATH, params=query).json()
        seen += [each["type"] for each in page["items"]]
        query["after"] = page["next"]
    assert sorted(seen) == ["0", "1", "2", "3", "4", "resize"]


def test_callers_keep_to_their_queues_and_owners(
    client: Client, calling: Calls
) -> None:
    access = As(queues={"a"}, owners={"shop"})
    http = calling(access=access)
    path = f"{PATH}/send"
    assert is_problem(http.put(path, json={"queue": "b"}), 403, "queue")
    answer = http.put(path, json={"queue": "a"})
    assert (answer.status_code, answer.json()["owner"]) == (201, "shop")
    assert len(listed(http)) == 1
    other = http.put(f"{PATH}/other", json={"queue": "a", "owner": "bank"})
    assert is_problem(other, 403, "owner")
    access.become(owners={"bank", "inn"})
    assert field_of(http.put(f"{PATH}/x", json={"queue": "a"})) == "owner"
    assert listed(http) == []
    assert http.get(path).status_code == 404
    for method in ("PUT", "DELETE"):
        answer = http.request(method, path, json={"queue": "a", "owner": "inn"})
        assert is_problem(answer, 409, "type")
    access.become(owners={"inn"})
    client.declare([], owner="inn", version=7)
    answer = http.put(f"{PATH}/new", json={"queue": "a"})
    assert is_problem(answer, 409, "type")
    assert "declared with versions" in answer.json()["detail"]
    access.become(scopes={"jobs:read"})
    assert http.put(path, json={}).status_code == 403


def test_a_restricted_caller_declares_only_types_of_their_owner(
    calling: Calls,
) -> None:
    access = As(queues={"a"})
    http = calling(access=access)
    definition = {"trigger": {"on_demand": True}, "queue": "a", "name": "send"}
    path = f"/v1/definitions/{SEND.id}"
    refused = http.put(f"{PATH}/send", json={"queue": "a", "owner": "shop"})
    assert is_problem(refused, 403, "owner")
    assert is_problem(http.put(path, json=definition), 403, "owner")
    # With another name the definition is no type.
    assert http.put(path, json=definition | {"name": "x"}).status_code == 201
    assert http.patch(path, json={"name": "send"}).status_code == 403
    assert http.post(JOBS, json={"type": "send"}).status_code == 404
    access.become(owners={"shop"})
    new = f"/v1/definitions/{task('new').id}"
    put = http.put(new, json=definition | {"name": "new"})
    assert (put.status_code, put.json()["owner"]) == (201, "shop")


class Meanwhile(Client):
    """Calls a function just before it declares something."""

    act: Callable[[Client], object]

    async def adeclare(self, *args: Any, **kwargs: Any) -> list[TaskDefinition]:
        self.act(Client(self._store))
        return await super().adeclare(*args, **kwargs)


@pytest.mark.parametrize("path", ["types/send", f"definitions/{SEND.id}"])
def test_nobody_takes_a_name_that_somebody_else_has_taken_meanwhile(
    memory: MemoryStore, calling: Calls, path: str
) -> None:
    client = Meanwhile(memory)
    theirs = replace(SEND, named=True, queue="b")
    client.act = lambda other: other.declare([theirs], owner="bank")
    access = As(owners={"shop"})
    http = calling(client, access=access)
    put = {"queue": "a", "trigger": {"on_demand": True}, "owner": "shop"}
    body: dict[str, object] = {"queue": "a"} if "types" in path else {**put}
    answer = http.put(f"/v1/{path}", json=body)
    assert answer.status_code == (409 if "types" in path else 404)
    assert "bank" not in answer.text
    # Other mistakes have their usual answers.
    client.act = lambda other: None
    access.become(owners={"", "shop"})
    answer = http.put(f"/v1/{path[:-1]}0", json=body | {"owner": ""})
    assert answer.status_code == 422
    access.become(owners=None)
    client.act = lambda other: other.schedule(replace(ON_DEMAND, id=UUID(int=7)))
    answer = http.put(f"/v1/definitions/{UUID(int=7)}", json=put)
    assert "in no declared set" in answer.json()["detail"]
    assert client.get_definition(SEND.id).owner == "bank"


def test_a_type_is_read_once_for_many_jobs_and_again_after_a_while(
    memory: MemoryStore,
    clock: ManualClock,
    calling: Calls,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    class Counting(Client):
        async def alist_definitions(self, **query: Any) -> Any:
            read.append(query)
            return self.list_definitions(**query)

    monkeypatch.setattr("go_scheduler.http.jobs._MOST_KNOWN", 3)
    client = Counting(memory)
    http = calling(client, clock=clock)
    others = [task(f"task {number}") for number in range(3)]
    client.schedule_all([SEND, *others])

    def submit(name: str | None, **job: Any) -> httpx.Response:
        read.clear()
        return http.post(JOBS, json={"type": name, **job})

    for reads in (1, 0, 0):
        assert submit("send").status_code == 201
        assert len(read) == reads
    for each in others:
        assert submit(each.name).status_code == 201
    # So many are remembered, and the one that was read first is forgotten.
    for name, reads in ((others[-1].name, 0), ("send", 1)):
        submit(name)
        assert len(read) == reads
    metadata: Any = {MARK: {"schema": SCHEMA}}
    client.schedule(replace(client.get_definition(SEND.id), metadata=metadata))
    clock.advance(11 * SECOND)
    assert field_of(submit("send")) == "payload"
    client.delete_definition(SEND.id)
    for _ in range(2):
        assert submit("send", payload={"n": 1}).status_code == 404


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"properties": {"a": {"pattern": "^(a+)+$"}}}]
)
def test_a_type_whose_schema_somebody_has_spoilt_takes_no_job(
    http: Calling, client: Client, schema: dict[str, Any]
) -> None:
    client.schedule(replace(SEND, metadata={MARK: {"schema": schema}}))
    answer = http.post(JOBS, json={"type": "send"})
    assert is_problem(answer, 422, "invalid")
    assert "schema" in answer.json()["detail"]
