"""Bodies: each form of a trigger, and refusals that name the field and a remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    RetryPolicy,
    TaskDefinition,
    Trigger,
)
from go_scheduler.triggers import RecurrenceTrigger, UnknownTrigger
from tests.conftest import seconds
from tests.http.serving import is_problem

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from tests.http.serving import Calling

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

CRON_TYPO = {"cron": "0 9 * * *", "timezon": "UTC"}
WRONG_TRIGGERS: list[tuple[object, str, str]] = [
    (5, "trigger", '"cron"'),
    ({"crn": "0 9 * * *"}, "trigger", '"cron"'),
    ({"cron": "61 * * * *"}, "trigger.cron", "minute 61"),
    ({"cron": 5}, "trigger.cron", "it must be a text"),
    (CRON_TYPO, "trigger.timezon", "did you mean timezone?"),
    ({"cron": "@daily", "timezone": "Mars"}, "trigger.cron", "Mars"),
    ({"cron": "@daily", "every": 60}, "trigger.every", "known are cron"),
    ({"every": "60"}, "trigger.every", "number of seconds"),
    ({"every": True}, "trigger.every", "number of seconds"),
    ({"every": 10**400}, "trigger.every", "seconds within 100 years"),
    ({"every": 1e300}, "trigger.every", "seconds within 100 years"),
    ({"every": -1}, "trigger.every", "every"),
    ({"at": "2030-01-01T08:00:00"}, "trigger.at", "RFC 3339"),
    ({"at": "2030-02-31T08:00:00Z"}, "trigger.at", "RFC 3339"),
    ({"at": 1893456000}, "trigger.at", "RFC 3339"),
    ({"at": "0001-01-01T00:00:00+01:00"}, "trigger.at", "out of range"),
    ({"phrase": "now and then"}, "trigger.phrase", "understood"),
    ({"on_demand": False}, "trigger.on_demand", "True"),
    ({"on_demand": 5}, "trigger.on_demand", "it must be true"),
    ({"kind": "lunar", "state": {}}, "trigger.kind", "'lunar'"),
    ({"kind": "cron", "state": {"x": 1}}, "trigger.state", "'cron'"),
    ({"kind": "cron", "state": {"x": "\0"}}, "trigger.state", "NUL"),
]
WRONG: list[tuple[object, str, str]] = [
    ([], "", "it must be an object"),
    ({"trigger": None}, "trigger", '"cron"'),
    ({"name": ""}, "name", "1 to 200"),
    ({"name": "x" * 201}, "name", "1 to 200"),
    ({"name": "a\0b"}, "name", "NUL"),
    ({"paused": "x"}, "paused", "it must be true or false"),
    ({"id": "x"}, "id", "it must be a UUID, such as 0190"),
    ({"queue": 7}, "queue", "it must be a text"),
    ({"priority": 4}, "priority", "0 to 3"),
    ({"priority": "1"}, "priority", "it must be a whole number"),
    ({"priority": 10**30}, "priority", "0 to 3"),
    ({"metadata": []}, "metadata", "it must be an object"),
    ({"expire_after": 0.01}, "expire_after", "at least 0.1 s"),
    ({"timeout": 1e11}, "timeout", "100 years"),
    ({"retry": {"max_attempts": 0}}, "retry.max_attempts", "from 1 to"),
    ({"retry": {"jitter": 2}}, "retry.jitter", "it must be at most 1"),
    ({"retry": {"jitter": {"second": 2}}}, "retry.jitter.second", "mean seconds"),
    ({"retry": {"delay": None, "factor": 2}}, "retry.factor", "has none"),
    ({"catch_up": {"mode": "some"}}, "catch_up.mode", "'latest'"),
    ({"catch_up": {"grace": -1}}, "catch_up.grace", "at least 0"),
    ({"jitter": 0}, "jitter", "longer than zero"),
    ({"overlap": "x"}, "overlap", "it must be 'allow', 'skip', 'buffer_one', 'buffer"),
    ({"naem": "x", "queu": "y"}, "naem", "did you mean name?"),
    ({"note": "x" * 20_000}, "note", "10000"),
    # Answers can repeat neither a lone surrogate nor a long name.
    ({"\ud800": 1}, "\\ud800", "no such field"),
    ({"x" * 100_000: 1}, f"{'x' * 2000}...", "no such field"),
    *(({"metadata": {"it": bad}}, "metadata", why) for bad, why in ALIKE.values()),
    *(({"trigger": bad}, field, why) for bad, field, why in WRONG_TRIGGERS),
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
    [kept] = store.put_definitions([TaskDefinition(trigger=trigger)])
    read = shared.get(f"/v1/definitions/{kept.id}").json()
    assert read["trigger"] == {"kind": "lunar", "state": {"phase": 1}}
    assert read["description"] is None
    refused = shared.get(f"/v1/definitions/{kept.id}/preview")
    assert is_problem(refused, 422, "unknown-trigger")
    assert "announced" not in refused.text
