"""Where a store is told of nothing its nodes look often, as long as there is work."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.hints import News, Polls
from go_scheduler.stores.messages import Fired
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.testing.builders import claimant, definition, firing
from go_scheduler.triggers.times import LAST_INSTANT
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.stores.messages import Claimant, Firing
    from go_scheduler.testing import ManualClock


EVERY = timedelta(milliseconds=1)


def test_for_a_minute_after_work_there_is_a_poll_each_time(clock: ManualClock) -> None:
    with closing(CockroachDBStore("cockroachdb://nowhere", clock=clock)) as store:
        assert not store._has_work()
        store._note_work()
        polls = store.hints()
        assert polls.wait()
        clock.advance(seconds(59))
        assert polls.wait()
        clock.advance(seconds(1))
        assert not store._has_work()


def test_without_work_there_is_none_until_there_is_some() -> None:
    answers = iter([False, False, True])
    assert Polls(EVERY, lambda: next(answers)).wait()
    assert not list(answers)


def test_polls_that_are_closed_wait_no_more() -> None:
    polls = Polls(EVERY, lambda: False)
    found: list[News] = []
    thread = threading.Thread(target=lambda: found.append(polls.wait()))
    thread.start()
    polls.close()
    thread.join(FAILED_AFTER)
    assert found == [News.NOTHING]


@pytest.mark.parametrize("found", [[], ["an instance"]])
def test_whoever_is_handed_something_polls(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[str]
) -> None:
    monkeypatch.setattr(PostgreSQLStore, "claim_instances", lambda *_, **__: found)
    with closing(CockroachDBStore("cockroachdb://nowhere")) as store:
        store.claim_instances(
            claimant(),
            ahead=ZERO,
            lead=ZERO,
            limit=1,
            lapsed=None,
            deadline=LAST_INSTANT,
        )
        assert store._has_work() == bool(found)


@pytest.mark.parametrize("fires", [[], [firing(definition())]])
def test_whoever_fires_something_polls(
    monkeypatch: pytest.MonkeyPatch, fires: Sequence[Firing]
) -> None:
    def fire(_: object, firings: object, *, claimant: Claimant | None) -> Fired:
        asked.append(claimant)
        return answer

    answer, asked = Fired(done=set()), list["Claimant | None"]()
    monkeypatch.setattr(PostgreSQLStore, "fire_definitions", fire)
    for node in (None, claimant()):
        with closing(CockroachDBStore("cockroachdb://nowhere")) as store:
            assert store.fire_definitions(fires, claimant=node) is answer
            assert store._has_work() == bool(fires)
    assert asked == [None, claimant()]
