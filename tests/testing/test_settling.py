"""The suites let a store settle before they have it look for what they wrote."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import settle
from go_scheduler.testing.builders import claim, clean_up, due

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.stores.base import Store


class SlowStore(MemoryStore):
    """One that settles a little after each commit."""

    settling = timedelta(milliseconds=7)


class QuickStore(SlowStore):
    """One that can tell when it has."""

    settled = 0


@settle.register
def _(store: QuickStore) -> None:
    store.settled += 1


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """How many seconds this thread has waited for an event."""
    found: list[float | None] = []
    here, really_wait = threading.get_ident(), threading.Event.wait

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        # Whatever else runs in this process is to go on.
        if threading.get_ident() != here:
            return really_wait(event, timeout)
        found.append(timeout)
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    return found


SCANS: list[Callable[[Store], object]] = [
    claim,
    due,
    lambda store: clean_up(store, older_than=ZERO, limit=1),
]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("kind", "waited"), [(SlowStore, [0.007]), (MemoryStore, [])])
def test_a_scan_waits_until_the_store_has_settled_if_it_has_to(
    scan: Callable[[Store], object],
    kind: type[MemoryStore],
    waited: list[float],
    waits: list[float | None],
) -> None:
    scan(kind())
    assert waits == waited


def test_a_store_may_tell_sooner_that_it_has_settled(waits: list[float | None]) -> None:
    store = QuickStore()
    claim(store)
    assert (store.settled, waits) == (1, [])
