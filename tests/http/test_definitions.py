"""Definitions and instances over HTTP: create, read, change, run and delete them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Outcome,
    RetryPolicy,
    TaskDefinition,
    Trigger,
)
from go_scheduler.client import Client
from go_scheduler.client.store_access import awaitable
from go_scheduler.http import create_app
from go_scheduler.testing.builders import claim, finish, fire, pending, running, start
from go_scheduler.triggers import RecurrenceTrigger, UnknownTrigger
from tests.case_tables import json_table
from tests.conftest import seconds
from tests.http.serving import As, Calling, field_of, is_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from go_scheduler import MemoryStore
    from go_scheduler.testing import ManualClock


PATH = "/v1/definitions"
DAILY = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
FULL: dict[str, Any] = {
    "name": "report",
    "queue": "slow",
    "priority": 2,
    "trigger": DAILY,
    "metadata": {"shop": 7, "parts": [1, {"deep": None}]},
    "expire_after": 60,
    "timeout": 1.5,
    "start_timeout": 2.5,
    "heartbeat_timeout": 3,
    "retry": {
        "max_attempts": None,
        "delay": 10,
        "factor": 2,
        "max_delay": 100,
        "jitter": {"seconds": 3},
        "stop_on": ["builtins.KeyError"],
    },
    "catch_up": {"mode": "all", "grace": 5, "within": 3600, "drop_after": 7200},
    "jitter": 30,
    "overlap": "skip",
    "lock": "printer",
    "max_per_node": 3,
    "max_queue": 4,
    "when_full": "drop",
    "paused": True,
    "note": "not yet",
}


def created(http: Calling, **fields: object) -> dict[str, Any]:
    answer = http.post(PATH, json={"trigger": DAILY, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def path_of(body: dict[str, Any]) -> str:
    return f"{PATH}/{body['id']}"


def test_all_fields_are_kept_and_answered(http: Calling, client: Client) -> None:
    """The command ``add`` by a server compares them with those of the store."""
    answer = http.post(PATH, json=FULL)
    assert answer.status_code == 201
    body = answer.json()
    assert answer.headers["Location"] == path_of(body)
    assert answer.headers["ETag"] == '"1"'
    assert not client.get_definition(UUID(body["id"])).named
    state = {"expression": "0 9 * * *", "timezone": "Europe/Berlin"}
    trigger = {"kind": "cron", "state": state}
    assert body.items() >= {**FULL, "trigger": trigger, "state": "paused"}.items()
    assert body["description"] == "every day at 09:00 (Europe/Berlin)"
    assert '"expire_after":60,' in answer.text
    read = http.get(path_of(body))
    assert read.headers["ETag"] == '"1"'
    assert {**read.json(), "warnings": []} == body
    again = http.put(path_of(body), json=body)
    assert (again.status_code, again.json()) == (200, body)


def test_a_second_create_changes_nothing_and_another_definition_conflicts(
    http: Calling,
) -> None:
    id = str(uuid4())
    for given, named in (({"id": id}, f"{id} was"), ({"key": "kk"}, "key 'kk', was")):
        body = created(http, **given)
        again = http.post(PATH, json={"trigger": DAILY, **given})
        assert (again.status_code, again.json()) == (200, body)
        other = http.post(PATH, json={"trigger": {"every": 60}, **given})
        assert is_problem(other, 409, "revision")
        assert f"{named} to be a new one" in other.json()["detail"]


def test_put_creates_and_replaces(http: Calling) -> None:
    path = f"{PATH}/{uuid4()}"
    made = http.put(path, json={"trigger": DAILY})
    assert (made.status_code, made.headers["Location"]) == (201, path)
    replaced = http.put(path, json={"trigger": DAILY, "name": "other"})
    assert (replaced.status_code, replaced.headers["ETag"]) == (200, '"2"')
    assert replaced.json()["name"] == "other"
    assert field_of(http.put(path, json={"trigger": DAILY, "id": str(uuid4())})) == "id"


def test_every_route_for_a_definition_takes_its_key(
    http: Calling, app: FastAPI
) -> None:
    period = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-03T00:00:00Z"}
    bodies: dict[str, dict[str, Any]] = {
        "backfill": period,
        "put": {"trigger": {"every": 60}, "jitter": 0},
        "patch": {"name": "b"},
    }
    operations = [
        (path, method)
        for path, given in app.openapi()["paths"].items()
        for method in given
        if path.startswith(f"{PATH}/{{id}}")
    ]
    assert len(operations) == 11
    for key in ("nightly", "https://example.org/a/run?é=1%2F2#x", "a/pause", "50%"):
        quoted = quote(key, safe="")
        id = str(TaskDefinition.id_for(key))
        body = created(http, key=key)
        assert (body["id"], body["key"]) == (id, key)
        again = http.post(PATH, json={"trigger": DAILY, "key": key})
        assert (again.status_code, again.json()) == (200, body)
        for path, method in sorted(operations, key=lambda each: each[1] == "delete"):
            sent = bodies.get(path.rpartition("/")[2], bodies.get(method))
            at = path.replace("{id}", quoted)
            answer = http.request(method, at, **({"json": sent} if sent else {}))
            assert answer.is_success, (at, method, answer.text)
            found = answer.json()
            of = found.get("definition_id", found.get("id", id))
            assert of == id, (path, method)
        gone = http.get(f"{PATH}/{quoted}")
        assert is_problem(gone, 404, "no-definition")
        assert repr(key) in gone.json()["detail"]


def test_lists_and_explanations_take_a_key(http: Calling) -> None:
    key = "50%2F/a"
    path = path_of(created(http, key=key))
    made = http.post(f"{path}/run").json()
    assert (made["definition_key"], made["key"]) == (key, None)
    asked = {"definition_id": key}
    assert http.get("/v1/instances", params=asked).json()["items"] == [made]
    assert http.get("/v1/why", params=asked).json()["instance"] == made
    assert http.get("/v1/instances", params={"definition_id": "other"}).json() == {
        "items": [],
        "next": None,
    }
    assert field_of(http.get("/v1/why?definition_id=%00")) == "definition_id"


def test_a_key_with_slashes_is_one_below_a_path_as_well(app: FastAPI) -> None:
    with Calling(Starlette(routes=[Mount("/our jobs", app)])) as http:
        path = f"/our%20jobs{PATH}/a%2Fb"
        assert http.put(path, json={"trigger": DAILY}).json()["key"] == "a/b"
        asked = {"at": "2030-01-01T00:00:00+02:00"}
        assert http.get(f"{path}/why", params=asked).is_success
        assert is_problem(http.get(f"/our%20jobs{PATH}/a/b"), 404, "no-path")


def test_a_put_by_a_key_makes_it_and_no_change_takes_it(http: Calling) -> None:
    path = f"{PATH}/nightly%20report"
    made = http.put(path, json={"trigger": DAILY})
    id = str(TaskDefinition.id_for("nightly report"))
    assert (made.status_code, made.json()["id"]) == (201, id)
    assert made.headers["Location"] == f"{PATH}/{id}"
    for body in ({}, {"key": "nightly report"}, {"id": id}):
        kept = http.put(path, json={"trigger": DAILY, **body}).json()
        assert (kept["key"], kept["revision"]) == ("nightly report", 1)
    other = {"trigger": DAILY, "key": "other"}
    assert field_of(http.put(path, json=other)) == "key"
    assert field_of(http.patch(path, json={"key": "other"})) == "key"


def test_conditional_requests_change_only_the_revision_that_they_name(
    http: Calling,
) -> None:
    path, body = f"{PATH}/{uuid4()}", {"trigger": DAILY}
    for name, value, status in (
        ("If-Match", '"1"', 412),
        ("If-Match", "*", 412),
        ("If-None-Match", '"1"', 422),
        ("If-None-Match", "*", 201),
        ("If-None-Match", "*", 412),
        ("If-Match", '"7"', 412),
        ("If-Match", 'W/"1"', 412),
        ("If-Match", '"7", "1"', 200),
        ("If-Match", "*", 200),
        ("If-Match", "1", 422),
    ):
        answer = http.put(path, json=body, headers={name: value})
        assert answer.status_code == status, (name, value)
        assert status != 412 or is_problem(answer, 412, "revision")
    assert http.put(path, json={**body, "revision": 7}).status_code == 409
    for tag, status in (('"7"', 412), ('"1"', 200)):
        answer = http.patch(path, json={"name": "x"}, headers={"If-Match": tag})
        assert answer.status_code == status
    assert answer.json()["revision"] == 2


def test_a_patch_changes_the_fields_in_it(http: Calling) -> None:
    body = created(http, **FULL)
    patch = {
        "queue": "fast",
        "metadata": {"shop": None, "parts": {"first": 1}},
        "retry": {"max_attempts": 3},
        "lock": None,
        "paused": True,
    }
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = http.patch(path_of(body), json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
    now = answer.json()
    assert (now["queue"], now["lock"]) == ("fast", None)
    assert now["metadata"] == {"parts": {"first": 1}}
    assert now["retry"] == {**FULL["retry"], "max_attempts": 3}
    assert now["trigger"] == body["trigger"]
    other = http.patch(path_of(body), json={"trigger": {"every": 60}}).json()
    assert other["trigger"]["kind"] == "interval"


def test_a_wrong_patch_changes_nothing(http: Calling) -> None:
    path = path_of(created(http))
    wrong: list[tuple[object, str]] = [
        ({"id": str(uuid4())}, "id"),
        ({"paused": True}, "paused"),
        ({"note": "x"}, "note"),
        ({"queu": "x"}, "queu"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"owner": "shop"}, "owner"),
        ([], ""),
    ]
    for patch, field in wrong:
        assert field_of(http.patch(path, json=patch)) == field
    assert http.get(path).json()["revision"] == 1


class Busy(Client):
    """Somebody else changes a definition each time that it has been read."""

    changes = 0
    more: Mapping[str, Any] = {}

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        read = super().get_definition(definition_id)
        if self.changes:
            self.changes -= 1
            self.schedule(replace(read, lock=f"lock {self.changes}", **self.more))
        return read

    aget_definition = awaitable(get_definition)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_change_of_a_definition_that_others_change_is_repeated(
    memory: MemoryStore, calling: Callable[..., Calling], method: str
) -> None:
    client = Busy(memory)
    # Only the puts of restricted callers name the revision that was read.
    http = calling(client, access=As(queues={"default"}))
    path = path_of(created(http))
    body = {"name": "mine"} | ({"trigger": DAILY} if method == "PUT" else {})
    for changes, has_tag, status in ((3, False, 200), (9, False, 409), (1, True, 412)):
        headers = {"If-Match": http.get(path).headers["ETag"]} if has_tag else {}
        client.changes = changes
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        if method == "PATCH" and status == 200:
            assert (answer.json()["name"], answer.json()["lock"]) == ("mine", "lock 0")
        client.changes = 0
    # Somebody moves it to a queue that the caller may not see.
    client.changes, client.more = 1, {"queue": "theirs"}
    assert http.request(method, path, json=body).status_code == 404
    assert client.list_definitions(queue="theirs")[0].name == "mine"


def test_a_definition_may_be_in_a_declared_set(http: Calling, client: Client) -> None:
    body = created(http, owner="shop")
    assert body["owner"] == "shop"
    assert http.put(path_of(body), json={"trigger": DAILY}).json()["owner"] == "shop"
    other = http.put(path_of(body), json={"trigger": DAILY, "owner": "bank"})
    assert other.status_code == 422
    client.declare([], owner="office", version=3)
    refused = http.post(PATH, json={"trigger": DAILY, "owner": "office"})
    assert is_problem(refused, 409, "declared")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metadata", "{"),
        ("metadata", "[" * 5000),
        ("metadata", "[]"),
        ("metadata", '{"a": NaN}'),
        ("after", "x"),
        ("name", "a\0b"),
        ("limit", "0"),
        ("limit", "1001"),
        ("state", "open"),
        ("nam", "x"),
    ],
)
def test_a_wrong_query_is_refused(refusing: Calling, field: str, value: str) -> None:
    assert field_of(refusing.get(PATH, params={field: value})) == field


def test_a_definition_is_run_once_more_and_only_once_by_a_key(http: Calling) -> None:
    path = f"{path_of(created(http))}/run"
    body = {"payload": {"order": 7}, "key": "order 7", "delay": 3600}
    made = http.post(path, json=body)
    assert made.status_code == 201
    assert made.headers["Location"] == f"/v1/instances/{made.json()['id']}"
    again = http.post(path, json=body)
    assert (again.status_code, again.json()) == (200, made.json())
    assert http.post(path).status_code == 201
    wrong: list[tuple[dict[str, object], str]] = [
        ({"payload": {"a": "\0"}}, "payload"),
        ({"key": ""}, "key"),
        ({"delay": -1}, "delay"),
        ({"payloads": {}}, "payloads"),
        ({"at": "2030-01-01T00:00:00Z", "delay": 1}, "payload"),
    ]
    for body, field in wrong:
        assert field_of(http.post(path, json=body)) == field


def test_a_past_time_of_a_schedule_is_backfilled(http: Calling) -> None:
    path = f"{path_of(created(http, paused=True))}/backfill"
    body = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-11T00:00:00Z", "limit": 4}
    first = http.post(path, json=body).json()
    assert (first["made"], first["next"]) == (4, "2020-01-05T08:00:00Z")
    rest = http.post(path, json={**body, "limit": 10_000}).json()
    assert (rest["made"], rest["there"], rest["next"]) == (6, 4, None)
    backwards = {"start": body["end"], "end": body["start"]}
    assert field_of(http.post(path, json=backwards)) == "start"


def test_a_definition_says_when_it_fires(http: Calling) -> None:
    path = path_of(created(http))
    query = {"n": 2, "after": "2030-03-30T12:00:00+01:00"}
    answer = http.get(f"{path}/preview", params=query).json()
    assert [each["local"] for each in answer["times"]] == [
        "2030-03-31T09:00:00+02:00",
        "2030-04-01T09:00:00+02:00",
    ]
    assert len(http.get(f"{path}/preview").json()["times"]) == 10


def test_a_definition_says_what_became_of_its_fire_times(
    memory: MemoryStore, clock: ManualClock
) -> None:
    client = Client(memory)
    with Calling(create_app(client, clock=clock)) as http:
        path = path_of(created(http, trigger={"every": 60}))
        clock.advance(seconds(60))
        [kept] = client.list_definitions()
        fire(memory, kept, next_fire_time=clock.now() + seconds(60))
        clock.advance(seconds(10))
        start(memory, *claim(memory))
        since = {"since": (clock.now() - seconds(30)).isoformat()}
        query = {**since, "until": clock.now().isoformat()}
        answer = http.get(f"{path}/audit", params=query).json()
        assert (answer["counts"], answer["error"]) == ({"late": 1}, None)
        [instance] = client.list_instances()
        assert answer["times"] == [
            {
                "fire_time": "2030-01-01T00:01:00Z",
                "verdict": "late",
                "late": 10,
                "reason": "it began 10 s late",
                "instance_id": f"{instance.id}",
            }
        ]
        lax = {**since, "late": 10, "retention": 3600.5}
        answer = http.get(f"{path}/audit", params=lax).json()
        assert answer["counts"] == {"on time": 1}
        for wrong in ({"late": -1}, {"since": query["until"]}, {"retention": "long"}):
            answer = http.get(f"{path}/audit", params=wrong)
            assert field_of(answer) == next(iter(wrong))
        other = path_of(created(http, trigger={"on_demand": True}))
        answer = http.get(f"{other}/audit", params=since).json()
        assert (answer["note"], answer["error"]) == ("it runs on demand", None)
        known = {**since, "unchanged_since": "2030-01-01T00:00:00Z"}
        answer = http.get(f"{path}/audit", params=known).json()
        assert answer["counts"] == {"late": 1}


def test_a_deleted_definition_is_gone(http: Calling) -> None:
    path = path_of(created(http))
    answer = http.delete(path)
    assert (answer.status_code, answer.json()) == (200, {"running": 0})
    for method, tails in {
        "DELETE": [""],
        "GET": ["", "/preview", "/why", "/audit"],
        "PATCH": [""],
        "POST": ["/pause", "/resume", "/run"],
    }.items():
        body: dict[str, Any] = {"json": {}} if method in ("PATCH", "POST") else {}
        for tail in tails:
            answer = http.request(method, f"{path}{tail}", **body)
            assert is_problem(answer, 404, "no-definition")


def test_a_mounted_application_answers_paths_as_its_callers_write_them(
    app: FastAPI,
) -> None:
    outer = FastAPI()
    outer.mount("/inner", app)
    with Calling(outer) as http:
        made = http.post(f"/inner{PATH}", json={"trigger": DAILY})
        path = made.headers["Location"]
        assert path == f"/inner{path_of(made.json())}"
        assert http.put("/inner/v1/types/send", json={}).status_code == 201
        for answer in (
            made,
            http.post(f"{path}/run"),
            http.put(f"/inner{PATH}/{uuid4()}", json={"trigger": DAILY}),
            http.post("/inner/v1/jobs", json={"type": "send"}),
        ):
            assert http.get(answer.headers["Location"]).status_code == 200


JSON = {"Content-Type": "application/json"}
ON_DEMAND = {"trigger": {"on_demand": True}}
AT = datetime(2030, 1, 1, 8, tzinfo=UTC)
RULE = "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0"
BERLIN = {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "gap": "skip"}
NEW_YEAR = {"every": 60, "anchor": "2030-01-01t09:00:00+01:00"}
FROM_AT = {"rrule": RULE, "start": "2030-01-01T08:00:00Z", "timezone": "UTC"}
BY_KIND = {"kind": "interval", "state": {"every": {"microseconds": 1_000_000}}}
FORMS: dict[str, tuple[dict[str, Any], Trigger]] = {
    "cron": (BERLIN, CronTrigger("0 9 * * *", "Europe/Berlin", gap="skip")),
    "every": ({"every": 0.5}, IntervalTrigger(seconds(0.5))),
    "anchor": (NEW_YEAR, IntervalTrigger(seconds(60), AT)),
    "at": ({"at": "2030-01-01T08:00:00Z"}, ExecuteOnceTrigger(AT)),
    "offset": ({"at": "2030-01-01T03:00:00.000-05:00"}, ExecuteOnceTrigger(AT)),
    "after end": ({"after_end": 60}, DelayTrigger(seconds(60))),
    "rule": ({"rrule": RULE}, RecurrenceTrigger(RULE)),
    "rule with start": (FROM_AT, RecurrenceTrigger(RULE, "UTC", start=AT)),
    "phrase": ({"phrase": "every day at noon"}, CronTrigger("0 12 * * *")),
    "on demand": ({"on_demand": True}, OnDemandTrigger()),
    "kind": (BY_KIND, IntervalTrigger(seconds(1))),
}
ALIKE: dict[str, tuple[object, str]] = {
    "surrogate": ("\ud800", "surrogate"),
    "NUL": ("\0", "NUL"),
    "NaN": (float("nan"), "nan"),
    "infinity": (float("-inf"), "inf"),
    "deep": (json.loads("[" * 200 + "]" * 200), "deep"),
    "large": ("x" * 70_000, "65536"),
    "many": ([[]] * 70_000, "too many"),
}
"""Values that no store can keep, by what is wrong with them."""

WRONG: list[Sequence[Any]] = [
    *json_table("http/definitions_refused"),
    ({"name": "x" * 201}, "name", "1 to 200"),
    ({"priority": 10**30}, "priority", "0 to 3"),
    ({"note": "x" * 20_000}, "note", "10000"),
    ({"\ud800": 1}, "\\ud800", "no such field"),
    ({"x" * 100_000: 1}, f"{'x' * 2000}...", "no such field"),
    *(({"metadata": {"it": bad}}, "metadata", why) for bad, why in ALIKE.values()),
    *(({"trigger": bad}, *more) for bad, *more in json_table("http/triggers_refused")),
    ({"trigger": {"every": 10**400}}, "trigger.every", "seconds within 100 years"),
]


@pytest.mark.parametrize(("form", "trigger"), FORMS.values(), ids=FORMS)
def test_a_trigger_is_taken_in_each_of_its_forms(
    shared: Calling, shared_client: Client, form: dict[str, Any], trigger: Trigger
) -> None:
    answer = shared.post("/v1/definitions", json={"trigger": form})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert shared_client.get_definition(UUID(body["id"])).trigger == trigger
    assert body["recurring"] == trigger.recurring
    again = shared.post("/v1/definitions", json={"trigger": body["trigger"]})
    assert again.json()["trigger"] == body["trigger"]


@pytest.mark.parametrize(("given", "field", "remedy"), WRONG)
def test_a_refusal_names_the_field_and_a_remedy(
    refusing: Calling, given: object, field: str, remedy: str
) -> None:
    body = {**ON_DEMAND, **given} if isinstance(given, dict) else given
    answer = refusing.post("/v1/definitions", content=json.dumps(body), headers=JSON)
    assert is_problem(answer, 422, "invalid")
    problem = answer.json()
    assert problem["errors"][0]["field"] == field
    assert remedy.lower() in problem["errors"][0]["detail"].lower()
    assert field[:2000] in problem["detail"]
    assert len(answer.text) < 10_000


@pytest.mark.parametrize(
    ("sent", "policy"),
    [
        ({}, RetryPolicy()),
        ({"max_attempts": 3}, RetryPolicy(max_attempts=3)),
        ({"max_delay": 60}, RetryPolicy(max_delay=seconds(60))),
        ({"delay": 3}, RetryPolicy(delay=seconds(3))),
        ({"delay": 3, "factor": 2}, RetryPolicy(delay=seconds(3), factor=2)),
        ({"delay": None}, RetryPolicy(delay=None)),
        (
            {"max_attempts": 100, "delay": None, "factor": 1.0, "jitter": 0.0},
            RetryPolicy.after_expiry(),
        ),
    ],
)
def test_a_retry_has_the_defaults_of_the_policy(
    shared: Calling, shared_client: Client, sent: object, policy: RetryPolicy
) -> None:
    body = shared.post("/v1/definitions", json={**ON_DEMAND, "retry": sent}).json()
    assert shared_client.get_definition(UUID(body["id"])).retry == policy
    assert len(body["retry"]) == 6
    again = shared.put(f"/v1/definitions/{body['id']}", json=body)
    assert (again.status_code, again.json()) == (200, body)


@dataclass(frozen=True)
class Mute(Trigger):
    """A user's trigger that cannot describe itself."""

    kind: ClassVar[str] = "mute for http"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None

    def describe(self) -> str:
        raise RuntimeError("not today")

    def to_dict(self) -> dict[str, Any]:
        return {}


