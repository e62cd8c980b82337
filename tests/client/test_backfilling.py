"""Backfilling: the past of a schedule is made up for, each fire time once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from sqlalchemy import create_engine, make_url

from go_scheduler.client import Client
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    InvalidTriggerError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    UnknownTriggerError,
)
from go_scheduler.events import Event, InstancesBackfilled
from go_scheduler.models import State, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap
from go_scheduler.run import RetryAfter
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    clean_up,
    firing,
)
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger
from tests.conftest import SHARED, SQL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.client.backfilling import Backfill
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

DAY = 24 * HOUR
YESTERDAY = START - DAY
HOURLY = TaskDefinition(
    trigger=IntervalTrigger(HOUR, anchor=START - 1000 * HOUR),
    id=TaskDefinition.id_for("hourly"),
    name="hourly",
)
# While nothing is to happen, for an hour.
SELDOM: dict[str, Any] = {"schedule_window": MINUTE, "runner_window": MINUTE}
FIRST_THREE = [YESTERDAY + number * HOUR for number in range(3)]


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store)


def fire_times(client: Client) -> Sequence[datetime | None]:
    return [each.fire_time for each in client.list_instances(limit=1000)]


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


@pytest.mark.parametrize("engine", ["memory", *SHARED])
class TestWhatIsMade:
    """On each store, over the loops."""

    def test_each_fire_time_of_the_range_runs_once_in_its_order(
        self, store: Store, store_url: str, clock: ManualClock
    ) -> None:
        seen: list[TaskInstance] = []
        with Scheduler(seen.append, store, clock=clock, max_workers=1) as scheduler:
            scheduler.schedule(HOURLY)
            found = scheduler.backfill(HOURLY.id, YESTERDAY, START)
            assert (found.made, found.there, found.next) == (24, 0, None)
            assert (found.first, found.last) == (YESTERDAY, START - HOUR)
            assert scheduler.backfill(HOURLY.id, YESTERDAY, START).made == 0
            clock.advance(SECOND)
            ran = [each.fire_time for each in seen if each.fire_time is not None]
            hours = [YESTERDAY + number * HOUR for number in range(24)]
            # CockroachDB spreads what is due.
            assert (
                sorted(ran) if store_url.startswith("cockroachdb") else ran
            ) == hours
        with Scheduler(seen.append, store, clock=clock, **SELDOM) as scheduler:
            clock.advance(HOUR)
            again = scheduler.backfill(HOURLY.id, YESTERDAY, clock.now())
            # The schedule begins an hour after it was made.
            assert (again.made, again.first, again.there) == (1, START, 25)

    @pytest.mark.parametrize(
        ("overlap", "order"),
        [
            (None, [0, 1, 2, 0, 1, 2]),
            (Overlap.BUFFER_ALL, [0, 0, 1, 1, 2, 2]),
            (Overlap.BUFFER_ONE, [0, 0, 1, 1]),
            (Overlap.SKIP, [0, 0]),
        ],
    )
    def test_they_exclude_each_other_by_their_own_overlap(
        self,
        store: Store,
        clock: ManualClock,
        overlap: Overlap | None,
        order: Sequence[int],
    ) -> None:
        seen: list[datetime | None] = []

        def handler(instance: TaskInstance) -> None:
            seen.append(instance.fire_time)
            if instance.runs == 1:
                # It runs, to those that exclude it, until it has been tried again.
                raise RetryAfter(10 * SECOND)

        with Scheduler(handler, store, clock=clock) as scheduler:
            scheduler.schedule(HOURLY)
            first, *rest = FIRST_THREE
            scheduler.backfill(HOURLY.id, *range_of([first]), overlap=overlap)
            clock.advance(SECOND)
            scheduler.backfill(HOURLY.id, *range_of(rest), overlap=overlap)
            clock.advance(2 * MINUTE)
        # What is tried again at one moment has no order.
        assert seen[:4] == [FIRST_THREE[number] for number in order[:4]]
        assert sorted(seen) == sorted(FIRST_THREE[number] for number in order)  # type: ignore[type-var]

    def test_no_catch_up_drops_or_skips_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[TaskInstance] = []
        catch_up = CatchUp(mode="none", drop_after=MINUTE)
        with Scheduler(seen.append, store, clock=clock) as scheduler:
            scheduler.schedule(replace(HOURLY, catch_up=catch_up))
            scheduler.backfill(HOURLY.id, *range_of(FIRST_THREE))
            clock.advance(SECOND)
        assert [each.fire_time for each in seen] == FIRST_THREE

    def test_what_was_missed_and_skipped_is_overruled_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        client = Client(store)
        client.schedule(HOURLY)
        clock.advance(DAY)
        seen: list[TaskInstance] = []
        with Scheduler(seen.append, store, clock=clock) as scheduler:
            clock.advance(SECOND)
            assert len(seen) == 1
            found = scheduler.backfill(HOURLY.id, START, clock.now())
            assert (found.made, found.there) == (24, 1)
            clock.advance(SECOND)
            assert len(seen) == 25
            assert scheduler.backfill(HOURLY.id, START, clock.now()).made == 0
            assert scheduler.counts()[State.SKIPPED] == 1

    def test_what_was_deleted_by_cleanup_runs_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[TaskInstance] = []
        with Scheduler(seen.append, store, clock=clock) as scheduler:
            scheduler.schedule(HOURLY)
            for _ in range(2):
                found = scheduler.backfill(HOURLY.id, *range_of(FIRST_THREE))
                assert found.made == 3
                clock.advance(MINUTE)
                clean_up(store)
        assert len([each for each in seen if each.fire_time in FIRST_THREE]) == 6

    def test_those_of_a_paused_definition_wait_for_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[TaskInstance] = []
        with Scheduler(seen.append, store, clock=clock) as scheduler:
            scheduler.schedule(HOURLY)
            scheduler.pause(HOURLY.id)
            assert scheduler.backfill(HOURLY.id, *range_of(FIRST_THREE)).made == 3
            clock.advance(MINUTE)
            assert seen == []
            scheduler.resume(HOURLY.id)
            clock.advance(SECOND)
            assert [each.fire_time for each in seen[:3]] == FIRST_THREE

    def test_the_schedule_goes_on_as_it_was(
        self, client: Client, clock: ManualClock
    ) -> None:
        before = client.schedule(HOURLY)
        client.backfill(HOURLY.id, YESTERDAY, START)
        after = client.get_definition(HOURLY.id)
        assert after.next_fire_time == before.next_fire_time
        assert after.revision == before.revision

    def test_a_one_off_that_is_over_is_backfilled_if_nothing_is_left_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[TaskInstance] = []
        once = TaskDefinition(trigger=ExecuteOnceTrigger(START))
        with Scheduler(seen.append, store, clock=clock) as scheduler:
            scheduler.schedule(once)
            clock.advance(MINUTE)
            assert scheduler.backfill(once.id, YESTERDAY, clock.now()).there == 1
        assert len(seen) == 1


def range_of(given: Sequence[datetime]) -> tuple[datetime, datetime]:
    """From the first of some fire times to behind the last."""
    return given[0], given[-1] + timedelta(microseconds=1)


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def of_memory(memory: MemoryStore) -> Client:
    client = Client(memory)
    client.schedule(HOURLY)
    return client


class TestTheRange:
    """Which fire times are in it."""

    def test_its_start_is_in_it_and_its_end_is_not(self, of_memory: Client) -> None:
        of_memory.backfill(HOURLY.id, YESTERDAY, YESTERDAY + 2 * HOUR)
        assert fire_times(of_memory) == FIRST_THREE[:2]

    def test_ranges_one_after_the_other_make_all(self, of_memory: Client) -> None:
        middle = YESTERDAY + 90 * MINUTE
        of_memory.backfill(HOURLY.id, middle, START)
        of_memory.backfill(HOURLY.id, YESTERDAY, middle)
        assert len(fire_times(of_memory)) == 24

    def test_what_is_to_come_is_left_to_the_schedule(self, of_memory: Client) -> None:
        found = of_memory.backfill(HOURLY.id, START - HOUR, START + DAY)
        assert (found.made, found.last) == (1, START - HOUR)

    def test_it_may_begin_with_the_calendar(self, of_memory: Client) -> None:
        begin = datetime.min.replace(tzinfo=UTC)
        assert of_memory.backfill(HOURLY.id, begin, YESTERDAY).made == 1000 - 24

    def test_one_without_fire_times_makes_nothing(self, of_memory: Client) -> None:
        found = of_memory.backfill(HOURLY.id, YESTERDAY + MINUTE, YESTERDAY + HOUR)
        assert (found.made, found.there, found.first, found.last) == (0, 0, None, None)

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
        of_memory.backfill(HOURLY.id, *range_of(FIRST_THREE))
        found = of_memory.backfill(HOURLY.id, YESTERDAY, START, limit=21)
        assert (found.made, found.there, found.next) == (21, 3, None)


class TestRefusals:
    """What cannot be backfilled, and says why."""

    @pytest.mark.parametrize(
        ("start", "end", "why"),
        [
            (YESTERDAY.replace(tzinfo=None), START, "start has no time zone"),
            (YESTERDAY, START.replace(tzinfo=None), "end has no time zone"),
            (START, START, "start must be before end"),
            (START, YESTERDAY, "start must be before end"),
            (START, START + HOUR, "nothing from start on has passed yet"),
            ("yesterday", START, "start must be a datetime"),
        ],
    )
    def test_a_range_that_is_none(
        self, of_memory: Client, start: datetime, end: datetime, why: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=why):
            of_memory.backfill(HOURLY.id, start, end)

    def test_other_arguments(self, of_memory: Client) -> None:
        with pytest.raises(ConfigurationError, match="overlap"):
            of_memory.backfill(HOURLY.id, YESTERDAY, START, overlap="all")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="limit must be at least 1"):
            of_memory.backfill(HOURLY.id, YESTERDAY, START, limit=0)
        with pytest.raises(ConfigurationError, match="definition_id"):
            of_memory.backfill("hourly", YESTERDAY, START)  # type: ignore[arg-type]

    def test_an_unknown_definition(self, of_memory: Client) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            of_memory.backfill(NOBODY, YESTERDAY, START)

    @pytest.mark.parametrize(
        ("trigger", "why"),
        [
            (OnDemandTrigger(), r"runs on demand.*enqueue\(\)"),
            (DelayTrigger(HOUR), r"counts from the end of each run.*run_now\(\)"),
        ],
    )
    def test_a_trigger_without_fire_times_of_its_own(
        self, of_memory: Client, trigger: Trigger, why: str
    ) -> None:
        new = of_memory.schedule(TaskDefinition(trigger=trigger))
        with pytest.raises(ConfigurationError, match=why):
            of_memory.backfill(new.id, YESTERDAY, START)

    def test_a_trigger_that_nobody_knows_here(
        self, memory: MemoryStore, of_memory: Client
    ) -> None:
        unknown = UnknownTrigger("tests.gone", {}, "its class is not imported")
        [new] = memory.put_definitions(
            [TaskDefinition(trigger=unknown, next_fire_time=START)]
        )
        with pytest.raises(UnknownTriggerError, match="not imported"):
            of_memory.backfill(new.id, YESTERDAY, START)

    def test_a_foreign_trigger_is_asked_here_and_may_fail_here(
        self, memory: MemoryStore, of_memory: Client
    ) -> None:
        new = TaskDefinition(trigger=ForeignTrigger(), next_fire_time=START)
        [new] = memory.put_definitions([new])
        ForeignTrigger.told.clear()
        with pytest.raises(InvalidTriggerError, match="raised RuntimeError"):
            of_memory.backfill(new.id, YESTERDAY, START)
        assert set(ForeignTrigger.told) == {threading.get_ident()}
        assert fire_times(of_memory) == []
        found = of_memory.backfill(new.id, YESTERDAY, START - HOUR)
        assert found.made == 23


class Interrupting(MemoryStore):
    """Lets something happen before each batch, and notes how large they are."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.sizes: list[int] = []
        self.before: list[object] = []

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        self.sizes.append(len(fire_times))
        if len(self.sizes) == 2:
            for call in self.before:
                call()  # type: ignore[operator]
        return super().backfill_instances(definition, fire_times, overlap=overlap)


