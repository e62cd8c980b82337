"""Two calls at once come to what they come to one after the other, on a PostgreSQL."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.sql import inserts
from tests import servers
from tests.interleavings import Interleavings, compare, pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.stores.sql.statement import Statement

pytestmark = [pytest.mark.slow, pytest.mark.server]

# So many of all pairs; ``python -m tests.interleavings`` tries all.
SEED, TRIED = 1, 12


@pytest.fixture
def url(empty_database_url: Callable[[], str]) -> str:
    """A database of its own, with the tables."""
    url = empty_database_url()
    with servers.opened(url):
        pass
    return url


@pytest.mark.parametrize("patient", [True, False], ids=["waiting", "passing by"])
def test_no_order_of_two_calls_comes_to_anything_else(url: str, patient: bool) -> None:
    some = random.Random(SEED).sample([*pairs()], TRIED)
    with closing(Interleavings(url, patient=patient, switches=1)) as orders:
        for scene in dict.fromkeys(scene for scene, _, _ in some):
            made = orders.set_up(scene)
            for calls in some:
                if calls[0] == scene:
                    found = compare(orders, made, calls)
                    assert not found.wrong, found


@pytest.mark.parametrize("call", ["backfill", "clean up", "reopen"])
def test_what_comes_between_the_parts_of_a_cleanup_is_right(
    url: str, call: str
) -> None:
    with closing(Interleavings(url, patient=True, switches=1)) as orders:
        made = orders.set_up("failed")
        found = compare(orders, made, ("failed", call, "clean up"))
    assert len(found.serial) > 2
    assert not found.wrong, found


@pytest.mark.parametrize("calls", [("pause", "resume"), ("edit", "pause")])
def test_another_note_of_a_pause_is_a_change(url: str, calls: tuple[str, str]) -> None:
    with closing(Interleavings(url, patient=True, switches=2)) as orders:
        made = orders.set_up("runs and is paused")
        found = compare(orders, made, ("runs and is paused", *calls))
    assert not found.wrong, found


def test_a_success_beside_a_reopen_lets_its_definition_go_on(url: str) -> None:
    with closing(Interleavings(url, patient=True, switches=2)) as orders:
        made = orders.set_up("its trigger has waited")
        found = compare(orders, made, ("its trigger has waited", "complete", "reopen"))
    assert not found.wrong, found


def test_what_does_not_lock_the_row_it_has_read_is_found(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = inserts.add

    @cache
    def add_without_lock(**kind: bool) -> Statement:
        given = add(**kind)
        return replace(given, sql=given.sql.replace("FOR KEY SHARE", ""))

    monkeypatch.setattr(inserts, "add", add_without_lock)
    with closing(Interleavings(url, patient=True, switches=1)) as orders:
        made = orders.set_up("due")
        found = compare(orders, made, ("due", "delete", "add"))
    assert "task_instances(" in str(found)
