"""Withdrawing: an edit ends what is not called yet, and waits for what just begins."""

from __future__ import annotations

import os

import pytest

from go_scheduler import MemoryStore
from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.recorder import Recorder
from go_scheduler.running.withdrawing import Edit, Kind, Withdrawing, join, withdraw
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import EXPIRE_AFTER
from tests.conftest import instance


class Beginning(HeldRun):
    """A run whose handler is called once it has been looked at three times."""

    looks = 0

    @property
    def begun(self) -> bool:
        self.looks += 1
        return self.looks > 3

    @begun.setter
    def begun(self, begun: bool) -> None:
        """It is known by looking."""


class Holder:
    """What a node has for this, and a store that it runs on."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store = MemoryStore(clock)
        self.held = Held()
        self.recorder = Recorder(
            self.store,
            StoreClock(clock, self.store.now),
            defaults=Defaults(expire_after=EXPIRE_AFTER),
            max_hangs=None,
            recorded=lambda: None,
        )
        self.withdrawing = Withdrawing(self.held, self.recorder)
        join(self.store, self.withdrawing)

    def hold(self, kind: type[HeldRun] = HeldRun) -> HeldRun:
        run = kind(instance(), expire_after=EXPIRE_AFTER)
        self.held.add([run])
        return run


@pytest.fixture
def holder() -> Holder:
    return Holder()


def deleted(run: HeldRun) -> Edit:
    return Edit(Kind.DELETED, {run.instance.definition.id})


def test_what_is_held_and_not_called_is_let_go_of(holder: Holder) -> None:
    waiting, other = holder.hold(), holder.hold()
    assert withdraw(holder.store, deleted(waiting)) == {waiting.instance.id}
    assert holder.held.uncalled() == [other]
    assert holder.recorder.unrecorded_runs() == [waiting]


def test_an_edit_waits_for_a_call_that_has_been_decided(holder: Holder) -> None:
    run = holder.hold(Beginning)
    holder.held.fall_due([run], ZERO)
    holder.held.call(run)
    assert withdraw(holder.store, deleted(run)) == set()
    assert run.begun
    assert list(holder.held.running()) == [run]


def test_what_comes_from_a_claim_that_was_under_way_is_let_go_of(
    holder: Holder,
) -> None:
    watch = holder.withdrawing.watch()
    edited = HeldRun(instance(), expire_after=EXPIRE_AFTER)
    assert withdraw(holder.store, deleted(edited)) == set()
    other = holder.hold()
    holder.held.add([edited])
    assert holder.withdrawing.let_in([edited, other], [watch]) == [other]
    assert holder.held.uncalled() == [other]


def test_a_later_claim_knows_nothing_of_it(holder: Holder) -> None:
    run = HeldRun(instance(), expire_after=EXPIRE_AFTER)
    withdraw(holder.store, deleted(run))
    watch = holder.withdrawing.watch()
    holder.held.add([run])
    assert holder.withdrawing.let_in([run], [watch]) == [run]


def test_only_nodes_on_the_same_store_are_told(holder: Holder) -> None:
    run = holder.hold()
    assert withdraw(MemoryStore(ManualClock()), deleted(run)) == set()
    assert holder.held.uncalled() == [run]


def test_after_a_fork_the_child_leaves_what_its_parent_holds(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = holder.hold()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert withdraw(holder.store, deleted(run)) == set()
    assert holder.held.uncalled() == [run]
