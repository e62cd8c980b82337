"""Leases: claims are kept while their node lives, and taken over when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    Cancelled,
    ClaimLostError,
    ConfigurationError,
    RunEnd,
    State,
    StoreUnavailableError,
)
from go_scheduler.events import (
    InstanceLocked,
    InstanceLost,
    InstanceTakenOver,
    InstanceUnrecorded,
    RunHung,
    Write,
)
from tests.behaviour.house import (
    HOUR,
    LEASE,
    MILLISECOND,
    MINUTE,
    SECOND,
    Later,
    World,
    at,
    once,
    seconds,
    several,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler import TaskInstance


def claim_left(world: World, instance: TaskInstance) -> timedelta:
    """How long the claim of an instance still holds."""
    expires_at = world.store.get_instance(instance.id).expires_at
    assert expires_at is not None
    return expires_at - world.clock.now()


def test_the_claim_of_what_runs_is_renewed_each_third_of_the_lease(
    world: World,
) -> None:
    world.begin(once(expire_after=HOUR))
    [called] = world.bench.calls
    left = []
    for _ in range(600):
        world.advance(0.1)
        left.append(claim_left(world, called.instance))
    assert min(left[10:]) >= LEASE * 2 / 3 - SECOND / 10
    assert max(left) <= LEASE
    renewals = world.faults.asked.count("renew_claims")
    assert 8 <= renewals <= 12


def test_many_are_renewed_in_one_write(world: World) -> None:
    world.begin(*several(30, expire_after=HOUR), max_workers=30)
    world.advance(60)
    assert world.faults.asked.count("renew_claims") <= 12
    for each in world.bench.calls:
        assert claim_left(world, each.instance) >= LEASE / 2


def test_what_waits_for_a_worker_keeps_its_claim_as_well(world: World) -> None:
    later = Later()
    node = world.node(
        world.note, executor=later, max_workers=1, runner_window=seconds(100)
    )
    node.schedule_all(several(2, 1))
    world.advance(60)
    assert node.health().busy == 2
    for each in world.store.select():
        assert claim_left(world, each) >= LEASE / 2
    while later.waiting:
        later.run()
    assert len(world.called) == 2


def test_a_run_whose_claim_is_about_to_lapse_when_it_begins_is_renewed_in_time(
    world: World,
) -> None:
    one = world.node(world.bench.handler, "one", max_workers=1, runner_window=HOUR / 60)
    world.node(world.note, "two", runner_window=HOUR / 60, queues=["other"])
    one.schedule_all(several(2, 1, expire_after=seconds(25)))
    world.advance(10)
    world.bench.calls[0].end()
    assert len(world.bench.calls) == 2
    for _ in range(200):
        world.advance(0.1)
        assert claim_left(world, world.bench.calls[1].instance) > seconds(1)


def test_what_ends_is_renewed_no_more(world: World) -> None:
    world.begin(once(expire_after=HOUR))
    world.advance(29)
    world.bench.end_all()
    world.advance(1)
    world.faults.asked.clear()
    world.advance(60)
    assert "renew_claims" not in world.faults.asked


def test_a_claim_that_cannot_be_renewed_costs_only_itself(world: World) -> None:
    world.begin(*several(5, expire_after=HOUR))
    bad, *others = world.bench.calls
    world.faults.bad.add(bad.instance.id)
    world.advance(12)
    for each in others:
        assert claim_left(world, each.instance) > LEASE / 2
    told = world.heard.of(InstanceUnrecorded)
    assert {(each.instance_id, each.write) for each in told} == {
        (bad.instance.id, Write.RENEWAL)
    }
    assert [each.retry_in for each in told[:3]] == [SECOND, 2 * SECOND, 4 * SECOND]
    world.faults.bad.clear()
    world.advance(5)
    assert claim_left(world, bad.instance) > LEASE / 2
    assert not bad.run.lost


def test_a_locked_claim_is_renewed_as_soon_as_it_can_be(world: World) -> None:
    world.begin(*several(5, expire_after=HOUR))
    locked, *others = world.bench.calls
    world.faults.locked.add(locked.instance.id)
    world.advance(12)
    for each in others:
        assert claim_left(world, each.instance) > LEASE / 2
    [told] = world.heard.of(InstanceLocked)
    assert (told.instance_id, told.write) == (locked.instance.id, Write.RENEWAL)
    world.faults.locked.clear()
    world.advance(1)
    assert claim_left(world, locked.instance) > LEASE - 2 * SECOND


def test_while_the_store_is_away_for_less_than_a_lease_nothing_is_lost(
    world: World,
) -> None:
    world.begin(once(expire_after=HOUR), name="one")
    world.node(world.note, "two")
    for _ in range(4):
        world.advance(25)
        world.faults.away = True
        world.advance(12)
        world.faults.away = False
    world.advance(25)
    assert (len(world.bench.calls), len(world.called)) == (1, 0)
    assert not world.bench.calls[0].run.lost


def test_a_run_learns_within_a_third_of_the_lease_that_it_is_to_stop(
    world: World,
) -> None:
    node = world.begin(once(), lease=seconds(30))
    [called] = world.bench.calls
    assert called.run.token == (called.instance.id, 1)
    assert not called.run.cancelled
    assert node.cancel(called.instance.id) is Cancelled.REQUESTED
    world.advance(10)
    assert (called.run.cancelled, called.run.lost) == (True, False)


@pytest.mark.parametrize("how", ["deleted", "completed elsewhere"])
def test_a_run_that_is_not_needed_any_more_learns_so(world: World, how: str) -> None:
    node = world.begin(once(expire_after=HOUR))
    [called] = world.bench.calls
    if how == "deleted":
        node.delete_definition(called.instance.definition.id)
    else:
        assert node.complete(called.instance.id, 1)
    world.advance(7)
    assert (called.run.lost, called.run.cancelled) == (True, True)
    [lost] = world.heard.of(InstanceLost)
    assert (lost.instance_id, lost.attempt) == (called.instance.id, 1)
    with pytest.raises(ClaimLostError):
        called.run.extend(MINUTE)
    world.faults.asked.clear()
    world.advance(60)
    assert "renew_claims" not in world.faults.asked


@pytest.mark.parametrize("expire_after", [30, 2])
def test_what_outlives_expire_after_is_presumed_hung_and_runs_again(
    world: World, expire_after: float
) -> None:
    node = world.node(world.bench.handler)
    node.schedule(once(1, expire_after=seconds(expire_after)))
    world.clock.advance(seconds(1 + expire_after) - MILLISECOND)
    assert len(world.bench.calls) == 1
    assert world.heard.of(RunHung) == []
    world.advance(1)
    [hung] = world.heard.of(RunHung)
    assert hung.allowed == seconds(expire_after)
    assert [each.instance.attempt for each in world.bench.calls] == [1, 2]
    assert world.bench.calls[1].at < at(2 + expire_after)
    assert (node.health().stuck_workers, node.health().ok) == (1, False)
    assert world.only().hangs == 1
    [run] = world.store.list_runs(world.only().id)
    assert run.outcome is RunEnd.HUNG
    assert "presumed hung" in (run.error or "")
    world.bench.end_all()
    world.advance(1)
    assert world.only().ended_attempt == 1
    assert (node.health().stuck_workers, node.health().ok) == (0, True)


@pytest.mark.parametrize("max_hangs", [1, 3])
def test_what_hangs_after_it_was_asked_to_stop_is_cancelled(
    world: World, max_hangs: int
) -> None:
    node = world.begin(once(expire_after=seconds(20)), max_hangs=max_hangs)
    assert node.cancel(world.only().id) is Cancelled.REQUESTED
    world.advance(20)
    assert (world.only().state, world.only().hangs) == (State.CANCELLED, 1)


@pytest.mark.parametrize(("max_hangs", "runs"), [(1, 1), (3, 3), (None, 5)])
def test_after_so_many_hangs_in_a_row_it_has_failed(
    world: World, max_hangs: int | None, runs: int
) -> None:
    world.begin(once(expire_after=seconds(10)), max_hangs=max_hangs, max_hung=100)
    world.advance(44)
    found = world.only()
    assert (found.runs, found.hangs) == (runs, runs - (max_hangs is None))
    if max_hangs is None:
        assert found.state is State.RUNNING
    else:
        assert found.state is State.FAILED
        assert (found.error or "").startswith(f"hanging: {runs} runs in a row had no e")
    # The first that succeeds after all counts.
    world.bench.calls[-1].end()
    world.advance(1)
    assert world.only().state is State.COMPLETED


def test_a_run_that_asks_for_more_time_is_given_it(world: World) -> None:
    world.begin(once(expire_after=seconds(30)))
    [called] = world.bench.calls
    world.advance(28)
    called.run.extend(MINUTE)
    world.advance(59)
    assert world.heard.of(RunHung) == []
    world.advance(3)
    [hung] = world.heard.of(RunHung)
    assert hung.allowed == seconds(90)
    with pytest.raises(ClaimLostError):
        called.run.extend(MINUTE)
    with pytest.raises(ConfigurationError, match="by"):
        called.run.extend(seconds(0))


def test_more_time_counts_for_the_claim_at_once(world: World) -> None:
    # Else a claim of little time lapses before anybody looks again.
    world.node(world.note, "two", queues=["other"])
    world.begin(once(expire_after=seconds(2)), lease=HOUR)
    [called] = world.bench.calls
    called.run.extend(MINUTE)
    world.advance(0.1)
    assert claim_left(world, called.instance) > seconds(50)


def dies_with_a_run(world: World, count: int = 1) -> None:
    """A node has begun so many runs, and is not heard of again."""
    one = world.node(world.note, "one", executor=Later())
    one.schedule_all(several(count, expire_after=seconds(300)))
    world.advance(1)
    world.clock.freeze("one")


def test_what_a_node_ran_when_it_died_is_taken_over_after_the_lease(
    world: World,
) -> None:
    one = world.node(world.bench.handler, "one")
    world.node(world.note, "two")
    one.schedule(once(60))
    world.advance(61)
    assert len(world.bench.calls) == 1
    world.clock.freeze("one")
    world.advance(13)
    assert world.called == []
    world.advance(12)
    [called], [told] = world.called, world.heard.of(InstanceTakenOver)
    assert (called.instance.attempt, told.attempt) == (2, 2)
    [run] = world.store.list_runs(called.instance.id)
    assert run.outcome is RunEnd.LOST


def test_a_new_node_that_is_alone_gives_others_time_before_it_takes_over(
    world: World,
) -> None:
    dies_with_a_run(world)
    world.advance(600)
    world.node(world.note, "two")
    # Whoever lives renews each third of the lease, or tries.
    world.clock.advance(LEASE * 0.6)
    assert world.called == []
    world.clock.advance(LEASE * 0.7)
    assert len(world.called) == 1


def test_a_new_node_beside_others_takes_over_at_once_what_lapsed_a_lease_ago(
    world: World,
) -> None:
    dies_with_a_run(world)
    world.node(world.note, "beside", queues=["other"])
    world.advance(100)
    world.node(world.note, "two")
    world.advance(1)
    assert len(world.called) == 1


def test_after_an_outage_nothing_is_taken_over_until_all_could_renew(
    world: World,
) -> None:
    world.begin(once(expire_after=HOUR), name="one")
    world.node(world.note, "two")
    world.advance(60)
    world.faults.away = True
    world.advance(100)
    # The node that has it comes back a little later than the other one.
    world.clock.freeze("one")
    world.faults.away = False
    world.clock.advance(LEASE * 0.6)
    assert world.called == []
    world.clock.thaw("one")
    world.advance(60)
    assert world.called == []
    assert not world.bench.calls[0].run.lost
    world.bench.end_all()
    world.advance(1)
    assert (world.only().state, world.only().attempt) == (State.COMPLETED, 1)


def test_who_starts_as_the_store_comes_back_takes_nothing_over_at_once(
    world: World,
) -> None:
    world.begin(once(expire_after=HOUR), name="one")
    world.advance(60)
    world.faults.away = True
    world.advance(60)
    world.node(world.note, "two")
    world.clock.freeze("one")
    world.faults.away = False
    world.clock.advance(LEASE * 0.6)
    world.clock.thaw("one")
    world.advance(60)
    assert world.called == []
    assert not world.bench.calls[0].run.lost


def test_lives_of_a_few_seconds_show_that_the_store_was_there(world: World) -> None:
    dies_with_a_run(world)
    for number in range(15):
        world.node(world.note, f"life {number}")
        world.advance(4)
        world.clock.freeze(f"life {number}")
    # None of them has lived for a lease.
    assert len(world.called) == 1
    assert 20 <= world.times[0] <= 60


def test_calls_that_are_lost_among_others_are_no_outage(world: World) -> None:
    dies_with_a_run(world)
    two = world.node(world.note, "two")
    for _ in range(12):
        world.advance(2.9)
        world.faults.failing["claim_instances"] = StoreUnavailableError("lost")
        two.schedule(once(name="never mind", queue="other"))
        world.advance(0.1)
        world.faults.failing.clear()
    world.advance(5)
    assert len(world.called) == 1


def test_a_node_that_wakes_from_a_freeze_takes_nothing_over_at_once(
    world: World,
) -> None:
    world.begin(once(expire_after=HOUR), name="one")
    world.node(world.note, "two")
    world.advance(60)
    world.clock.freeze("one")
    world.clock.freeze("two")
    world.advance(600)
    world.clock.thaw("two")
    world.advance(15)
    assert world.called == []
    world.clock.thaw("one")
    world.advance(60)
    assert world.called == []


def test_a_break_lets_the_takeover_begin_with_one_again(world: World) -> None:
    dies_with_a_run(world, 9)
    world.node(world.bench.handler, "two", queues=["other"])
    world.advance(60)
    world.node(world.bench.handler, "three")
    world.until(lambda: len(world.bench.calls) >= 3, step=0.02)
    world.faults.away = True
    world.advance(60)
    world.faults.away = False
    before = len(world.bench.calls)
    world.until(lambda: len(world.bench.calls) > before, step=0.02)
    assert len(world.bench.calls) == before + 1
