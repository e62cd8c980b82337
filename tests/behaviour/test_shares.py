"""Nodes share the shards of a store, and nothing depends on who takes which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.stores import Announcement
from go_scheduler.ticking.shares import Shares
from tests.behaviour.house import World, at, every, once

if TYPE_CHECKING:
    from collections.abc import Sequence, Set
    from datetime import timedelta

    from go_scheduler import TaskDefinition, TaskInstance
    from go_scheduler.clock import Clock
    from go_scheduler.stores import Claimant, Fired, Firing, Own

SHARDS = 16


def shard_of(id: UUID) -> int:
    return id.int % SHARDS


class Sharded(MemoryStore):
    """Reads the shards that are not a node's own less far ahead, as CockroachDB does.

    Attributes:
        owned: The shards that the node which has read last takes for its own.
        reads: These of each read.
        fired: Of each firing: the definition, and whether it was in one of these.
        cleanups: How often it was cleaned up.
    """

    shards = SHARDS

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.owned: Set[int] = set()
        self.reads: list[Set[int]] = []
        self.fired: list[tuple[UUID, bool]] = []
        self.cleanups = 0

    def due_definitions(
        self, *, own: Own | None = None, **asked: Any
    ) -> Sequence[TaskDefinition]:
        assert own is not None
        self.owned = own.shards
        self.reads.append(own.shards)
        mine = super().due_definitions(**asked)
        others = super().due_definitions(**{**asked, "ahead": own.others})
        near = {each.id for each in others}
        return [
            each for each in mine if shard_of(each.id) in self.owned or each.id in near
        ]

    def delete_finished(self, *given: Any, **options: Any) -> int:
        self.cleanups += 1
        return super().delete_finished(*given, **options)

    def fire_definitions(self, firings: Sequence[Firing], **options: Any) -> Fired:
        done = super().fire_definitions(firings, **options)
        self.fired += [
            (each.definition.id, shard_of(each.definition.id) in self.owned)
            for each in firings
            if each.definition.id in done.done
        ]
        return done


@pytest.fixture
def world() -> World:
    return World(Sharded)


@pytest.mark.parametrize("count", [1, 3, pytest.param(50, marks=pytest.mark.slow)])
def test_each_shard_is_read_ahead_by_one_node(world: World, count: int) -> None:
    store = world.store
    assert isinstance(store, Sharded)
    for number in range(count):
        world.node(world.note, str(number))
    made = [every(1) for _ in range(100)]
    # The first heartbeats, by which all know of all.
    world.advance(10)
    Client(store).schedule_all(made)
    world.advance(5)
    store.fired.clear()
    store.reads.clear()
    world.called.clear()
    world.advance(5)
    assert len(world.called) == 100 * 5
    assert all(each.at == each.instance.execute_at for each in world.called)
    assert all(is_own for _, is_own in store.fired)
    shares = {tuple(sorted(each)) for each in store.reads}
    assert sorted(shard for each in shares for shard in each) == [*range(SHARDS)]


@pytest.mark.parametrize("fate", ["frozen", "stopped"])
def test_what_the_owner_does_not_fire_is_fired_by_another_in_time(
    world: World, fate: str
) -> None:
    store = world.store
    assert isinstance(store, Sharded)
    node = world.node(world.note, "owner")
    world.node(world.note, "other")
    made = [every(1) for _ in range(100)]
    world.advance(10)
    Client(store).schedule_all(made)
    world.advance(5)
    store.fired.clear()
    world.called.clear()
    if fate == "frozen":
        world.clock.freeze("owner")
    else:
        node.stop()
    world.advance(5)
    assert not all(is_own for _, is_own in store.fired) or fate == "stopped"
    # What it held when it froze comes with its lease.
    late = [each for each in world.called if each.at > each.instance.execute_at]
    assert not late
    assert len(world.called) >= 100 * 2
    # Once it is known to be gone, the other takes its shares.
    world.advance(30)
    store.fired.clear()
    world.advance(5)
    assert all(is_own for _, is_own in store.fired)


def test_one_of_them_cleans_up_and_the_others_now_and_then(world: World) -> None:
    store = world.store
    assert isinstance(store, Sharded)
    for number in range(3):
        world.node(world.note, str(number))
    # Each alone looks every half minute, or a little more often.
    world.advance(20 * 60)
    assert 40 <= store.cleanups <= 80


def test_whoever_is_alone_reads_all_ahead_and_before_it_knows_nothing() -> None:
    mine, other = UUID(int=1), UUID(int=2)
    shares = Shares(mine, SHARDS)
    assert shares.of_firing() == set()
    shares.know([Announcement(node=mine, queues=("a", "b"))])
    assert shares.of_firing() == set(range(SHARDS)) == shares.of_claiming("a")
    shares.know([Announcement(node=mine, queues=("a", "b")), Announcement(node=other)])
    assert set() < shares.of_firing() < set(range(SHARDS))
    assert set() < shares.of_claiming("a") < set(range(SHARDS))


def test_what_is_claimed_is_shared_by_those_that_serve_the_queue() -> None:
    nodes = [UUID(int=each) for each in range(1, 6)]
    queues = [("a",), ("a", "b"), ("b",), (), None]
    announced = [
        Announcement(node=node, queues=of)
        for node, of in zip(nodes, queues, strict=True)
    ]
    all_of = []
    for node in nodes:
        shares = Shares(node, SHARDS)
        shares.know(announced)
        all_of.append(
            (shares.of_firing(), shares.of_claiming("a"), shares.of_claiming("b"))
        )
    for of_each in zip(*all_of, strict=True):
        assert sorted(shard for each in of_each for shard in each) == [*range(SHARDS)]
    claiming_a = [each[1] for each in all_of]
    # Those whose queues cannot be read may serve any.
    assert [bool(each) for each in claiming_a] == [True, True, False, False, True]


def test_if_one_comes_its_shards_alone_change_hands() -> None:
    nodes = [UUID(int=each) for each in range(1, 6)]

    def owners(of: list[UUID]) -> dict[int, UUID]:
        found: dict[int, UUID] = {}
        for node in of:
            shares = Shares(node, SHARDS)
            shares.know(Announcement(node=each) for each in of)
            found |= dict.fromkeys(shares.of_firing(), node)
        return found

    before, after = owners(nodes[:4]), owners(nodes)
    changed = {each for each in after if after[each] != before[each]}
    assert 0 < len(changed) < SHARDS
    assert {after[each] for each in changed} == {nodes[4]}


def test_what_one_is_enough_for_is_done_by_one_of_those_that_do_not_stop() -> None:
    nodes = [UUID(int=each) for each in range(1, 6)]
    all_of = [Shares(each, SHARDS) for each in nodes]
    assert all(each.is_first("cleanup") for each in all_of)
    for stopping in (None, *nodes):
        for each in all_of:
            each.know(Announcement(node=id, stopping=id == stopping) for id in nodes)
        first = [
            node
            for node, shares in zip(nodes, all_of, strict=True)
            if shares.is_first("cleanup")
        ]
        assert len(first) == 1
        assert first != [stopping]


def test_what_needs_a_handler_is_not_left_to_a_node_without_one() -> None:
    nodes = [UUID(int=each) for each in range(1, 20)]
    mine = Shares(nodes[0], SHARDS)
    others = [Announcement(node=each, queues=()) for each in nodes[1:]]
    mine.know([Announcement(node=nodes[0], queues=("a",)), *others])
    assert not mine.is_first("slots")
    assert mine.is_first("slots", serves=True)
    # Nor is it if none has any.
    mine.know(others)
    assert mine.is_first("slots", serves=True)


class OthersOwn(Sharded):
    """All shards are other nodes' own, which never claim."""

    def claim_instances(
        self, claimant: Claimant, *, ahead: timedelta, lead: timedelta, **asked: Any
    ) -> Sequence[TaskInstance]:
        assert claimant.own is not None
        far = claimant.own["default"].others
        return super().claim_instances(claimant, ahead=far, lead=lead, **asked)


def test_what_its_owner_does_not_claim_runs_in_time() -> None:
    world = World(OthersOwn)
    node = world.node(world.note, "first")
    world.advance(10.05)
    for each in range(20):
        node.schedule(once(10.35 + each / 50))
    world.advance(3)
    assert [each.at for each in world.called] == [at(10.35 + n / 50) for n in range(20)]
    world.called.clear()
    node.schedule(every(1))
    world.advance(20)
    assert len(world.called) >= 19
    assert all(each.at == each.instance.execute_at for each in world.called[1:])


def test_what_is_known_of_one_node_is_enough_at_a_look(world: World) -> None:
    """A definition that is put for soon is fired by whoever sees it first."""
    world.node(world.note, "first")
    world.node(world.note, "second")
    world.advance(10.05)
    Client(world.store).schedule(every(1))
    world.advance(3)
    assert [each.at for each in world.called] == sorted(
        {each.instance.execute_at for each in world.called}
    )