class Lunar(Mute):
    """A user's trigger that describes itself."""

    kind: ClassVar[str] = "lunar for http"

    def describe(self) -> str:
        return "when the moon is full"


@pytest.mark.parametrize(
    ("trigger", "description"),
    [(Mute(), None), (Lunar(), "when the moon is full")],
)
def test_a_users_trigger_is_described_as_far_as_it_can_be(
    shared: Calling, shared_client: Client, trigger: Trigger, description: str | None
) -> None:
    id = shared_client.schedule(TaskDefinition(trigger=trigger)).id
    assert shared.get(f"/v1/definitions/{id}").json()["description"] == description
    previewed = shared.get(f"/v1/definitions/{id}/preview").json()
    assert (previewed["times"], previewed["warnings"]) == ([], [])


def test_a_definition_of_an_unknown_kind_is_read_and_not_previewed(
    shared: Calling, shared_client: Client
) -> None:
    reason = "no class has it; these announced x"
    trigger = UnknownTrigger("lunar", {"phase": 1}, reason)
    store = shared_client._ready()
    [kept] = store.put_definitions([TaskDefinition(trigger=trigger)]).definitions
    read = shared.get(f"/v1/definitions/{kept.id}").json()
    assert read["trigger"] == {"kind": "lunar", "state": {"phase": 1}}
    assert read["description"] is None
    refused = shared.get(f"/v1/definitions/{kept.id}/preview")
    assert is_problem(refused, 422, "unknown-trigger")
    assert "announced" not in refused.text


