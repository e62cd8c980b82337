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
from go_scheduler.client import Client
from go_scheduler.events import (
    Change,
    DeclarationOutdated,
    DefinitionChanged,
    DefinitionDeleted,
    DefinitionScheduled,
)
from go_scheduler.testing.builders import HOUR, SECOND
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler import TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store)


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
    def test_it_keeps_what_it_counts_from_at_each_start(
        self, client: Client, clock: ManualClock
    ) -> None:
        client.declare([ONE], owner="app")
        clock.advance(HOUR / 2)
        [again] = client.declare([ONE], owner="app")
        assert again.next_fire_time == START + HOUR

    def test_it_can_be_awaited(self, client: Client) -> None:
        async def main() -> Sequence[TaskDefinition]:
            await client.adeclare([ONE], owner="app", version=1)
            await client.adeclare([TWO], owner="app", version=1, removed="pause")
            return await client.adeclare([ONE, THREE], owner="app", version=0)

        assert asyncio.run(main()) == []
        assert names(client) == {"one", "two"}
        assert client.get_definition(ONE.id).note == "no longer declared by app"

    def test_what_is_changed_by_hand_the_next_declaration_changes_back(
        self, client: Client
    ) -> None:
        client.declare([ONE, TWO], owner="app")
        changed = client.schedule(replace(ONE, metadata={"a": 1}))
        assert changed.owner == "app"
        client.delete_definition(TWO.id)
        client.declare(iter([ONE, TWO]), owner="app")
        assert client.get_definition(ONE.id).metadata == {}
        assert names(client) == {"one", "two"}

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
        with pytest.raises(ConfigurationError, match=r"such as id=.*IntervalTrigger\("):
            client.declare([new], owner="app")

    def test_what_nobody_can_own_is_not_listed(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match="owner must be a str"):
            client.list_definitions(owner=5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="owner"):
            named("one", owner="")


@pytest.mark.parametrize("engine", ["memory"])
class TestSchedulers:
    @pytest.fixture
    def told(self) -> list[Event]:
        return []

    @pytest.fixture
    def scheduler(
        self, store: Store, clock: ManualClock, told: list[Event]
    ) -> Scheduler:
        return Scheduler(self.note, store, clock=clock, listeners=[told.append])

    ran: list[str | None]

    def note(self, instance: TaskInstance) -> None:
        self.ran.append(instance.definition.name)

    @pytest.fixture(autouse=True)
    def _nothing_ran(self) -> None:
        self.ran = []

    def test_what_goes_on_after_its_set_had_paused_it_runs(
        self, scheduler: Scheduler, clock: ManualClock
    ) -> None:
        scheduler.declare([ONE], owner="app")
        scheduler.declare([], owner="app", removed="pause")
        with scheduler:
            clock.advance(HOUR + SECOND)
            assert self.ran == []
            scheduler.declare([ONE], owner="app")
            clock.advance(SECOND)
            assert self.ran == ["one"]

    def test_what_becomes_of_each_is_told(
        self, scheduler: Scheduler, told: list[Event]
    ) -> None:
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
