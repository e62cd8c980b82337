"""An application declares what it has, as a whole, at each of its starts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    IntervalTrigger,
    Scheduler,
    ScheduleWarning,
    TaskDefinition,
)
from go_scheduler.events import (
    Change,
    DeclarationOutdated,
    DefinitionChanged,
    DefinitionDeleted,
    DefinitionScheduled,
)
from go_scheduler.testing.builders import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.client import Client
    from go_scheduler.events import Event
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


def named(name: str, **values: Any) -> TaskDefinition:
    return TaskDefinition(
        **{
            "id": TaskDefinition.id_for(name),
            "name": name,
            "trigger": IntervalTrigger(HOUR),
            **values,
        }
    )


ONE, TWO, THREE = map(named, ("one", "two", "three"))


def names(client: Client) -> set[str | None]:
    return {each.name for each in client.list_definitions(owner="app")}


class TestDeclaring:
    def test_it_can_be_awaited(self, client: Client) -> None:
        async def main() -> Sequence[TaskDefinition]:
            await client.adeclare([ONE], owner="app", version=1)
            await client.adeclare([TWO], owner="app", version=1, removed="pause")
            return await client.adeclare([ONE, THREE], owner="app", version=0)

        assert asyncio.run(main()) == []
        assert names(client) == {"one", "two"}
        assert client.get_definition(ONE.id).note == "no longer declared by app"

    def test_the_author_of_an_odd_one_is_warned_once(self, client: Client) -> None:
        odd = named("odd", trigger=CronTrigger("*/7 * * * *"))
        with pytest.warns(ScheduleWarning, match=r"\*/7") as shown:
            client.declare([odd], owner="app")
        client.declare([odd, ONE], owner="app")
        assert [each.filename for each in shown] == [__file__]
        other = replace(odd, trigger=CronTrigger("*/11 * * * *"))
        with pytest.warns(ScheduleWarning, match=r"\*/11") as shown:
            asyncio.run(self.declare(client, other))
        assert [each.filename for each in shown] == [__file__]

    async def declare(self, client: Client, definition: TaskDefinition) -> None:
        await client.adeclare([definition], owner="app")


@pytest.mark.parametrize("engine", ["memory"])
class TestRefusals:
    @pytest.mark.parametrize(
        ("wrong", "problem"),
        [
            ({"owner": ""}, "owner"),
            ({"owner": 5}, "owner must be a str"),
            ({"owner": "x" * 201}, "owner"),
            ({"version": "1"}, "version must be an int"),
            ({"version": True}, "version must be an int"),
            ({"version": -1}, "version must be from 0 to"),
            ({"version": 2**63}, "version must be from 0 to"),
            (
                {"removed": "forget"},
                "removed must be 'delete', 'pause' or 'keep', not 'forget'",
            ),
            ({"removed": ["keep"]}, r"'keep', not \['keep'\]"),
            ({"adopt": 1}, "adopt must be a bool"),
            ({"definitions": ONE}, "definitions must be several"),
            ({"definitions": ["one"]}, "must be a TaskDefinition, not 'one'"),
            ({"definitions": [ONE, ONE]}, "is there twice"),
        ],
    )
    def test_a_wrong_argument_is_refused(
        self, client: Client, wrong: dict[str, Any], problem: str
    ) -> None:
        arguments = {"definitions": [ONE], "owner": "app", **wrong}
        with pytest.raises(ConfigurationError, match=problem):
            client.declare(arguments.pop("definitions"), **arguments)
        assert client.list_definitions() == []

    def test_an_id_that_is_made_up_at_each_start_is_refused(
        self, client: Client
    ) -> None:
        new = TaskDefinition(trigger=IntervalTrigger(HOUR))
        with pytest.raises(ConfigurationError, match=r"as by key=.*IntervalTrigger\("):
            client.declare([new], owner="app")


@pytest.mark.parametrize("engine", ["memory"])
def test_what_becomes_of_each_is_told(store: Store, clock: ManualClock) -> None:
    told: list[Event] = []
    scheduler = Scheduler(None, store, clock=clock, listeners=[told.append])

    def of(kind: type[Event]) -> list[Any]:
        found = [each for each in told if isinstance(each, kind)]
        told.clear()
        return found

    scheduler.declare([ONE, TWO], owner="app")
    scheduled = of(DefinitionScheduled)
    assert [each.name for each in scheduled] == ["one", "two"]
    assert not scheduled[0].joined
    scheduler.declare([ONE], owner="app", removed="pause")
    [paused] = of(DefinitionChanged)
    assert (paused.name, paused.change) == ("two", Change.PAUSED)
    assert paused.note == "no longer declared by app"
    scheduler.declare([ONE, TWO], owner="app")
    [resumed] = of(DefinitionChanged)
    assert (resumed.name, resumed.change) == ("two", Change.RESUMED)
    scheduler.declare([ONE], owner="app", version=3)
    [deleted] = of(DefinitionDeleted)
    assert deleted.definition_id == TWO.id
    scheduler.declare([TWO], owner="app", version=2)
    assert told == [DeclarationOutdated(owner="app", version=2, stored=3)]
