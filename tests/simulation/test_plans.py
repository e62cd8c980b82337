"""What declaring a set would change is what declaring it changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    IntervalTrigger,
    MemoryStore,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.simulation import compare, plan
from go_scheduler.simulation.plans import values_of
from tests.simulation.seeds import named

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store

HOUR = timedelta(hours=1)


def task(name: str, hour: int = 9, **given: Any) -> TaskDefinition:
    return named(name, CronTrigger(f"0 {hour} * * *"), **given)


def client_of(store: Store, *owned: TaskDefinition) -> Client:
    client = Client(store)
    client.declare(owned, owner="shop")
    return client


def test_a_plan_is_what_declaring_does_on_each_store(store: Store) -> None:
    client = client_of(store, task("same"), task("moved"), task("gone"))
    declared = [task("same"), task("moved", 10, queue="slow"), task("new")]
    found = plan(client, declared, owner="shop")
    assert [each.name for each in found.added] == ["new"]
    assert [each.name for each in found.removed] == ["gone"]
    assert [each.name for each in found.unchanged] == ["same"]
    [change] = found.changed
    assert change.fields == ("trigger", "queue")
    assert values_of(change)[1] == ("queue", "default", "slow")
    assert not found.changes_nothing
    assert len(client.list_definitions()) == 3
    client.declare(declared, owner="shop")
    after = plan(client, declared, owner="shop")
    assert after.changes_nothing
    assert len(after.unchanged) == 3


def test_a_trigger_without_an_anchor_is_as_the_one_that_is_stored() -> None:
    each = replace(task("a"), trigger=IntervalTrigger(HOUR))
    client = client_of(MemoryStore(), each)
    assert plan(client, [each], owner="shop").changes_nothing


@pytest.mark.parametrize("metadata", [{"n": True}, {"n": 2}, {}])
def test_metadata_that_differs_is_told(metadata: dict[str, Any]) -> None:
    client = client_of(MemoryStore(), task("a", metadata={"n": 1}))
    [change] = plan(client, [task("a", metadata=metadata)], owner="shop").changed
    assert change.fields == ("metadata",)


def test_what_is_somebody_elses_is_refused_and_what_is_nobodys_unless_adopted() -> None:
    client = client_of(MemoryStore(), task("theirs"))
    client.schedule(task("nobodys"))
    declared = [task("theirs"), task("nobodys")]
    found = plan(client, declared, owner="bank")
    assert len(found.refused) == 2
    assert not found.changes_nothing
    assert "is in the set of 'shop'" in found.refused[0]
    found = plan(client, declared, owner="bank", adopt=True)
    [change] = found.changed
    assert values_of(change) == [("owner", None, "bank")]
    with pytest.raises(ConfigurationError):
        client.declare(declared, owner="bank", adopt=True)


def test_what_the_set_had_paused_is_resumed_when_it_is_declared_again() -> None:
    client = client_of(MemoryStore(), task("a"))
    client.declare([], owner="shop", removed="pause")
    assert plan(client, [], owner="shop", removed="pause").changes_nothing
    [change] = plan(client, [task("a")], owner="shop").changed
    assert values_of(change) == [("paused", True, False)]


def test_what_stays_though_it_is_declared_no_more_is_no_change() -> None:
    client = client_of(MemoryStore(), task("a"))
    found = plan(client, [], owner="shop", removed="keep")
    assert [each.name for each in found.removed] == ["a"]
    assert found.changes_nothing


@pytest.mark.slow
def test_a_large_set_is_read_page_by_page() -> None:
    many = [task(f"task {number}") for number in range(1001)]
    client = client_of(MemoryStore(), *many)
    assert plan(client, many, owner="shop").changes_nothing
    assert len(plan(client, many, owner="bank").refused) == 1001


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"owner": ""}, "owner must"),
        ({"removed": "drop"}, "removed must be 'delete', 'pause' or 'keep'"),
        ({"declared": 7}, "definitions must be"),
        ({"declared": ["a"]}, "a definition must be"),
        ({"declared": [task("a"), task("a")]}, "is there twice"),
        (
            {"declared": [TaskDefinition(trigger=IntervalTrigger(HOUR))]},
            "needs an id of its own",
        ),
    ],
)
def test_an_argument_that_is_wrong_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        compare(**({"declared": [], "stored": [], "owner": "shop"} | given))
