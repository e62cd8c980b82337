"""Withdrawing: an edit waits for what just begins, and a fork leaves all as it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from go_scheduler import MemoryStore
from go_scheduler.clock import ZERO
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.result_writer import ResultWriter
from go_scheduler.running.withdrawing import Edit, Kind, Withdrawing, join, withdraw
from tests.conftest import instance, state_of

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock


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


@pytest.mark.parametrize("how", ["it begins", "in a fork"])
def test_an_edit_takes_nothing_from_a_thread_or_a_process_that_has_it(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    store, held = MemoryStore(clock), Held()
    withdrawing = Withdrawing(held, ResultWriter(state_of(store, clock)))
    join(store, withdrawing)
    run = Beginning(instance(), Defaults())
    held.add([run])
    edit = Edit(Kind.DELETED, {run.instance.definition.id})
    if how == "it begins":
        held.fall_due([run], ZERO)
        held.call(run)
        assert withdraw(store, edit) == set()
        assert run.begun
        assert list(held.running()) == [run]
    else:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert withdraw(store, edit) == set()
        assert held.uncalled() == [run]
