"""Backfilling: the past of a schedule is made up for, each fire time once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler.client import Client
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    InvalidTriggerError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    UnknownTriggerError,
)
from go_scheduler.events import InstancesBackfilled
from go_scheduler.models import TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import HOUR, MINUTE, NOBODY, SECOND, firing
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.base import Trigger, UnknownTrigger
from go_scheduler.triggers.simple import DelayTrigger, IntervalTrigger, OnDemandTrigger
from tests.conftest import SHARED, SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from tests.behaviour.house import World
    from tests.shop import Shop

DAY = 24 * HOUR
YESTERDAY = START - DAY
HOURLY = TaskDefinition(
    trigger=IntervalTrigger(HOUR, anchor=START - 1000 * HOUR),
    id=TaskDefinition.id_for("hourly"),
    name="hourly",
)
EACH_MINUTE = replace(HOURLY, trigger=IntervalTrigger(MINUTE, anchor=YESTERDAY))
# While nothing is to happen, for an hour.
SELDOM: dict[str, Any] = {"schedule_window": MINUTE, "runner_window": MINUTE}
FIRST_THREE = [YESTERDAY + number * HOUR for number in range(3)]
THEIR_RANGE = YESTERDAY, FIRST_THREE[-1] + timedelta(microseconds=1)


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def of_memory(memory: MemoryStore) -> Client:
    client = Client(memory)
    client.schedule(HOURLY)
    return client


def fire_times(client: Client) -> Sequence[datetime | None]:
    return [each.fire_time for each in client.list_instances(limit=1000)]


@pytest.mark.parametrize("engine", ["memory", *SHARED])
def test_each_fire_time_of_the_range_runs_once_in_its_order(
    store: Store, store_url: str, clock: ManualClock
) -> None:
    seen: list[TaskInstance] = []
    with Scheduler(seen.append, store, clock=clock, max_workers=1) as scheduler:
        before = scheduler.schedule(HOURLY)
        found = scheduler.backfill(HOURLY.id, YESTERDAY, START)
        assert (found.made, found.there, found.next) == (24, 0, None)
        assert (found.first, found.last) == (YESTERDAY, START - HOUR)
        assert scheduler.backfill(HOURLY.id, YESTERDAY, START).made == 0
        after = scheduler.get_definition(HOURLY.id)
        assert after.next_fire_time == before.next_fire_time
        assert after.revision == before.revision
        clock.advance(SECOND)
        ran = [each.fire_time for each in seen if each.fire_time is not None]
        hours = [YESTERDAY + number * HOUR for number in range(24)]
        # CockroachDB spreads what is due.
        assert (sorted(ran) if store_url.startswith("cockroachdb") else ran) == hours
    with Scheduler(seen.append, store, clock=clock, **SELDOM) as scheduler:
        clock.advance(HOUR)
        again = scheduler.backfill(HOURLY.id, YESTERDAY, clock.now())
        # The schedule begins an hour after it was made.
        assert (again.made, again.first, again.there) == (1, START, 25)


class TestTheRange:
    """Which fire times are in it."""

    @pytest.mark.parametrize(
        ("start", "end", "made"),
        [
            (YESTERDAY, YESTERDAY + 2 * HOUR, FIRST_THREE[:2]),
            # What is to come is left to the schedule.
            (START - HOUR, START + DAY, [START - HOUR]),
            (YESTERDAY + MINUTE, YESTERDAY + HOUR, []),
        ],
    )
    def test_its_start_is_in_it_and_its_end_is_not(
        self,
        of_memory: Client,
        start: datetime,
        end: datetime,
        made: Sequence[datetime],
    ) -> None:
        found = of_memory.backfill(HOURLY.id, start, end)
        assert fire_times(of_memory) == made
        assert (found.made, found.there) == (len(made), 0)
        assert [found.first, found.last] == (
            [made[0], made[-1]] if made else [None] * 2
        )

    def test_a_limit_ends_it_and_says_where_to_go_on(self, of_memory: Client) -> None:
        start: datetime | None = YESTERDAY
        made = []
        while start is not None:
            found = of_memory.backfill(HOURLY.id, start, START, limit=10)
            made.append(found.made)
            start = found.next
        assert made == [10, 10, 4]
        assert len(fire_times(of_memory)) == 24

    def test_what_is_there_is_not_counted_by_the_limit(self, of_memory: Client) -> None:
        of_memory.backfill(HOURLY.id, *THEIR_RANGE)
        found = of_memory.backfill(HOURLY.id, YESTERDAY, START, limit=21)
        assert (found.made, found.there, found.next) == (21, 3, None)


@dataclass(frozen=True)
class ForeignTrigger(Trigger):
    """Fires each hour, until it does something else."""

    kind: ClassVar[str] = "tests.backfilled"
    told: ClassVar[list[object]] = []

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.told.append(threading.get_ident())
        if after >= START - HOUR and after < START:
            raise RuntimeError("no")
        return IntervalTrigger(HOUR, anchor=YESTERDAY).next_fire_time(after)


class TestRefusals:
    """What cannot be backfilled, and says why."""

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"start": YESTERDAY.replace(tzinfo=None)}, "start has no time zone"),
            ({"end": START.replace(tzinfo=None)}, "end has no time zone"),
            ({"start": START}, "start must be before end"),
            ({"start": START, "end": YESTERDAY}, "start must be before end"),
            ({"start": START, "end": START + HOUR}, "nothing from start on has passed"),
            ({"start": "yesterday"}, "start must be a datetime"),
            ({"overlap": "all"}, "overlap"),
            ({"limit": 0}, "limit must be at least 1"),
            ({"definition_id": "hourly"}, "definition_id"),
        ],
    )
    def test_a_wrong_argument(
        self, of_memory: Client, wrong: dict[str, Any], why: str
    ) -> None:
        given = {"definition_id": HOURLY.id, "start": YESTERDAY, "end": START}
        with pytest.raises(ConfigurationError, match=why):
            of_memory.backfill(**{**given, **wrong})

    def test_an_unknown_definition(self, of_memory: Client) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            of_memory.backfill(NOBODY, YESTERDAY, START)

    @pytest.mark.parametrize(
        ("trigger", "error", "why"),
        [
            (OnDemandTrigger(), ConfigurationError, r"runs on demand.*enqueue\(\)"),
            (DelayTrigger(HOUR), ConfigurationError, r"of each run.*run_now\(\)"),
            (
                UnknownTrigger("tests.gone", {}, "its class is not imported"),
                UnknownTriggerError,
                "not imported",
            ),
        ],
    )
    def test_a_trigger_without_fire_times_that_can_be_known(
        self, memory: MemoryStore, trigger: Trigger, error: type[Exception], why: str
    ) -> None:
        new = TaskDefinition(trigger=trigger, next_fire_time=START)
        memory.put_definitions([new])
        with pytest.raises(error, match=why):
            Client(memory).backfill(new.id, YESTERDAY, START)

    def test_a_foreign_trigger_is_asked_here_and_may_fail_here(
        self, memory: MemoryStore
    ) -> None:
        new = TaskDefinition(trigger=ForeignTrigger(), next_fire_time=START)
        memory.put_definitions([new])
        client = Client(memory)
        ForeignTrigger.told.clear()
        with pytest.raises(InvalidTriggerError, match="raised RuntimeError"):
            client.backfill(new.id, YESTERDAY, START)
        assert set(ForeignTrigger.told) == {threading.get_ident()}
        assert fire_times(client) == []
        assert client.backfill(new.id, YESTERDAY, START - HOUR).made == 23


class TestBatches:
    """A long range is gone over in batches, and what happens between these."""

    @pytest.fixture
    def client(self, world: World) -> Client:
        client = Client(world.store)
        client.schedule(EACH_MINUTE)
        return client

    @staticmethod
    def after_one(world: World, call: Callable[[], object]) -> None:
        """Let something happen after the first batch."""
        world.faults.meanwhile["backfill_instances"] = call

    @pytest.mark.parametrize(
        "error",
        [
            StoreUnavailableError("gone"),
            # Though nobody has changed anything.
            ConflictError(HOURLY.id, expected=None, revision=None),
        ],
        ids=["away", "conflict"],
    )
    def test_one_that_fails_leaves_those_before_and_the_next_call_goes_on(
        self, client: Client, world: World, error: Exception
    ) -> None:
        failing = world.faults.failing
        self.after_one(world, lambda: failing.update(backfill_instances=error))
        with pytest.raises(type(error)):
            client.backfill(HOURLY.id, YESTERDAY, START)
        failing.clear()
        world.faults.asked.clear()
        found = client.backfill(HOURLY.id, YESTERDAY, START)
        assert (found.made, found.there) == (940, 500)
        assert found.first == YESTERDAY + 500 * MINUTE
        assert world.faults.asked.count("backfill_instances") == 3

    def test_an_edit_of_something_else_makes_no_difference(
        self, client: Client, world: World
    ) -> None:
        renamed = replace(EACH_MINUTE, queue="slow")
        self.after_one(world, lambda: client.schedule(renamed))
        assert client.backfill(HOURLY.id, YESTERDAY, START).made == 24 * 60
        found = client.list_instances(limit=1000)
        assert {each.definition.queue for each in found} == {"slow"}

    @pytest.mark.parametrize(
        ("anew", "error", "left"),
        [
            (HOURLY.trigger, ConflictError, 500),
            (None, TaskDefinitionNotFoundError, 0),
            (IntervalTrigger(2 * MINUTE), ConflictError, 0),
        ],
        ids=["another trigger", "deleted", "another definition of the id"],
    )
    def test_what_is_another_one_by_then_ends_it(
        self,
        client: Client,
        world: World,
        anew: Trigger | None,
        error: type[Exception],
        left: int,
    ) -> None:
        def change() -> None:
            if not left:
                client.delete_definition(HOURLY.id)
            if anew is not None:
                client.schedule(replace(HOURLY, trigger=anew))

        self.after_one(world, change)
        with pytest.raises(error):
            client.backfill(HOURLY.id, YESTERDAY, START)
        assert len(fire_times(client)) == left


def test_it_is_told_once_of_all(world: World) -> None:
    node = world.node(None)
    node.schedule(HOURLY)
    node.backfill(HOURLY.id, YESTERDAY, START, overlap=Overlap.SKIP)
    node.backfill(HOURLY.id, YESTERDAY, START)
    assert {each.backfilled for each in node.list_instances()} == {Overlap.SKIP}
    assert world.heard.of(InstancesBackfilled) == [
        InstancesBackfilled(
            definition_id=HOURLY.id,
            name="hourly",
            queue="default",
            first=YESTERDAY,
            last=START - HOUR,
            count=24,
            overlap=Overlap.SKIP,
            joined=False,
        )
    ]


class TestInATransaction:
    """With a connection of the user's."""

    @pytest.fixture(params=SQL)
    def engine(self, request: pytest.FixtureRequest) -> str:
        kind: str = request.param
        return kind

    def test_one_of_too_many_is_refused(self, client: Client, shop: Shop) -> None:
        client.schedule(replace(HOURLY, trigger=IntervalTrigger(SECOND, YESTERDAY)))
        with shop.engine.begin() as connection:
            for limit in (None, 10_001):
                with pytest.raises(ConfigurationError, match=r"more than 10,000"):
                    client.backfill(
                        HOURLY.id, YESTERDAY, START, limit=limit, connection=connection
                    )
            few = YESTERDAY + 10_000 * SECOND
            found = client.backfill(HOURLY.id, few - SECOND, few, connection=connection)
            assert found.made == 1


@pytest.mark.parametrize("engine", SQL[1:], indirect=True)
def test_beside_an_open_transaction_nothing_is_made_twice(
    client: Client, store: Store, shop: Shop
) -> None:
    """The schedule finds its definition busy, and another backfill waits."""
    [of] = store.put_definitions(
        [replace(HOURLY, next_fire_time=YESTERDAY)]
    ).definitions
    step = firing(of, *FIRST_THREE, next_fire_time=START)
    with ThreadPoolExecutor() as pool:
        with shop.engine.begin() as connection:
            joined = client.backfill(of.id, *THEIR_RANGE, connection=connection)
            assert store.fire_definitions([step]).busy == {of.id}
            beside = pool.submit(client.backfill, of.id, *THEIR_RANGE)
        assert (joined.made, beside.result().made) == (3, 0)
    assert store.fire_definitions([step]).done == {of.id}
    assert fire_times(client) == FIRST_THREE
