"""Definitions and instances are checked, frozen, and compared by what a user sets."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from go_scheduler import health, models, policies, settings
from go_scheduler.checks import NAME_LIMIT, NOTE_LIMIT
from go_scheduler.errors import ConfigurationError
from go_scheduler.json import freeze
from go_scheduler.models import METADATA_LIMIT, State, TaskDefinition, TaskInstance
from go_scheduler.models.values import changed, trusted
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.messages import Addition, Claim, RunOutcome
from go_scheduler.testing.builders import HOUR, HOURLY, MINUTE, WAITING, definition
from go_scheduler.testing.clock import START
from go_scheduler.triggers import ExecuteOnceTrigger
from tests.conftest import instance

ROOT = Path(__file__).parents[1]
ID = UUID(int=7)
DEFINITION = TaskDefinition(trigger=HOURLY, id=ID)


class Queue(StrEnum):
    REPORTS = "reports"


def added(of: TaskDefinition, **values: Any) -> TaskInstance:
    return TaskInstance(
        id=ID, definition=of, fire_time=None, execute_at=START, due_at=START, **values
    )


def refusal(name: str, value: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        replace(DEFINITION, **{name: value})  # type: ignore[arg-type]
    return str(caught.value)


def test_a_definition_knows_whether_its_id_was_passed() -> None:
    given = UUID(int=8)
    made = TaskDefinition(trigger=HOURLY)
    assert not replace(made, name="report").named
    for named in (TaskDefinition(trigger=HOURLY, id=given), replace(made, id=given)):
        assert named.named
        assert replace(named, name="report").named
        # Its id is made up anew.
        assert not replace(named, id=None).named  # type: ignore[arg-type]
    read = TaskDefinition(trigger=HOURLY, id=given, named=False)
    assert not replace(read, name="report").named
    assert not replace(made, id=None).named  # type: ignore[arg-type]


def test_a_copy_with_another_id_is_a_new_definition() -> None:
    read = replace(DEFINITION, revision=3)
    assert replace(read, name="report").revision == 3
    assert replace(read, id=UUID(int=8)).revision is None
    assert replace(read, id=None).revision is None  # type: ignore[arg-type]
    assert replace(replace(read, id=UUID(int=8)), revision=2).revision == 2


def test_the_same_key_gives_the_same_id_for_ever() -> None:
    # Stored definitions are found by it: it must not change between versions.
    found = TaskDefinition.id_for("nightly report")
    assert found == UUID("dc6a1d2d-3a83-5549-b42c-0725da1b4e29")
    assert found != TaskDefinition.id_for("nightly reports")
    with pytest.raises(ConfigurationError, match="key must be a str, not 5"):
        TaskDefinition.id_for(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="key must not be empty"):
        TaskDefinition.id_for("")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("id", 7, "UUID"),
        ("name", 5, "str"),
        ("queue", None, "str"),
        ("priority", "high", "int"),
        ("priority", True, "int"),
        ("lock", 1, "str"),
        ("max_per_node", "1", "int"),
        ("named", 1, "bool"),
        ("revision", True, "int"),
        ("revision", "1", "int"),
    ],
)
def test_a_value_of_another_type_is_refused(
    name: str, value: object, kind: str
) -> None:
    article = "an" if kind == "int" else "a"
    refused = refusal(name, value)
    assert refused.startswith(f"{name} must be {article} {kind}, ")
    assert refused.endswith(f"not {value!r}")


@pytest.mark.parametrize(
    ("name", "limit", "too_long"),
    [
        ("name", NAME_LIMIT, "name must have 1 to 200 characters, not 201"),
        ("queue", NAME_LIMIT, "queue must have 1 to 200 characters, not 201"),
        ("note", NOTE_LIMIT, "note has 10001 characters; at most 10000 are kept"),
    ],
)
def test_a_text_is_of_some_length_plain_and_such_that_every_store_keeps_it(
    name: str, limit: int, too_long: str
) -> None:
    def kept(text: str) -> Any:
        return getattr(replace(DEFINITION, **{name: text}), name)  # type: ignore[arg-type]

    assert kept("é" * limit) == "é" * limit
    # A database driver may well write a member of an enum by its name.
    assert (kept(Queue.REPORTS), type(kept(Queue.REPORTS))) == ("reports", str)
    assert refusal(name, "é" * (limit + 1)) == too_long
    assert refusal(name, b"why") == f"{name} must be a str, not b'why'"
    assert refusal(name, "\0") == f"{name} holds a NUL, which no database keeps"
    assert refusal(name, "\udfff").startswith(f"{name} holds a lone surrogate")


@pytest.mark.parametrize(
    "name", ["expire_after", "timeout", "start_timeout", "heartbeat_timeout"]
)
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (timedelta(0), "0 s"),
        (-HOUR, "-3,600 s"),
        (timedelta(microseconds=99_999), "0.099999 s"),
        (timedelta(days=36_526), "3,155,846,400 s"),
    ],
)
def test_a_run_may_take_a_tenth_of_a_second_to_a_century(
    value: timedelta, told: str, name: str
) -> None:
    assert refusal(name, value) == (
        f"{name} must be at least 0.1 s and at most 100 years: {told}"
    )
    for allowed in (timedelta(milliseconds=100), timedelta(days=36_525)):
        made = replace(DEFINITION, **{name: allowed})  # type: ignore[arg-type]
        assert getattr(made, name) == allowed


def test_metadata_is_a_read_only_copy() -> None:
    given: dict[str, list[int]] = {"a": [1]}
    made = replace(DEFINITION, metadata=given)
    given["a"].append(2)
    assert made.metadata == {"a": [1]}
    with pytest.raises(TypeError):
        made.metadata["b"] = 1  # type: ignore[index]


def test_metadata_has_at_most_64_kib() -> None:
    room = METADATA_LIMIT - len('{"a":""}')
    assert replace(DEFINITION, metadata={"a": "x" * room}).metadata
    assert refusal("metadata", {"a": "x" * (room + 1)}).startswith(
        "metadata is 65537 bytes as JSON; at most 65536 are kept"
    )


@pytest.mark.parametrize("name", ["next_fire_time", "paused_at", "completed_at"])
def test_times_are_kept_in_utc(name: str) -> None:
    nepal = timezone(timedelta(hours=5, minutes=45))
    given = datetime(2030, 1, 1, 5, 45, tzinfo=nepal)
    kept = getattr(replace(DEFINITION, **{name: given}), name)  # type: ignore[arg-type]
    assert kept == START
    assert kept.tzinfo is UTC
    naive = given.replace(tzinfo=None)
    assert refusal(name, naive).startswith(f"{name} has no time zone")
    assert refusal(name, "tomorrow").startswith(f"{name} must be a datetime")


KEPT: dict[str, object] = {
    "named": False,
    "next_fire_time": START,
    "paused": True,
    "note": "why",
    "paused_at": START,
    "completed_at": START,
    "revision": 3,
}
SET: dict[str, object] = {
    "trigger": WAITING,
    "id": UUID(int=8),
    "name": "report",
    "queue": "slow",
    "priority": 3,
    "metadata": {"a": 1},
    "expire_after": MINUTE,
    "timeout": MINUTE,
    "start_timeout": MINUTE,
    "heartbeat_timeout": MINUTE,
    "retry": RetryPolicy(max_attempts=1),
    "catch_up": CatchUp(grace=HOUR),
    "jitter": MINUTE,
    "overlap": Overlap.SKIP,
    "lock": "a",
    "max_per_node": 1,
    "max_queue": 1,
    "when_full": "drop",
}


@pytest.mark.parametrize("name", [*KEPT, *SET])
def test_what_a_user_sets_is_compared_and_what_the_store_keeps_is_not(
    name: str,
) -> None:
    changed: Any = {name: (KEPT | SET)[name]}
    assert (replace(DEFINITION, **changed) == DEFINITION) is (name in KEPT)
    compared = {each.name for each in dataclasses.fields(DEFINITION) if each.compare}
    assert compared == {*SET, "key"}


def test_a_key_makes_the_id_that_the_published_vectors_have() -> None:
    published = json.loads((ROOT / "docs/definition-keys.json").read_text("utf-8"))
    namespace = UUID(published["namespace"])
    for each in published["vectors"]:
        key, id = each["key"], UUID(each["id"])
        assert TaskDefinition.id_for(key) == uuid5(namespace, key) == id
        made = TaskDefinition(trigger=WAITING, key=key)
        assert (made.id, made.key, made.named) == (id, key, True)
        assert made == TaskDefinition(trigger=WAITING, id=id, key=key)
        assert made != TaskDefinition(trigger=WAITING, id=id)
    assert str(namespace) in str(TaskDefinition.id_for.__doc__)


@pytest.mark.parametrize(
    ("key", "name", "label"),
    [
        (None, None, None),
        (None, "report", "report"),
        ("nightly", None, "(nightly)"),
        ("nightly", "report", "report (nightly)"),
        ("report", "report", "report"),
    ],
)
def test_a_definition_is_called_by_its_name_and_its_key(
    key: str | None, name: str | None, label: str | None
) -> None:
    assert TaskDefinition(trigger=WAITING, key=key, name=name).label == label


def test_a_definition_is_the_same_if_putting_it_changes_nothing() -> None:
    one = replace(DEFINITION, metadata={"a": 1})
    assert one.is_same(replace(one, revision=3, paused=True))
    assert not one.is_same(replace(one, name="report"))
    truth = replace(one, metadata={"a": True})
    assert one == truth
    assert not one.is_same(truth)


def test_a_definition_and_its_instances_travel_between_processes() -> None:
    given = instance(definition(metadata={"a": [1, {"b": None}]}, name="n"))
    for copied in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given)):
        assert copied == given
        assert copied.definition.next_fire_time == given.definition.next_fire_time


def test_an_instance_begins_without_an_attempt_or_a_run() -> None:
    of = replace(DEFINITION, metadata={"a": 1})
    begun = added(of)
    assert (begun.attempt, begun.runs, begun.cancel_requested) == (0, 0, False)
    assert begun.state is State.PENDING
    assert (begun.definition_id, begun.metadata) == (of.id, {"a": 1})


def test_an_instance_with_a_payload_can_stand_in_a_set() -> None:
    payload = freeze({"order": [7]}, name="payload", limit=100)
    made = added(DEFINITION, payload=payload)
    other = replace(made, payload=None)
    assert made != other
    assert hash(made) == hash(other)
    addition = Addition(payload={"order": [7]})
    assert hash(addition) == hash(replace(addition, payload=None))


@pytest.mark.parametrize(
    "value",
    [
        each
        for module in (health, models, policies, settings)
        for each in vars(module).values()
        if inspect.isclass(each) and dataclasses.is_dataclass(each)
    ],
    ids=lambda cls: cls.__name__,
)
def test_every_value_is_frozen_slotted_and_made_by_name(value: type) -> None:
    assert dataclasses.is_dataclass(value)
    assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(value)
    assert all(each.kw_only for each in dataclasses.fields(value))


def test_a_copy_with_other_fields_has_all_others_of_the_first() -> None:
    given = replace(DEFINITION, name="a", metadata={"n": 1}, revision=3)
    copied = changed(given, revision=4, next_fire_time=START)
    assert copied == given
    assert (copied.revision, copied.next_fire_time) == (4, START)
    assert (given.revision, given.next_fire_time) == (3, None)
    # As one that is made, it passes on whose revision it has.
    assert replace(copied, id=UUID(int=8)).revision is None


def test_a_copy_of_a_users_own_kind_of_definition_keeps_what_that_has_more() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Report(TaskDefinition):
        pages: int = 0

    copied = changed(Report(trigger=HOURLY, id=ID, pages=7), revision=2)
    assert isinstance(copied, Report)
    assert (copied.pages, copied.revision) == (7, 2)


def test_a_value_shows_only_what_is_not_as_usual() -> None:
    trigger = ExecuteOnceTrigger(START)
    made = TaskDefinition(trigger=trigger, id=ID, name="report", metadata={"n": 1})
    assert repr(made) == (
        f"TaskDefinition(trigger={trigger!r}, id={ID!r}, name='report',"
        f" metadata={made.metadata!r})"
    )
    assert repr(added(made, runs=2)) == (
        f"TaskInstance(id={ID!r}, definition={made!r}, fire_time=None,"
        f" execute_at={START!r}, due_at={START!r}, runs=2)"
    )


@pytest.mark.parametrize(
    "checked",
    [
        TaskDefinition(
            trigger=ExecuteOnceTrigger(START),
            name="report",
            metadata={"to": ["a", {"b": 1}]},
            retry=RetryPolicy(max_attempts=3),
            revision=4,
        ),
        instance(attempt=2, started_at=START),
        RunOutcome(claim=Claim(instance_id=ID, attempt=1)),
        Claim(instance_id=ID, attempt=2),
        CatchUp(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_made_without_checks_is_like_any_other(checked: Any) -> None:
    kind: Any = type(checked)
    names = [each.name for each in dataclasses.fields(kind)]
    given = {name: getattr(checked, name) for name in names}
    made: Any = trusted(kind)(*given.values())
    assert trusted(kind)(**given) == made
    assert type(made) is kind
    assert (made, repr(made)) == (checked, repr(checked))
    assert hash(made) == hash(checked)
    assert pickle.loads(pickle.dumps(made)) == checked
    assert copy.copy(made) == checked
    assert dataclasses.asdict(made) == dataclasses.asdict(checked)
    assert replace(made) == checked
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, names[0], None)
