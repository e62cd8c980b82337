"""Store suite: runs on remote workers, their stages and their results."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.json import read_frozen, to_text
from go_scheduler.models import RESULT_LIMIT, Outcome, Silence, Stage, State
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    TICK,
    WAITING,
    WORKER,
    Rig,
    StoreTests,
    counts_by_state,
    definition,
    end_of,
    ids,
    renewal_of,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

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


def handed_on(rig: Rig, worker: str | None = WORKER) -> TaskInstance:
    """An instance that runs, with this worker."""
    instance = rig.running()
    rig.hand_on(instance, lease=HOUR, worker=worker)
    return instance


def in_slot(rig: Rig) -> TaskInstance:
    """An instance that runs, and has a slot."""
    rig.pending(definition(lock="a"))
    [instance] = rig.start(*rig.claim())
    return instance


def worker_of(rig: Rig, instance: TaskInstance) -> str | None:
    """The worker of an instance, as it is stored."""
    return rig.read(instance).worker


class RemoteRunTests(StoreTests):
    """``worker`` of ``renew_claims``; ``result`` and ``client`` of ends."""

    def test_of_runs_handed_on_together_each_has_its_worker(self, rig: Rig) -> None:
        workers = [WORKER, None, OTHER_WORKER, "NULL"]
        given = {rig.running().id: worker for worker in workers}
        before = {each.id: each for each in rig.store.select()}
        renewals = [
            renewal_of(before[id], handed_on=True, worker=worker)
            for id, worker in given.items()
        ]
        here = rig.running()
        not_handed_on = renewal_of(here, worker=WORKER)
        assert len(rig.store.renew_claims([*renewals, not_handed_on]).done) == 5
        assert worker_of(rig, here) is None
        for id, worker in given.items():
            expected = replace(before[id], expires_at=START + HOUR, worker=worker)
            assert rig.read(expected) == expected
            assert expected in rig.store.select()

    def test_who_has_it_stays_until_it_is_handed_on_to_another(self, rig: Rig) -> None:
        instance = handed_on(rig)
        rig.renew(instance)
        rig.hand_on(instance, lease=HOUR)
        assert worker_of(rig, instance) == WORKER
        rig.hand_on(instance, lease=HOUR, worker=OTHER_WORKER)
        assert worker_of(rig, instance) == OTHER_WORKER

    def test_who_had_it_at_last_is_shown_after_its_end(self, rig: Rig) -> None:
        for outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED):
            instance = handed_on(rig)
            assert rig.finish(instance, outcome)
            assert worker_of(rig, instance) == WORKER, outcome

    def test_what_is_pending_or_claimed_again_has_nobody(self, rig: Rig) -> None:
        given_back, failed, good, over, lapsed = (handed_on(rig) for _ in range(5))
        moved, skipped = (rig.claimed() for _ in range(2))
        for each in (moved, skipped):
            rig.hand_on(each, lease=2 * HOUR, worker=WORKER)
        rig.edit(moved.definition, queue="another")
        assert rig.release(given_back)
        ends = [end_of(good, result="1"), end_of(failed, None, retry_in=HOUR)]
        assert len(rig.store.finish_instances(ends).done) == 2
        assert rig.finish(over, Outcome.FAILED)
        assert rig.store.reopen_instances([over.id]) == {over.id}
        assert worker_of(rig, good) == WORKER
        rig.advance(HOUR)
        rig.edit(skipped.definition, trigger=WAITING, next_fire_time=None)
        assert rig.read(skipped).state is State.SKIPPED
        assert lapsed.id in ids(rig.take_over())
        for how, each in (
            ("taken over", lapsed),
            ("in another queue", moved),
            ("skipped by an edit", skipped),
            ("given back", given_back),
            ("to be retried", failed),
            ("to run again by hand", over),
        ):
            assert worker_of(rig, each) is None, f"it has a worker, though it is {how}"
        rig.advance(HOUR)
        assert lapsed.id in ids(rig.take_over())
        assert worker_of(rig, lapsed) is None

    def test_what_is_parked_has_nobody(self, rig: Rig) -> None:
        of = rig.put(definition(overlap=Overlap.BUFFER_ALL))
        rig.fire(of, START, START + TICK)
        given = rig.claim(ahead=TICK)
        for each in given:
            rig.hand_on(each, lease=HOUR, worker=WORKER)
        rig.start(*given)
        found = {each.parked: each.worker for each in rig.instances(of)}
        assert found == {True: None, False: WORKER}

    def test_of_runs_that_did_not_succeed_the_worker_is_kept(self, rig: Rig) -> None:
        instance = handed_on(rig)
        assert rig.finish(instance, None)
        [second] = rig.claim()
        rig.hand_on(second, lease=HOUR, worker=OTHER_WORKER)
        rig.advance(HOUR)
        [third] = rig.claim(lapsed=True)
        assert rig.finish(third, Outcome.FAILED)
        runs = rig.store.list_runs(instance.id)
        assert [run.worker for run in runs] == [WORKER, OTHER_WORKER, None]
        assert [run.attempt for run in runs] == [1, 2, 3]

    def test_a_result_comes_back_as_it_was_given(self, rig: Rig) -> None:
        large = "ä" * ((RESULT_LIMIT - 2) // 2)
        for value in (*VALUES, large):
            instance = rig.running()
            assert rig.finish(instance, result=to_text(value))
            found = rig.read(instance)
            assert found.state is State.COMPLETED
            assert to_text(found.result) == to_text(value)
            assert type(found.result) is type(read_frozen(to_text(value)))
            assert found in rig.store.select()

    def test_of_runs_that_end_together_each_has_its_own(self, rig: Rig) -> None:
        given = [*(rig.running() for _ in range(3)), in_slot(rig)]
        bad = rig.running()
        results = ['"NULL"', None, '{"ä":[]}', "4"]
        pairs = zip(given, results, strict=True)
        ends = [end_of(each, result=result) for each, result in pairs]
        rig.store.finish_instances([*ends, end_of(bad, None, retry_in=HOUR)])
        found = [rig.read(each) for each in given]
        assert [each.result for each in found] == ["NULL", None, {"ä": []}, 4]
        assert {each.state for each in found} == {State.COMPLETED}
        assert rig.read(bad).result is None
        assert len(rig.store.list_runs(bad.id)) == 1
        # The slot of the one that had one is free.
        assert in_slot(rig).state is State.RUNNING

    def test_the_result_is_that_of_the_first_success(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        assert rig.finish(first, result='"first"')
        assert not rig.finish(second, result='"second"')
        assert rig.read(first).result == "first"

    def test_a_late_success_has_its_result(self, rig: Rig) -> None:
        waits, failed = rig.running(), rig.running()
        assert rig.finish(waits, None)
        assert rig.finish(failed, Outcome.FAILED)
        for each in (waits, failed):
            assert rig.finish(each, result='"late"')
            assert rig.read(each).result == "late"

    def test_what_is_said_of_a_run_stays_until_another_says_it(self, rig: Rig) -> None:
        one, other, silent = (rig.running() for _ in range(3))
        ends = [
            end_of(one, None, client='{"a": 1}'),
            end_of(other, None, client='{"b": 2}'),
            end_of(silent, result="1"),
        ]
        assert len(rig.store.finish_instances(ends).done) == 3
        given = (one, other, silent)

        def said() -> list[JSON]:
            return [rig.read(each).client for each in given]

        assert said() == [{"a": 1}, {"b": 2}, None]
        again = {each.id: each for each in rig.claim()}
        assert rig.finish(again[one.id], client='["c"]')
        assert rig.finish(again[other.id], result="7")
        assert said() == [["c"], {"b": 2}, None]
        assert rig.read(other).result == 7
        assert counts_by_state(rig.store)[State.COMPLETED] == 3


PUBLISHED, ACCEPTED, STARTED = Stage
_TICK = timedelta(seconds=1)


def come_to(rig: Rig, stage: Stage, lease: timedelta = MINUTE) -> TaskInstance:
    """A run that has reached this stage."""
    instance = rig.running()
    stages = (PUBLISHED, ACCEPTED, STARTED)
    for each in stages[: stages.index(stage) + 1]:
        rig.report_stage(instance, each, lease=lease)
    return rig.read(instance)


class BusRunTests(StoreTests):
    """``stage`` and ``progress`` of ``renew_claims``; ``silence`` of claims."""

    def test_each_stage_counts_its_time_anew(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.report_stage(instance, PUBLISHED, lease=HOUR) == {instance.id: False}
        found = rig.read(instance)
        assert found.stage is PUBLISHED
        assert found.expires_at == found.start_by == START + HOUR
        assert found == replace(
            instance, expires_at=START + HOUR, start_by=START + HOUR
        )
        rig.advance(_TICK)
        rig.report_stage(instance, ACCEPTED, lease=2 * MINUTE)
        found = rig.read(instance)
        # A stage sets the lease, even to a shorter one.
        assert found.expires_at == found.start_by == START + _TICK + 2 * MINUTE
        assert (found.accepted_at, found.worker) == (START + _TICK, WORKER)
        rig.advance(_TICK)
        rig.report_stage(instance, STARTED)
        found = rig.read(instance)
        assert found == replace(
            instance,
            started_at=START + 2 * _TICK,
            expires_at=START + 2 * _TICK + MINUTE,
            accepted_at=START + _TICK,
            worker=WORKER,
        )
        assert found.stage is STARTED
        assert list(rig.store.select()) == [found]

    def test_only_the_first_acceptance_counts(self, rig: Rig) -> None:
        accepted = come_to(rig, ACCEPTED)
        rig.advance(_TICK)
        for lease in (LEASE, HOUR):
            assert rig.report_stage(accepted, ACCEPTED, lease=lease) == {
                accepted.id: False
            }
            assert rig.read(accepted) == accepted
        rig.report_stage(accepted, ACCEPTED, progress="1")
        assert rig.read(accepted).progress == 1

    def test_a_stage_never_goes_back(self, rig: Rig) -> None:
        began = come_to(rig, STARTED)
        rig.advance(_TICK)
        rig.report_stage(began, STARTED)
        for stage, lease in (ACCEPTED, LEASE), (PUBLISHED, LEASE), (ACCEPTED, HOUR):
            assert rig.report_stage(began, stage, lease=lease) == {began.id: False}
        expires_at = START + _TICK + HOUR
        assert rig.read(began) == replace(began, expires_at=expires_at)

    def test_the_first_worker_to_accept_has_it(self, rig: Rig) -> None:
        for stage in (ACCEPTED, STARTED):
            accepted = come_to(rig, ACCEPTED)
            assert rig.report_stage(accepted, stage, worker="other", progress="1") == {}
            assert rig.read(accepted) == accepted, stage
            assert rig.report_stage(accepted, stage) == {accepted.id: False}

    def test_nobody_has_it_whose_worker_has_no_name(self, rig: Rig) -> None:
        instance = rig.running()
        rig.report_stage(instance, ACCEPTED, worker=None)
        assert rig.report_stage(instance, ACCEPTED)
        assert rig.report_stage(instance, STARTED, worker=None)
        assert rig.read(instance).worker == WORKER

    def test_of_many_each_comes_as_far_as_is_said(self, rig: Rig) -> None:
        given = [*(rig.running() for _ in range(5)), rig.claimed()]
        stages = [PUBLISHED, ACCEPTED, STARTED, None, None, STARTED]
        values = [None, {"ä": [1]}, "NULL", "\"'\\,{}", None, None]
        renewals = [
            renewal_of(
                each,
                handed_on=stage is not None,
                stage=stage,
                progress=None if value is None else to_text(value),
            )
            for each, stage, value in zip(given, stages, values, strict=True)
        ]
        assert len(rig.store.renew_claims(renewals).done) == len(given)
        found = [rig.read(each) for each in given]
        assert [each.stage for each in found] == stages
        assert [each.progress for each in found] == values
        assert [each.started_at for each in found] == [*5 * [START], None]

    def test_the_last_progress_is_shown_until_it_runs_anew(self, rig: Rig) -> None:
        instance = come_to(rig, STARTED)
        rig.report_stage(instance, STARTED, progress="[1]")
        rig.report_stage(instance, STARTED)
        assert rig.read(instance).progress == [1]
        rig.report_stage(instance, None, progress="2")
        assert rig.read(instance).progress == 2
        assert rig.finish(instance)
        rig.check(instance, progress=2, accepted_at=START)

    def test_what_is_pending_again_is_on_no_bus(self, rig: Rig) -> None:
        failed, released = come_to(rig, STARTED), come_to(rig, ACCEPTED)
        rig.report_stage(failed, STARTED, progress="1")
        rig.report_stage(released, ACCEPTED, progress="1")
        assert rig.finish(failed, None)
        assert rig.release(released)
        for each in failed, released:
            rig.check(each, state=State.PENDING, stage=None, worker=None, progress=None)

    def test_a_claim_tells_how_a_run_fell_silent(self, rig: Rig) -> None:
        silences = (
            Silence(stage=PUBLISHED, worker=None, within=MINUTE),
            Silence(stage=ACCEPTED, worker=WORKER, within=MINUTE),
            Silence(stage=STARTED, worker=WORKER, within=None),
        )
        expected = {come_to(rig, each.stage).id: each for each in silences}
        for each in rig.store.select():
            rig.report_stage(each, None, lease=LEASE, progress="1")
        rig.advance(MINUTE - _TICK)
        assert rig.take_over() == []
        rig.advance(_TICK)
        taken = rig.take_over()
        assert {each.id: each.silence for each in taken} == expected
        for each in taken:
            assert each.attempt == 2
            # Only the answer of this claim has it. The instance is on no bus any more.
            rig.check(each, silence=None, stage=None, worker=None, progress=None)
            [run] = rig.store.list_runs(each.id)
            was = expected[each.id]
            assert (run.lost_in, run.worker, run.node) == (was.stage, was.worker, NODE)
        # The next claims do not have it.
        rig.advance(LEASE)
        again = rig.claim(lapsed=True)
        assert [each.silence for each in again] == [None] * 3

    def test_only_what_was_on_a_bus_falls_silent(self, rig: Rig) -> None:
        plain, elsewhere, silent = rig.running(), rig.running(), rig.running()
        rig.hand_on(elsewhere, lease=LEASE, worker=WORKER)
        rig.report_stage(silent, PUBLISHED, lease=LEASE)
        given_back = come_to(rig, PUBLISHED)
        assert rig.release(given_back)
        rig.advance(LEASE)
        taken = {each.id: each for each in rig.take_over()}
        assert sorted(taken) == sorted(ids([plain, elsewhere, silent, given_back]))
        assert [id for id, each in taken.items() if each.silence] == [silent.id]
        lost = [rig.store.list_runs(each.id) for each in (plain, elsewhere)]
        assert [[run.lost_in for run in runs] for runs in lost] == [[None], [None]]
        [started] = rig.start(taken[silent.id])
        assert started.stage is None
