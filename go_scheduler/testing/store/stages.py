"""Store suite: how far runs on a bus have come, and what falls silent there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.json import to_text
from go_scheduler.models import Silence, Stage, State
from go_scheduler.stores.messages import Renewal
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    claim,
    claim_of,
    finish,
    hand_on,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

PUBLISHED, ACCEPTED, STARTED = Stage
WORKER = "Gerät ä \"'\\,{}%s:x \U0001f40d"
_TICK = timedelta(seconds=1)


def told(
    store: Store,
    instance: TaskInstance,
    stage: Stage | None,
    *,
    lease: timedelta = MINUTE,
    worker: str | None = WORKER,
    progress: str | None = None,
) -> Mapping[UUID, bool]:
    """Tell how far a run has come."""
    renewal = Renewal(
        claim=claim_of(instance),
        lease=lease,
        handed_on=True,
        worker=worker if stage in (ACCEPTED, STARTED) else None,
        stage=stage,
        progress=progress,
    )
    return store.renew_claims([renewal]).done


def come_to(store: Store, stage: Stage, lease: timedelta = MINUTE) -> TaskInstance:
    """A run that has come so far."""
    instance = running(store)
    stages = (PUBLISHED, ACCEPTED, STARTED)
    for each in stages[: stages.index(stage) + 1]:
        told(store, instance, each, lease=lease)
    return store.get_instance(instance.id)


class StageTests:
    """``stage`` and ``progress`` of ``renew_claims``."""

    def test_each_stage_counts_its_time_anew(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        assert told(store, instance, PUBLISHED, lease=HOUR) == {instance.id: False}
        found = store.get_instance(instance.id)
        assert found.stage is PUBLISHED
        assert found.expires_at == found.start_by == START + HOUR
        assert found == replace(
            instance, expires_at=START + HOUR, start_by=START + HOUR
        )
        clock.advance(_TICK)
        told(store, instance, ACCEPTED, lease=2 * MINUTE)
        found = store.get_instance(instance.id)
        # It is set, though it would have held for longer.
        assert found.expires_at == found.start_by == START + _TICK + 2 * MINUTE
        assert (found.accepted_at, found.worker) == (START + _TICK, WORKER)
        clock.advance(_TICK)
        told(store, instance, STARTED)
        found = store.get_instance(instance.id)
        assert found == replace(
            instance,
            started_at=START + 2 * _TICK,
            expires_at=START + 2 * _TICK + MINUTE,
            accepted_at=START + _TICK,
            worker=WORKER,
        )
        assert found.stage is STARTED
        assert list(store.list_instances()) == [found]

    def test_a_heartbeat_keeps_when_it_began(
        self, store: Store, clock: ManualClock
    ) -> None:
        began = come_to(store, STARTED, HOUR)
        clock.advance(_TICK)
        told(store, began, STARTED)
        expires_at = START + _TICK + MINUTE
        assert store.get_instance(began.id) == replace(began, expires_at=expires_at)

    def test_only_the_first_acceptance_counts(
        self, store: Store, clock: ManualClock
    ) -> None:
        accepted = come_to(store, ACCEPTED)
        clock.advance(_TICK)
        for lease in (LEASE, HOUR):
            assert told(store, accepted, ACCEPTED, lease=lease) == {accepted.id: False}
            assert store.get_instance(accepted.id) == accepted
        told(store, accepted, ACCEPTED, progress="1")
        assert store.get_instance(accepted.id).progress == 1

    def test_a_stage_never_goes_back(self, store: Store, clock: ManualClock) -> None:
        began = come_to(store, STARTED)
        clock.advance(_TICK)
        for stage, lease in (ACCEPTED, LEASE), (PUBLISHED, LEASE), (ACCEPTED, HOUR):
            assert told(store, began, stage, lease=lease) == {began.id: False}
        expires_at = START + _TICK + HOUR
        assert store.get_instance(began.id) == replace(began, expires_at=expires_at)

    def test_a_worker_may_be_heard_before_it_is_published(self, store: Store) -> None:
        instance = running(store)
        told(store, instance, ACCEPTED)
        accepted = store.get_instance(instance.id)
        # What publishes it may name somebody, too.
        late = Renewal(
            claim=claim_of(instance),
            lease=LEASE,
            handed_on=True,
            worker="bus",
            stage=PUBLISHED,
        )
        assert store.renew_claims([late]).done
        assert store.get_instance(instance.id) == accepted
        renew(store, instance)
        assert store.get_instance(instance.id) == accepted

    @pytest.mark.parametrize("stage", [ACCEPTED, STARTED])
    def test_the_first_worker_to_accept_has_it(
        self, store: Store, stage: Stage
    ) -> None:
        accepted = come_to(store, ACCEPTED)
        assert told(store, accepted, stage, worker="other", progress="1") == {}
        assert store.get_instance(accepted.id) == accepted
        assert told(store, accepted, stage) == {accepted.id: False}

    def test_nobody_has_it_whose_worker_has_no_name(self, store: Store) -> None:
        instance = running(store)
        told(store, instance, ACCEPTED, worker=None)
        assert told(store, instance, ACCEPTED)
        assert told(store, instance, STARTED, worker=None)
        assert store.get_instance(instance.id).worker == WORKER

    def test_of_many_each_comes_as_far_as_is_said(self, store: Store) -> None:
        given = [running(store) for _ in range(5)]
        stages = [PUBLISHED, ACCEPTED, STARTED, None, None]
        values = [None, {"ä": [1]}, "NULL", "\"'\\,{}", None]
        renewals = [
            Renewal(
                claim=claim_of(each),
                lease=HOUR,
                handed_on=stage is not None,
                stage=stage,
                progress=None if value is None else to_text(value),
            )
            for each, stage, value in zip(given, stages, values, strict=True)
        ]
        assert len(store.renew_claims(renewals).done) == 5
        found = [store.get_instance(each.id) for each in given]
        assert [each.stage for each in found] == stages
        assert [each.progress for each in found] == values

    def test_the_last_progress_is_shown_until_it_runs_anew(self, store: Store) -> None:
        instance = come_to(store, STARTED)
        told(store, instance, STARTED, progress="[1]")
        told(store, instance, STARTED)
        assert store.get_instance(instance.id).progress == [1]
        told(store, instance, None, progress="2")
        assert store.get_instance(instance.id).progress == 2
        assert finish(store, instance)
        ended = store.get_instance(instance.id)
        assert (ended.progress, ended.accepted_at) == (2, START)

    def test_what_is_pending_again_is_on_no_bus(self, store: Store) -> None:
        failed, released = come_to(store, STARTED), come_to(store, ACCEPTED)
        told(store, failed, STARTED, progress="1")
        told(store, released, ACCEPTED, progress="1")
        assert finish(store, failed, None)
        assert release(store, released)
        for each in failed, released:
            found = store.get_instance(each.id)
            assert (found.state, found.stage) == (State.PENDING, None)
            assert (found.worker, found.progress) == (None, None)


class SilenceTests:
    """What ``claim_instances`` answers of runs on a bus that have lapsed."""

    @pytest.mark.parametrize(
        ("stage", "within", "worker"),
        [
            (PUBLISHED, MINUTE, None),
            (ACCEPTED, MINUTE, WORKER),
            (STARTED, None, WORKER),
        ],
    )
    def test_what_falls_silent_is_claimed_with_what_is_known_of_it(
        self,
        store: Store,
        clock: ManualClock,
        stage: Stage,
        within: timedelta | None,
        worker: str | None,
    ) -> None:
        silent = come_to(store, stage)
        told(store, silent, None, lease=LEASE, progress="1")
        clock.advance(MINUTE - _TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(_TICK)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert taken.silence == Silence(stage=stage, worker=worker, within=within)
        assert (taken.id, taken.attempt) == (silent.id, silent.attempt + 1)
        # It is that claim's to know, and what it takes over is on no bus.
        found = store.get_instance(silent.id)
        assert (found.silence, found.stage) == (None, None)
        assert (found.worker, found.progress) == (None, None)
        [run] = store.list_runs(silent.id)
        assert (run.lost_in, run.worker, run.node) == (stage, worker, NODE)
        # Nobody answers the next one with it.
        clock.advance(LEASE)
        [again] = claim(store, lapsed=True)
        assert again.silence is None

    def test_only_what_was_on_a_bus_falls_silent(
        self, store: Store, clock: ManualClock
    ) -> None:
        plain, elsewhere, silent = running(store), running(store), running(store)
        hand_on(store, elsewhere, lease=LEASE, worker=WORKER)
        told(store, silent, PUBLISHED, lease=LEASE)
        given_back = come_to(store, PUBLISHED)
        assert release(store, given_back)
        clock.advance(LEASE)
        taken = {each.id: each for each in claim(store, OTHER_NODE, lapsed=True)}
        assert set(taken) == {
            each.id for each in (plain, elsewhere, silent, given_back)
        }
        assert [id for id, each in taken.items() if each.silence] == [silent.id]
        lost = [store.list_runs(each.id) for each in (plain, elsewhere)]
        assert [[run.lost_in for run in runs] for runs in lost] == [[None], [None]]
        [started] = start(store, taken[silent.id])
        assert started.stage is None
