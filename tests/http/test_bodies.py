"""Bodies: each form of a trigger, and what is refused, with its field and a remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    TaskDefinition,
    Trigger,
)
from go_scheduler.http.bodies.body import Body, Seconds
from go_scheduler.http.bodies.definitions import (
    RetryBody,
    TriggerAnswer,
    description_of,
    warnings_of,
)
from go_scheduler.policies import RetryPolicy
from go_scheduler.testing.clock import START
from go_scheduler.triggers import RecurrenceTrigger, UnknownTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from go_scheduler import Store
    from tests.http.serving import Calling

AT = datetime(2030, 1, 1, 8, tzinfo=UTC)
RULE = "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0"
FORMS: list[tuple[dict[str, Any], Trigger]] = [
    (
        {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "gap": "skip"},
        CronTrigger("0 9 * * *", "Europe/Berlin", gap="skip"),
    ),
    ({"every": 0.5}, IntervalTrigger(seconds(0.5))),
    (
        {"every": 60, "anchor": "2030-01-01t09:00:00+01:00"},
        IntervalTrigger(seconds(60), AT),
    ),
    ({"at": "2030-01-01T08:00:00Z"}, ExecuteOnceTrigger(AT)),
    ({"at": "2030-01-01T03:00:00.000-05:00"}, ExecuteOnceTrigger(AT)),
    ({"after_end": 60}, DelayTrigger(seconds(60))),
    ({"rrule": RULE}, RecurrenceTrigger(RULE)),
    (
        {"rrule": RULE, "start": "2030-01-01T08:00:00Z", "timezone": "UTC"},
        RecurrenceTrigger(RULE, "UTC", start=AT),
    ),
    ({"phrase": "every day at noon"}, CronTrigger("0 12 * * *")),
    ({"on_demand": True}, OnDemandTrigger()),
    (
        {"kind": "interval", "state": {"every": {"microseconds": 1_000_000}}},
        IntervalTrigger(seconds(1)),
    ),
]
WRONG: list[tuple[object, str, str]] = [
    ({}, "trigger", "it is missing"),
    ({"trigger": 5}, "trigger", '"cron"'),
    ({"trigger": {"crn": "0 9 * * *"}}, "trigger", '"cron"'),
    ({"trigger": {"cron": "61 * * * *"}}, "trigger.cron", "minute 61"),
    ({"trigger": {"cron": 5}}, "trigger.cron", "it must be a text"),
    (
        {"trigger": {"cron": "0 9 * * *", "timezon": "UTC"}},
        "trigger.timezon",
        "did you mean timezone?",
    ),
    ({"trigger": {"cron": "@daily", "timezone": "Mars"}}, "trigger.cron", "Mars"),
    ({"trigger": {"cron": "@daily", "every": 60}}, "trigger.every", "known are cron"),
    ({"trigger": {"every": "60"}}, "trigger.every", "number of seconds"),
    ({"trigger": {"every": True}}, "trigger.every", "number of seconds"),
    ({"trigger": {"every": 10**400}}, "trigger.every", "seconds within 100 years"),
    ({"trigger": {"every": 1e300}}, "trigger.every", "seconds within 100 years"),
    ({"trigger": {"every": -1}}, "trigger.every", "every"),
    ({"trigger": {"at": "2030-01-01T08:00:00"}}, "trigger.at", "RFC 3339"),
    ({"trigger": {"at": "2030-02-31T08:00:00Z"}}, "trigger.at", "RFC 3339"),
    ({"trigger": {"at": 1893456000}}, "trigger.at", "RFC 3339"),
    ({"trigger": {"at": "0001-01-01T00:00:00+01:00"}}, "trigger.at", "out of range"),
    ({"trigger": {"phrase": "now and then"}}, "trigger.phrase", "understood"),
    ({"trigger": {"on_demand": False}}, "trigger.on_demand", "True"),
    ({"trigger": {"kind": "lunar", "state": {}}}, "trigger.kind", "'lunar'"),
    ({"trigger": {"kind": "cron", "state": {"x": 1}}}, "trigger.state", "'cron'"),
    ({"trigger": {"kind": "cron", "state": {"x": "\0"}}}, "trigger.state", "NUL"),
    ({"name": ""}, "name", "1 to 200"),
    ({"name": "x" * 201}, "name", "1 to 200"),
    ({"name": "a\0b"}, "name", "NUL"),
    ({"paused": "x"}, "paused", "it must be true or false"),
    ({"trigger": {"on_demand": 5}}, "trigger.on_demand", "it must be true"),
    ({"overlap": "x"}, "overlap", "it must be 'allow', 'skip', 'buffer_one', 'buffer"),
    ({"id": "x"}, "id", "it must be a UUID, such as 0190"),
    ({"queue": 7}, "queue", "it must be a text"),
    ({"priority": 4}, "priority", "0 to 3"),
    ({"priority": "1"}, "priority", "it must be a whole number"),
    ({"priority": 10**30}, "priority", "0 to 3"),
    ({"metadata": []}, "metadata", "it must be an object"),
    ({"metadata": {"a": "x" * 70_000}}, "metadata", "65536"),
    ({"metadata": {"a": [[]] * 70_000}}, "metadata", "too many"),
    ({"expire_after": 0.01}, "expire_after", "at least 0.1 s"),
    ({"timeout": 1e11}, "timeout", "100 years"),
    ({"retry": {"max_attempts": 0}}, "retry.max_attempts", "from 1 to"),
    ({"retry": {"jitter": 2}}, "retry.jitter", "it must be at most 1"),
    ({"retry": {"jitter": {"second": 2}}}, "retry.jitter.second", "mean seconds"),
    ({"retry": {"delay": None, "factor": 2}}, "retry.factor", "has none"),
    ({"catch_up": {"mode": "some"}}, "catch_up.mode", "'latest'"),
    ({"catch_up": {"grace": -1}}, "catch_up.grace", "at least 0"),
    ({"jitter": 0}, "jitter", "longer than zero"),
    ({"overlap": "maybe"}, "overlap", "'buffer_one'"),
    ({"id": "report"}, "id", "UUID"),
    ({"naem": "x", "queu": "y"}, "naem", "did you mean name?"),
    ({"note": "x" * 20_000}, "note", "10000"),
    ([], "", "it must be an object"),
]


@pytest.mark.parametrize(("form", "trigger"), FORMS)
def test_a_trigger_is_taken_in_each_of_its_forms(
    http: Calling, store: Store, form: dict[str, Any], trigger: Trigger
) -> None:
    answer = http.post("/v1/definitions", json={"trigger": form})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    [kept] = store.list_definitions()
    assert kept.trigger == trigger
    assert body["recurring"] == trigger.recurring
    again = http.post("/v1/definitions", json={"trigger": body["trigger"]})
    assert again.json()["trigger"] == body["trigger"]


@pytest.mark.parametrize(("given", "field", "remedy"), WRONG)
def test_what_is_wrong_is_told_by_its_field_and_nothing_is_stored(
    http: Calling, store: Store, given: object, field: str, remedy: str
) -> None:
    body = given
    if isinstance(given, dict) and given and "trigger" not in given:
        body = {"trigger": {"on_demand": True}, **given}
    answer = http.post("/v1/definitions", json=body)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["type"] == "urn:go_scheduler:invalid"
    assert problem["errors"][0]["field"] == field
    assert remedy.lower() in problem["errors"][0]["detail"].lower()
    assert field in problem["detail"]
    assert list(store.list_definitions()) == []


@pytest.mark.parametrize(
    "metadata",
    [
        b"NaN",
        b"-Infinity",
        b'"\\ud800"',
        b'"\\u0000"',
        b"1e999",
        b"[" * 200 + b"]" * 200,
    ],
    ids=["NaN", "infinity", "surrogate", "NUL", "too large", "deep"],
)
def test_what_no_store_can_keep_is_refused(
    http: Calling, store: Store, metadata: bytes
) -> None:
    body = b'{"trigger": {"on_demand": true}, "metadata": {"it": %s}}' % metadata
    headers = {"Content-Type": "application/json"}
    answer = http.post("/v1/definitions", content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "metadata"
    assert list(store.list_definitions()) == []


def test_a_field_that_no_answer_can_name_is_told_all_the_same(http: Calling) -> None:
    body = b'{"trigger": {"on_demand": true}, "\\ud800": 1}'
    headers = {"Content-Type": "application/json"}
    answer = http.post("/v1/definitions", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "\\ud800"


def test_what_is_long_is_told_in_short(http: Calling) -> None:
    answer = http.post("/v1/definitions", json={"x" * 100_000: 1})
    assert answer.status_code == 422
    assert len(answer.text) < 10_000


def test_seconds_are_written_as_they_were_read() -> None:
    class Wait(Body):
        wait: Seconds

    for value, text in ((60, "60"), (0.25, "0.25"), (60.0, "60")):
        wait = Wait.model_validate({"wait": value})
        assert wait.model_dump_json() == f'{{"wait":{text}}}'
    assert Wait(wait=seconds(2)).wait == seconds(2)
    part = RetryBody.of(RetryPolicy(delay=seconds(1), jitter=0.5))
    assert part.policy("retry") == RetryPolicy(delay=seconds(1), jitter=0.5)


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
def test_what_is_left_out_of_a_retry_is_as_in_a_policy(
    sent: dict[str, object], policy: RetryPolicy
) -> None:
    assert RetryBody.model_validate(sent).policy("retry") == policy
    answered = RetryBody.of(policy).model_dump(mode="json")
    assert len(answered) == 6
    assert RetryBody.model_validate(answered).policy("retry") == policy


class Broken(Trigger):
    """One of somebody else's, that does not say what it is."""

    kind: ClassVar[str] = "broken for http"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None

    def describe(self) -> str:
        raise RuntimeError("not today")

    def to_dict(self) -> dict[str, Any]:
        return {}


class Spoken(Broken):
    """One that does."""

    kind: ClassVar[str] = "spoken for http"

    def describe(self) -> str:
        return "when the moon is full"


def test_triggers_of_others_are_described_as_far_as_they_can_be() -> None:
    unknown = UnknownTrigger("lunar", {"phase": 1}, "nobody knows it")
    assert TriggerAnswer.of(unknown).model_dump() == {
        "kind": "lunar",
        "state": {"phase": 1},
    }
    assert description_of(unknown) is None
    assert description_of(Broken()) is None
    assert description_of(Spoken()) == "when the moon is full"
    assert warnings_of(Spoken(), START) == []


def test_a_definition_of_a_kind_that_is_not_known_is_read_and_not_previewed(
    http: Calling, store: Store
) -> None:
    unknown = UnknownTrigger(
        "lunar", {"phase": 1}, "no class has it; these announced x"
    )
    [kept] = store.put_definitions([TaskDefinition(trigger=unknown)])
    path = f"/v1/definitions/{kept.id}"
    assert http.get(path).json()["description"] is None
    refused = http.get(f"{path}/preview")
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:go_scheduler:unknown-trigger"
    assert "announced" not in refused.text
