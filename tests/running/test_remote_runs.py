"""Remote runs: what workers elsewhere say is written by one call for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    DelayTrigger,
    Extension,
    MemoryStore,
    RetryPolicy,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.events import RunTimedOut
from go_scheduler.models import Stage, State
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.remote_runs import (
    Extending,
    Failing,
    RemoteRuns,
    Success,
)
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    cancel,
    claim_of,
    definition,
    passed_on,
    running,
)
from go_scheduler.testing.clock import START
from tests.behaviour.house import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from go_scheduler.events import Event
    from go_scheduler.stores.messages import Claim
    from go_scheduler.testing import ManualClock


class House:
    """Remote runs on a store that fails as the test says, and what it has told."""

    def __init__(self, clock: ManualClock) -> None:
        self.store = MemoryStore(clock)
        self.faults = Faults(self.store, clock)
        self.told: list[Event] = []
        self.remote = RemoteRuns(
            self.store, defaults=Defaults(), tell=self.told.append, now=clock.now
        )

    def asked(self) -> list[str]:
        """What the store was asked since the last time."""
        asked, self.faults.asked[:] = [*self.faults.asked], []
        return asked


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


def test_ends_that_come_with_their_rows_are_one_call(
    house: House, clock: ManualClock
) -> None:
    waits = definition(trigger=DelayTrigger(HOUR))
    rows = [running(house.store, each) for each in (None, None, waits)]
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    failing = [running(house.store, each) for each in (None, once)]
    clock.advance(MINUTE)
    house.asked()
    ended = [
        Success(claim=claim_of(each), instance=each, result=f'"ä{number}"')
        for number, each in enumerate(rows)
    ]
    assert house.remote.end_all(ended) == [True] * 3
    assert house.asked() == ["finish_instances"]
    failed = [Failing(claim=claim_of(e), instance=e, error="nö") for e in failing]
    assert house.remote.end_all(failed) == [True] * 2
    assert house.asked() == ["finish_instances"]
    found = [house.store.get_instance(each.id) for each in (*rows, *failing)]
    assert [each.result for each in found[:3]] == ["ä0", "ä1", "ä2"]
    assert [each.state for each in found[3:]] == [State.PENDING, State.FAILED]
    waited = house.store.get_definition(rows[2].definition.id)
    assert waited.next_fire_time == START + MINUTE + HOUR
    assert house.remote.end_all([]) == house.remote.extend_all([]) == []


def test_what_is_not_known_is_read_by_one_call_for_all(house: House) -> None:
    claims = [claim_of(running(house.store)) for _ in range(3)]
    claims.append(replace(claims[0], instance_id=NOBODY))
    house.asked()
    kept = house.remote.extend_all([Extending(claim=each, by=HOUR) for each in claims])
    assert kept == [Extension.GO_ON] * 3 + [Extension.LOST]
    assert house.asked() == ["select", "renew_claims"]
    done = house.remote.end_all([Success(claim=each) for each in claims])
    assert done == [True] * 3 + [False]
    assert house.asked()[:2] == ["select", "finish_instances"]


def test_the_success_of_a_signed_claim_may_be_reported_again_when_it_is_deleted(
    house: House, clock: ManualClock
) -> None:
    remote = RemoteRuns(
        house.store,
        defaults=Defaults(deletes_successes=True),
        tell=house.told.append,
        now=clock.now,
    )
    gone, stays = (running(house.store) for _ in range(2))
    first = [
        Success(claim=claim_of(gone), instance=gone, is_signed=True),
        Success(claim=claim_of(stays), result="1", is_signed=True),
    ]
    assert remote.end_all(first) == [True, True]
    assert [each.id for each in house.store.select()] == [stays.id]
    told = len(house.told)
    again = [replace(each, instance=None) for each in first]
    for some in (first, again):
        assert remote.end_all(some) == [True, True]
    # Whoever makes up a claim is not told that it has succeeded.
    assert remote.end_all([replace(again[0], is_signed=False)]) == [False]
    # Nor is who has one elsewhere, where nothing is deleted as it ends.
    assert house.remote.end_all(again[:1]) == [False]
    # No other run of it has succeeded, and a failure is not recorded.
    assert remote.end_all([Failing(claim=claim_of(gone), error="no")]) == [False]
    assert len(house.told) == told


def test_what_has_no_timeout_asks_nobody_for_the_time(house: House) -> None:
    def never() -> datetime:
        pytest.fail("a store would be asked")

    remote = RemoteRuns(
        house.store, defaults=Defaults(), tell=house.told.append, now=never
    )
    run = running(house.store)
    extending = Extending(claim=claim_of(run), by=HOUR, instance=run)
    assert remote.extend(extending) is Extension.GO_ON


def test_a_run_on_a_bus_without_a_timeout_is_not_read(house: House) -> None:
    run = running(house.store)
    reporting = Extending(
        claim=claim_of(run), stage=Stage.ACCEPTED, worker="a", by=MINUTE, instance=run
    )
    house.asked()
    assert house.remote.extend_all([reporting]) == [Extension.GO_ON]
    assert house.asked() == ["renew_claims"]


def test_each_learns_what_came_of_it_in_its_place(
    house: House, clock: ManualClock
) -> None:
    first, second = passed_on(house.store, clock)
    good, asked = running(house.store), running(house.store)
    cancel(house.store, asked)
    extending = [
        Extending(claim=claim_of(each), by=by)
        for each, by in (
            (first, HOUR),
            (second, HOUR),
            (asked, HOUR),
            (second, 2 * HOUR),
        )
    ]
    assert house.remote.extend_all(extending) == [
        Extension.LOST,
        Extension.GO_ON,
        Extension.STOP,
        Extension.GO_ON,
    ]
    assert house.store.get_instance(second.id).expires_at == clock.now() + 2 * HOUR
    # The success of an old attempt counts, if it is the first.
    claims = [claim_of(each) for each in (first, good, second)]
    answers = house.remote.end_all(
        [Success(claim=each) for each in [*claims, claims[0]]]
    )
    assert answers == [True, True, False, True]
    late = [Failing(claim=each, error="late") for each in claims]
    assert house.remote.end_all(late) == [False] * 3


def test_who_comes_second_on_a_bus_fails_nothing(house: House) -> None:
    run = running(house.store)
    failing = [
        Failing(claim=claim_of(run), error="no", worker=worker, instance=run)
        for worker in ("b", "a")
    ]
    house.remote.extend(
        Extending(claim=claim_of(run), by=MINUTE, stage=Stage.ACCEPTED, worker="a")
    )
    assert house.remote.end_all(failing) == [False, True]
    other = claim_of(running(house.store))
    # Before it is accepted any worker may say so.
    [answer] = house.remote.end_all([replace(failing[0], claim=other)])
    assert answer is True


def test_a_timeout_that_has_passed_is_told_once(
    house: House, clock: ManualClock
) -> None:
    once = replace(definition(), timeout=MINUTE, retry=RetryPolicy(max_attempts=1))
    runs = [running(house.store, once), running(house.store)]
    extending = [Extending(claim=claim_of(each), by=HOUR) for each in runs]
    assert house.remote.extend_all(extending) == [Extension.GO_ON] * 2
    clock.advance(MINUTE)
    for _ in range(2):
        assert house.remote.extend_all(extending) == [Extension.LOST, Extension.GO_ON]
    assert sum(isinstance(each, RunTimedOut) for each in house.told) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda remote, claims: remote.end_all([Success(claim=e) for e in claims]),
        lambda remote, claims: remote.end_all(
            [Failing(claim=e, error="no") for e in claims]
        ),
        lambda remote, claims: remote.extend_all(
            [Extending(claim=e, by=HOUR) for e in claims]
        ),
    ],
    ids=["complete", "fail", "extend"],
)
@pytest.mark.parametrize("fault", ["bad", "locked"])
def test_what_cannot_be_written_costs_only_itself(
    house: House,
    call: Callable[[RemoteRuns, Sequence[Claim]], Sequence[object]],
    fault: str,
) -> None:
    claims = [claim_of(running(house.store)) for _ in range(5)]
    getattr(house.faults, fault).add(claims[3].instance_id)
    answers = [*call(house.remote, claims)]
    refused = answers.pop(3)
    assert isinstance(refused, StoreError)
    assert isinstance(refused, StoreUnavailableError) is (fault == "locked")
    assert set(answers) <= {True, Extension.GO_ON}


def test_what_a_store_raises_of_its_own_is_answered_as_an_error_of_a_store(
    house: House,
) -> None:
    run = running(house.store)
    house.faults.failing["finish_instances"] = ZeroDivisionError("odd")
    [answer] = house.remote.end_all([Success(claim=claim_of(run), instance=run)])
    assert isinstance(answer, StoreError)
    assert "odd" in str(answer)