INSTANCES = "/v1/instances"


def test_instances_are_read_cancelled_and_retried(
    http: Calling, memory: MemoryStore
) -> None:
    second, first = running(memory), pending(memory)
    path = f"{INSTANCES}/{second.id}"
    assert is_problem(http.post(f"{path}/retry"), 409, "state")
    finish(memory, second, Outcome.FAILED, error="it broke")
    [run] = http.get(f"{path}/runs").json()["items"]
    assert (run["outcome"], run["error"]) == ("failed", "it broke")
    assert run["worker"] is None
    for id, at in ((first.id, "created_at"), (second.id, "completed_at")):
        body = http.get(f"{INSTANCES}/{id}").json()
        assert body["updated_at"] == body[at]
    assert http.post(f"{path}/retry").json()["state"] == "pending"
    for each in (first, second):
        cancelled = http.post(f"{INSTANCES}/{each.id}/cancel").json()
        assert cancelled == {"cancelled": "cancelled"}
    requested = http.post(f"{INSTANCES}/{running(memory).id}/cancel").json()
    assert requested == {"cancelled": "requested"}
    again = http.post(f"{path}/cancel")
    assert again.status_code == 409
    assert "cancelled" in again.json()["detail"]


@pytest.mark.parametrize("call", ["GET ", "GET /runs", "POST /cancel", "POST /retry"])
def test_an_unknown_instance_is_not_found(refusing: Calling, call: str) -> None:
    method, tail = call.split(" ")
    answer = refusing.request(method, f"{INSTANCES}/{uuid4()}{tail}")
    assert is_problem(answer, 404, "no-instance")


def test_an_instance_is_found_by_its_key(http: Calling) -> None:
    definition = {"trigger": {"on_demand": True}, "retry": {"max_attempts": 3}}
    id = http.post("/v1/definitions", json=definition).json()["id"]
    run = f"/v1/definitions/{id}/run"
    made = [http.post(run, json={"key": each}).json() for each in ("a", "b")]
    assert made[0]["max_attempts"] == 3
    query = {"definition_id": id, "key": "b"}
    assert http.get(INSTANCES, params=query).json()["items"] == made[1:]
