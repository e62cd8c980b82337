"""What somebody has broken by hand in a store costs only itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import (
    IntervalTrigger,
    RetryPolicy,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_by_hand import Damage, damage, execute
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    House,
    ids,
    once,
    opened,
    pages,
    running,
)
from tests.case_tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import Store, TaskInstance
    from go_scheduler.testing import ManualClock

pytestmark = pytest.mark.slow
BAD, GOOD = UUID(int=1), UUID(int=2)
MINUTELY = IntervalTrigger(MINUTE, anchor=START)


def damages(name: str) -> list[Any]:
    """The cases of a table: on which kind of store what is done to what."""
    return [
        pytest.param(
            engine,
            Damage(of, None if change == "(deleted)" else change),
            id=f"{engine} {of} {change}",
        )
        for engine, of, change in table(f"behaviour/{name}")
    ]


SOME = ["sqlite", "postgresql"]


@pytest.fixture
def hand(store_url: str, clock: ManualClock) -> Iterator[House]:
    """A scheduler of another process, which knows nothing of what was put here."""
    with opened(store_url, clock) as store:
        keeps: dict[str, Any] = {"retention": HOUR, "retention_failed": HOUR}
        house = House(store, clock, **keeps)
        house.answer = lambda _: None
        yield house


def both(client: Client, **fields: Any) -> list[TaskInstance]:
    """Two definitions, each with an instance: the bad one comes first."""
    made = []
    for id in (BAD, GOOD):
        new = TaskDefinition(id=id, trigger=MINUTELY, metadata={"a": 1}, **fields)
        client.schedule(new)
        made.append(client.run_now(id, payload={"n": 1}, key="k"))
    return made


@pytest.mark.parametrize(("engine", "how"), damages("damages"))
def test_all_else_is_listed_runs_fires_is_changed_and_cleaned_up(
    store: Store, store_url: str, hand: House, clock: ManualClock, how: Damage
) -> None:
    bad, good = both(Client(store))
    damage(store_url, how, BAD, bad.id)
    client = hand.scheduler
    definition = Client(store).get_definition(GOOD)
    assert definition in client.list_definitions()
    assert definition in client.list_definitions(metadata={"a": 1})
    assert definition in client.list_definitions(soonest_first=True)
    assert good in client.list_instances()
    assert good in client.list_waiting()
    assert good in client.search_key("k")
    assert ids(client.list_unscheduled(GOOD)) == [good.id]
    client.list_unscheduled(BAD)
    assert client.counts()[State.PENDING] >= 1
    assert client.counts_up_to()[State.PENDING].count >= 1
    client.backlog()
    with client:
        clock.advance(2 * SECOND)
        assert {good.id} <= {*ids(hand.called)} <= {good.id, bad.id}
        hand.rest(MINUTE)
        clock.advance(SECOND)
        fired = [each.fire_time for each in hand.called if each.definition.id == GOOD]
        assert fired == [None, START + MINUTE]
        assert {each.state for each in hand.of(definition)} == {State.COMPLETED}
        assert good.id in ids(client.list_ended("completed"))
        span: dict[str, Any] = {"since": START, "before": START + HOUR}
        assert len(client.list_fired(GOOD, **span)) == 1
        client.list_fired(BAD, **span)
        client.list_claims()
        client.pause_definitions(ids=[BAD, GOOD])
        assert client.get_definition(GOOD).paused
        client.resume_definitions(ids=[BAD, GOOD])
        assert not client.get_definition(GOOD).paused
        assert client.delete_definitions(ids=[BAD, GOOD]) >= 1
        with pytest.raises(TaskDefinitionNotFoundError):
            client.get_definition(GOOD)
        hand.rest(2 * HOUR)
        left = [each for each in client.list_instances() if each.id != bad.id]
        assert left == []


@pytest.mark.parametrize(("engine", "how"), damages("damages_of_ended"))
def test_of_what_has_ended_all_else_is_listed_and_cleaned_up(
    store: Store, store_url: str, hand: House, clock: ManualClock, how: Damage
) -> None:
    with hand.scheduler as client:
        for key in ("k", "l"):
            hand.once(name=key)
            clock.advance(SECOND)
        bad, good = hand.called
        damage(store_url, how, bad.definition.id, bad.id)
        kept = hand.again(good)
        assert kept in client.list_instances()
        assert kept in client.list_ended("completed")
        assert client.counts()[State.COMPLETED] >= 1
        for limit in (1, 2):
            found: list[UUID] = []
            for page in pages(client.list_ended, outcome="completed", limit=limit):
                found += ids(page)
                assert len(found) <= 2
            assert good.id in found
        hand.rest(2 * HOUR)
        hand.rest(2 * HOUR)
        with pytest.raises(TaskInstanceNotFoundError):
            hand.again(good)
        with pytest.raises(TaskDefinitionNotFoundError):
            client.get_definition(good.definition.id)


@pytest.mark.parametrize(("engine", "how"), damages("damages_of_runs"))
def test_of_runs_all_others_are_kept_ended_and_taken_over(
    house: House, store_url: str, clock: ManualClock, how: Damage
) -> None:
    retry = RetryPolicy(delay=NOW)
    bad, kept, failing, lapsing = (house.run(retry=retry) for _ in range(4))
    damage(store_url, how, bad.definition.id, bad.id)
    client = house.scheduler
    assert client.extend(kept.id, 1, 2 * DAY) == "go on"
    assert house.fail(failing)
    assert client.extend(bad.id, 1, DAY) in ("go on", "lost")
    clock.advance(SECOND)
    assert house.again(failing).attempt == 2
    assert kept.id in ids(client.list_claims())
    house.rest(2 * HOUR)
    clock.advance(MINUTE)
    assert house.again(lapsing).attempt == 2
    assert house.complete(kept)
    assert house.state(kept) is State.COMPLETED


@pytest.mark.parametrize("engine", SOME)
@pytest.mark.parametrize("text", ["[1", "nan", "", "[" * 100_000], ids=len)
def test_of_a_result_that_cannot_be_read_nothing_is_known(
    house: House, store_url: str, text: str
) -> None:
    bad, good = house.run(), house.run()
    for each in (bad, good):
        assert house.complete(each, result=[1])
    damage(store_url, Damage("instance", f"result = '{text}'"), BAD, bad.id)
    found = {each.id: each for each in house.scheduler.list_instances()}
    assert (found[bad.id].state, found[bad.id].result) == (State.COMPLETED, None)
    assert found[good.id].result == [1]
    reason = str(found[bad.id].definition.trigger)
    assert "cannot be read: result" in reason


@pytest.mark.parametrize(("engine", "how"), damages("damages_of_former_runs"))
def test_a_run_that_cannot_be_read_is_left_out(
    house: House, store_url: str, clock: ManualClock, how: Damage
) -> None:
    run = house.run(retry=RetryPolicy(delay=NOW))
    assert house.fail(run)
    damage(store_url, how, BAD, run.id)
    clock.advance(NOW)
    assert house.fail(house.again(run))
    assert [each.attempt for each in house.scheduler.list_runs(run.id)] == [2]


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    "change", ["completed_at = 'noon'", "trigger_state = 'odd'", "trigger_kind = 'odd'"]
)
def test_an_id_whose_memory_cannot_be_read_runs_again(
    store: Store, store_url: str, clock: ManualClock, change: str
) -> None:
    with running(store, clock, retention=MINUTE) as house:
        house.answer = lambda _: None
        new = once(id=BAD)
        house.scheduler.schedule(new)
        clock.advance(SECOND)
        house.rest(2 * MINUTE)
        damage(store_url, Damage("tombstone", change), BAD, BAD)
        assert house.scheduler.schedule(new).state == "active"
        clock.advance(SECOND)
        assert len(house.called) == 2
        assert house.scheduler.delete_definition(BAD)
        house.scheduler.schedule(new)
        clock.advance(SECOND)
        assert len(house.called) == 3


@pytest.mark.parametrize(("engine", "how"), damages("damages_of_counts"))
def test_what_was_counted_and_cannot_be_read_is_left_out(
    house: House, store_url: str, clock: ManualClock, how: Damage
) -> None:
    house.answer = lambda _: None
    house.once()
    clock.advance(MINUTE + 10 * SECOND)
    assert len(house.scheduler.stats_since(START)) == 1
    damage(store_url, how, BAD, BAD)
    house.once()
    clock.advance(MINUTE)
    found = house.scheduler.stats_since(START)
    assert [each.at for each in found] == [START + MINUTE]


@pytest.mark.parametrize("engine", SOME)
@pytest.mark.parametrize("value", ["NULL", "'odd'", "'3'"])
def test_a_node_whose_queues_cannot_be_read_may_serve_everything(
    house: House, store: Store, store_url: str, clock: ManualClock, value: str
) -> None:
    clock.advance(SECOND)
    damage(store_url, Damage("node", f"queues = {value}"), BAD, BAD)
    [node] = Client(store).nodes()
    assert node.id == house.scheduler.health().node
    assert node.queues is None
    assert node.serves("whatever")


@pytest.mark.parametrize("engine", SOME)
def test_pages_end_though_times_cannot_be_read(
    store: Store, store_url: str, engine: str
) -> None:
    client = Client(store)
    of = client.schedule(TaskDefinition(id=BAD, trigger=MINUTELY))
    made = [client.run_now(of.id, at=START + n * SECOND) for n in range(4)]
    value = "'noon'" if engine == "sqlite" else "'infinity'"
    for each in made[:2]:
        damage(store_url, Damage("instance", f"execute_at = {value}"), BAD, each.id)
    found: list[UUID] = []
    for page in pages(client.list_instances, limit=1):
        found += ids(page)
        assert len(found) <= len(made)
    assert sorted(found) == sorted(ids(made))


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_note_is_read_as_far_as_it_can_be_kept(store: Store, store_url: str) -> None:
    client = Client(store)
    client.schedule(TaskDefinition(id=BAD, trigger=MINUTELY))
    execute(store_url, "UPDATE task_definitions SET note = 'ab' || char(0) || 'c'")
    found = client.get_definition(BAD)
    assert (found.trigger, found.note) == (MINUTELY, "abc")