@pytest.fixture
def interrupting(clock: ManualClock) -> Interrupting:
    return Interrupting(clock)


EACH_MINUTE = replace(HOURLY, trigger=IntervalTrigger(MINUTE, anchor=YESTERDAY))


class TestBatches:
    """A long range is gone over in batches, and what happens between these."""

    @pytest.fixture
    def client(self, interrupting: Interrupting) -> Client:
        client = Client(interrupting)
        client.schedule(EACH_MINUTE)
        return client

    def fill(self, client: Client) -> Backfill:
        return client.backfill(HOURLY.id, YESTERDAY, START)

    def test_each_has_five_hundred_at_most(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        assert self.fill(client).made == 24 * 60
        assert interrupting.sizes == [500, 500, 440]

    def test_one_that_fails_leaves_those_before_and_the_next_call_goes_on(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        def fail() -> None:
            raise StoreUnavailableError("gone")

        interrupting.before.append(fail)
        with pytest.raises(StoreUnavailableError):
            self.fill(client)
        found = self.fill(client)
        assert (found.made, found.there) == (940, 500)
        assert found.first == YESTERDAY + 500 * MINUTE

    def test_an_edit_of_something_else_makes_no_difference(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        renamed = replace(EACH_MINUTE, queue="slow")
        interrupting.before.append(lambda: client.schedule(renamed))
        assert self.fill(client).made == 24 * 60
        found = client.list_instances(limit=1000)
        assert {each.definition.queue for each in found} == {"slow"}

    def test_an_edit_of_the_trigger_ends_it(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        interrupting.before.append(lambda: client.schedule(HOURLY))
        with pytest.raises(ConflictError):
            self.fill(client)
        assert len(fire_times(client)) == 500

    def test_a_conflict_without_any_change_ends_it(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        def conflict() -> None:
            raise ConflictError(HOURLY.id, expected=None, revision=None)

        interrupting.before.append(conflict)
        with pytest.raises(ConflictError):
            self.fill(client)

    def test_a_delete_ends_it(self, client: Client, interrupting: Interrupting) -> None:
        interrupting.before.append(lambda: client.delete_definition(HOURLY.id))
        with pytest.raises(TaskDefinitionNotFoundError):
            self.fill(client)
        assert fire_times(client) == []

    def test_one_that_another_schedule_takes_the_id_of_is_not_meant(
        self, client: Client, interrupting: Interrupting
    ) -> None:
        def begin_anew() -> None:
            client.delete_definition(HOURLY.id)
            client.schedule(replace(HOURLY, trigger=IntervalTrigger(MINUTE)))

        interrupting.before.append(begin_anew)
        with pytest.raises(ConflictError):
            self.fill(client)


class TestTelling:
    """What is told of it."""

    def test_it_is_told_once_of_all(
        self, memory: MemoryStore, clock: ManualClock
    ) -> None:
        heard: list[Event] = []
        with Scheduler(
            None, memory, clock=clock, listeners=[heard.append]
        ) as scheduler:
            scheduler.schedule(HOURLY)
            scheduler.backfill(HOURLY.id, YESTERDAY, START, overlap=Overlap.SKIP)
            scheduler.backfill(HOURLY.id, YESTERDAY, START)
            clock.advance(SECOND)
        assert [each for each in heard if isinstance(each, InstancesBackfilled)] == [
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

    def test_the_awaitable_form_does_the_same(self, of_memory: Client) -> None:
        found = asyncio.run(of_memory.abackfill(HOURLY.id, *range_of(FIRST_THREE)))
        assert found.made == 3


class TestInATransaction:
    """With a connection of the user's."""

    @pytest.fixture(params=SQL)
    def engine(self, request: pytest.FixtureRequest) -> str:
        kind: str = request.param
        return kind

    def test_it_is_made_if_that_commits_and_not_else(
        self, client: Client, store_url: str
    ) -> None:
        client.schedule(HOURLY)
        engine = connected(store_url)
        with engine.connect() as connection:
            with connection.begin() as transaction:
                found = client.backfill(
                    HOURLY.id, *range_of(FIRST_THREE), connection=connection
                )
                assert found.made == 3
                transaction.rollback()
            assert fire_times(client) == []
            with connection.begin():
                new = replace(HOURLY, id=TaskDefinition.id_for("new"))
                client.schedule(new, connection=connection)
                again = client.backfill(
                    new.id, *range_of(FIRST_THREE), limit=2, connection=connection
                )
                assert (again.made, again.next) == (2, FIRST_THREE[2])
        assert fire_times(client) == FIRST_THREE[:2]
        engine.dispose()

    def test_one_of_too_many_is_refused(self, client: Client, store_url: str) -> None:
        each_second = replace(EACH_MINUTE, trigger=IntervalTrigger(SECOND, YESTERDAY))
        client.schedule(each_second)
        engine = connected(store_url)
        with engine.begin() as connection:
            for limit in (None, 10_001):
                with pytest.raises(ConfigurationError, match=r"more than 10,000"):
                    client.backfill(
                        HOURLY.id,
                        YESTERDAY,
                        START,
                        limit=limit,
                        connection=connection,
                    )
            few = YESTERDAY + 10_000 * SECOND
            found = client.backfill(HOURLY.id, few - SECOND, few, connection=connection)
            assert found.made == 1
        engine.dispose()


@pytest.mark.parametrize("engine", SQL[1:], indirect=True)
def test_beside_an_open_transaction_nothing_is_made_twice(
    client: Client, store: Store, store_url: str
) -> None:
    """The schedule finds its definition busy, and another backfill waits."""
    [of] = store.put_definitions([replace(HOURLY, next_fire_time=YESTERDAY)])
    step = firing(of, *FIRST_THREE, next_fire_time=START)
    engine = connected(store_url)
    with ThreadPoolExecutor() as pool:
        with engine.begin() as connection:
            joined = client.backfill(
                of.id, *range_of(FIRST_THREE), connection=connection
            )
            assert store.fire_definitions([step]).busy == {of.id}
            beside = pool.submit(client.backfill, of.id, *range_of(FIRST_THREE))
        assert (joined.made, beside.result().made) == (3, 0)
    assert store.fire_definitions([step]).done == {of.id}
    assert fire_times(client) == FIRST_THREE
    engine.dispose()


def connected(store_url: str):  # type: ignore[no-untyped-def]
    """A user's engine for the database that a store is in."""
    url = make_url(store_url)
    if not url.drivername.startswith("sqlite"):
        url = url.set(drivername=f"{url.drivername}+psycopg")
    return create_engine(url)
