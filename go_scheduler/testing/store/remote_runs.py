"""Store suite: runs on workers elsewhere, their stages and their results."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.json import read_frozen, to_text
from go_scheduler.models import RESULT_LIMIT, Outcome, Silence, Stage, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Renewal, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    TICK,
    WAITING,
    claim,
    claim_of,
    claimed,
    definition,
    finish,
    fire,
    hand_on,
    ids,
    instances,
    passed_on,
    pending,
    put,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

WORKER = "Gerät ä \"'\\,{}%s:x \U0001f40d"
OTHER_WORKER = "日本 NULL"
VALUES: list[JSON] = [
    {"sum": 7, "größe": [1, 2.5, True, None, {"\U0001f40d": "\"'\\,{}\n"}]},
    {},
    [],
    "NULL",
    "",
    0,
    -0.0,
    10**30,
    True,
    False,
]


def handed_on(store: Store, worker: str | None = WORKER) -> TaskInstance:
    """An instance that runs, with this worker."""
    instance = running(store)
    hand_on(store, instance, lease=HOUR, worker=worker)
    return instance


def in_slot(store: Store) -> TaskInstance:
    """An instance that runs, and has a slot."""
    pending(store, replace(definition(), lock="a"))
    [instance] = start(store, *claim(store))
    return instance


def worker_of(store: Store, instance: TaskInstance) -> str | None:
    """Who runs it now."""
    return store.get_instance(instance.id).worker


class WorkerTests:
    """``worker`` of ``renew_claims``."""

    def test_of_runs_handed_on_together_each_has_its_worker(self, store: Store) -> None:
        workers = [WORKER, None, OTHER_WORKER, "NULL"]
        given = {running(store).id: worker for worker in workers}
        before = {each.id: each for each in store.list_instances()}
        renewals = [
            Renewal(
                claim=claim_of(before[id]), lease=HOUR, handed_on=True, worker=worker
            )
            for id, worker in given.items()
        ]
        here = running(store)
        not_handed_on = Renewal(claim=claim_of(here), lease=HOUR, worker=WORKER)
        assert len(store.renew_claims([*renewals, not_handed_on]).done) == 5
        assert worker_of(store, here) is None
        for found in store.list_instances():
            assert found == store.get_instance(found.id)
            if found.id != here.id:
                assert found == replace(
                    before[found.id],
                    expires_at=START + HOUR,
                    worker=given[found.id],
                )

    def test_who_has_it_stays_until_it_is_handed_on_to_another(
        self, store: Store
    ) -> None:
        instance = handed_on(store)
        renew(store, instance)
        hand_on(store, instance, lease=HOUR)
        assert worker_of(store, instance) == WORKER
        hand_on(store, instance, lease=HOUR, worker=OTHER_WORKER)
        assert worker_of(store, instance) == OTHER_WORKER

    def test_who_had_it_at_last_is_shown_after_its_end(self, store: Store) -> None:
        for outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED):
            instance = handed_on(store)
            assert finish(store, instance, outcome)
            assert worker_of(store, instance) == WORKER, outcome

    def test_what_is_pending_or_claimed_again_has_nobody(
        self, store: Store, clock: ManualClock
    ) -> None:
        given_back, failed, good, over, lapsed = (handed_on(store) for _ in range(5))
        moved, skipped = (claimed(store) for _ in range(2))
        for each in (moved, skipped):
            hand_on(store, each, lease=2 * HOUR, worker=WORKER)
        put(store, replace(moved.definition, queue="another"))
        assert release(store, given_back)
        ends = [_success(good, result="1"), _failure(failed)]
        assert len(store.finish_instances(ends).done) == 2
        assert finish(store, over, Outcome.FAILED)
        assert store.reopen_instances([over.id]) == {over.id}
        assert worker_of(store, good) == WORKER
        clock.advance(HOUR)
        put(store, replace(skipped.definition, trigger=WAITING, next_fire_time=None))
        assert store.get_instance(skipped.id).state is State.SKIPPED
        assert lapsed.id in ids(claim(store, OTHER_NODE, lapsed=True))
        for how, each in (
            ("taken over", lapsed),
            ("in another queue", moved),
            ("skipped by an edit", skipped),
            ("given back", given_back),
            ("to be retried", failed),
            ("to run again by hand", over),
        ):
            assert worker_of(store, each) is None, (
                f"it has a worker, though it is {how}"
            )
        clock.advance(HOUR)
        assert lapsed.id in ids(claim(store, OTHER_NODE, lapsed=True))
        assert worker_of(store, lapsed) is None

    def test_what_is_parked_has_nobody(self, store: Store) -> None:
        of = put(store, replace(definition(), overlap=Overlap.BUFFER_ALL))
        fire(store, of, START, START + TICK)
        given = claim(store, ahead=TICK)
        for each in given:
            hand_on(store, each, lease=HOUR, worker=WORKER)
        start(store, *given)
        found = {each.parked: each.worker for each in instances(store, of)}
        assert found == {True: None, False: WORKER}

    def test_of_runs_that_did_not_succeed_the_worker_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = handed_on(store)
        assert finish(store, instance, None)
        [second] = claim(store)
        hand_on(store, second, lease=HOUR, worker=OTHER_WORKER)
        clock.advance(HOUR)
        [third] = claim(store, lapsed=True)
        assert finish(store, third, Outcome.FAILED)
        runs = store.list_runs(instance.id)
        assert [run.worker for run in runs] == [WORKER, OTHER_WORKER, None]
        assert [run.attempt for run in runs] == [1, 2, 3]


class ResultTests:
    """``result`` of ``finish_instances``."""

    def test_a_result_comes_back_as_it_was_given(self, store: Store) -> None:
        large = "ä" * ((RESULT_LIMIT - 2) // 2)
        for value in (*VALUES, large):
            instance = running(store)
            store.finish_instances([_success(instance, result=to_text(value))])
            found = store.get_instance(instance.id)
            assert found.state is State.COMPLETED
            assert to_text(found.result) == to_text(value)
            assert type(found.result) is type(read_frozen(to_text(value)))
            assert found in store.list_instances()

    def test_of_runs_that_end_together_each_has_its_own(self, store: Store) -> None:
        given = [*(running(store) for _ in range(3)), in_slot(store)]
        bad = running(store)
        results = ['"NULL"', None, '{"ä":[]}', "4"]
        ends = [
            _success(each, result=result)
            for each, result in zip(given, results, strict=True)
        ]
        store.finish_instances([*ends, _failure(bad)])
        found = [store.get_instance(each.id) for each in given]
        assert [each.result for each in found] == ["NULL", None, {"ä": []}, 4]
        assert {each.state for each in found} == {State.COMPLETED}
        assert store.get_instance(bad.id).result is None
        assert len(store.list_runs(bad.id)) == 1
        # The slot of the one that had one is free.
        assert in_slot(store).state is State.RUNNING

    def test_the_result_is_that_of_the_first_success(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        store.finish_instances([_success(first, result='"first"')])
        store.finish_instances([_success(second, result='"second"')])
        assert store.get_instance(first.id).result == "first"

    def test_a_late_success_has_its_result(self, store: Store) -> None:
        waits, failed = running(store), running(store)
        assert finish(store, waits, None)
        assert finish(store, failed, Outcome.FAILED)
        for each in (waits, failed):
            assert store.finish_instances([_success(each, result='"late"')]).done
            assert store.get_instance(each.id).result == "late"


class ClientTests:
    """``client`` of ``finish_instances``."""

    def test_what_is_said_of_a_run_stays_until_another_says_it(
        self, store: Store
    ) -> None:
        one, other, silent = (running(store) for _ in range(3))
        ends = [
            replace(_failure(one), retry_in=ZERO, client='{"a": 1}'),
            replace(_failure(other), retry_in=ZERO, client='{"b": 2}'),
            _success(silent, result="1"),
        ]
        assert len(store.finish_instances(ends).done) == 3
        given = (one, other, silent)

        def said() -> list[JSON]:
            return [store.get_instance(each.id).client for each in given]

        assert said() == [{"a": 1}, {"b": 2}, None]
        again = {each.id: each for each in claim(store)}
        store.finish_instances(
            [
                replace(_success(again[one.id], result=None), client='["c"]'),
                _success(again[other.id], result="7"),
            ]
        )
        assert said() == [["c"], {"b": 2}, None]
        assert store.get_instance(other.id).result == 7
        assert store.counts()[State.COMPLETED] == 3


def _success(instance: TaskInstance, *, result: str | None) -> RunOutcome:
    return RunOutcome(
        claim=claim_of(instance),
        started_at=instance.started_at,
        outcome=Outcome.COMPLETED,
        result=result,
    )


def _failure(instance: TaskInstance) -> RunOutcome:
    return RunOutcome(
        claim=claim_of(instance), started_at=instance.started_at, retry_in=HOUR
    )


PUBLISHED, ACCEPTED, STARTED = Stage
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
        # A stage sets the lease, even to a shorter one.
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
        told(store, began, STARTED)
        for stage, lease in (ACCEPTED, LEASE), (PUBLISHED, LEASE), (ACCEPTED, HOUR):
            assert told(store, began, stage, lease=lease) == {began.id: False}
        expires_at = START + _TICK + HOUR
        assert store.get_instance(began.id) == replace(began, expires_at=expires_at)

    def test_the_first_worker_to_accept_has_it(self, store: Store) -> None:
        for stage in (ACCEPTED, STARTED):
            accepted = come_to(store, ACCEPTED)
            assert told(store, accepted, stage, worker="other", progress="1") == {}
            assert store.get_instance(accepted.id) == accepted, stage
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
    """``silence`` of what ``claim_instances`` answers, for runs on a bus."""

    def test_what_falls_silent_is_claimed_with_what_is_known_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        silences = (
            Silence(stage=PUBLISHED, worker=None, within=MINUTE),
            Silence(stage=ACCEPTED, worker=WORKER, within=MINUTE),
            Silence(stage=STARTED, worker=WORKER, within=None),
        )
        expected = {come_to(store, each.stage).id: each for each in silences}
        for each in store.list_instances():
            told(store, each, None, lease=LEASE, progress="1")
        clock.advance(MINUTE - _TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(_TICK)
        taken = claim(store, OTHER_NODE, lapsed=True)
        assert {each.id: each.silence for each in taken} == expected
        for each in taken:
            assert each.attempt == 2
            # Only the answer of this claim has it. The instance is on no bus any more.
            found = store.get_instance(each.id)
            assert (found.silence, found.stage) == (None, None)
            assert (found.worker, found.progress) == (None, None)
            [run] = store.list_runs(each.id)
            was = expected[each.id]
            assert (run.lost_in, run.worker, run.node) == (was.stage, was.worker, NODE)
        # The next claims do not have it.
        clock.advance(LEASE)
        again = claim(store, lapsed=True)
        assert [each.silence for each in again] == [None] * 3

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
        assert sorted(taken) == sorted(ids([plain, elsewhere, silent, given_back]))
        assert [id for id, each in taken.items() if each.silence] == [silent.id]
        lost = [store.list_runs(each.id) for each in (plain, elsewhere)]
        assert [[run.lost_in for run in runs] for runs in lost] == [[None], [None]]
        [started] = start(store, taken[silent.id])
        assert started.stage is None
