"""Where a store is told of nothing its nodes look often, as long as there is work."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.hints import LastWork, News, Polls
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


def test_for_a_minute_after_work_there_is_a_poll_each_time(clock: ManualClock) -> None:
    last = LastWork(clock.elapsed)
    assert not last.is_recent
    last.note()
    polls = Polls(last)
    assert polls.wait()
    clock.advance(seconds(59))
    assert polls.wait()
    clock.advance(seconds(1))
    assert not last.is_recent


def test_without_work_there_is_none_until_there_is_some(clock: ManualClock) -> None:
    class Answers(LastWork):
        answers = iter([False, False, True])

        @property
        def is_recent(self) -> bool:
            return next(self.answers)

    last = Answers(clock.elapsed)
    assert Polls(last).wait()
    assert not list(last.answers)


def test_polls_that_are_closed_wait_no_more(clock: ManualClock) -> None:
    polls = Polls(LastWork(clock.elapsed))
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
        assert store._last_work.is_recent == bool(found)


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
            assert store._last_work.is_recent == bool(fires)
    assert asked == [None, claimant()]
