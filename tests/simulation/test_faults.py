"""Simulations with faults: all promises hold, and each guard that is missing shows."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    IntervalTrigger,
    StoreError,
    TaskDefinition,
)
from go_scheduler.cli import main
from go_scheduler.cli.options import ExitCode
from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.models import Outcome, Skipped
from go_scheduler.running import outcomes
from go_scheduler.running.calling.calls import Calls
from go_scheduler.running.claimer import Claimer
from go_scheduler.running.heartbeat import Heartbeat
from go_scheduler.running.recovery import Presence
from go_scheduler.simulation import Fault, FaultKind, simulate_faults
from go_scheduler.simulation.faults import CALLS
from go_scheduler.simulation.nodes import Node, _SeededStore
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.memory.tables import Slots, StoredInstance, Tables
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, TICK
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import fire_times
from tests.audits import slow_fire_times
from tests.simulation.seeds import DEFINITIONS, simulated
from tests.traces import check_traces, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from go_scheduler.stores.base import Store

ROOT = Path(__file__).parents[2]
SEEDS = 50
NEVER = datetime.max.replace(tzinfo=UTC)


def test_an_oracle_knows_the_same_fire_times() -> None:
    for each in DEFINITIONS:
        trigger = each.trigger.anchored(START)
        span = (trigger, START, START + 10 * MINUTE)
        assert [*slow_fire_times(*span)] == [*fire_times(*span)] != []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_promises_hold_whatever_fails(seed: int, tmp_path: Path) -> None:
    with traced(tmp_path):
        report = simulated(seed)
    assert report.problems == (), [*report.shrunk().faults]
    assert report.instances > 30
    assert check_traces(tmp_path) > 100


@contextmanager
def traced(folder: Path) -> Iterator[None]:
    """Have what the store of a simulation is asked written, in simulated time."""
    ticks = count()

    def elapsed(store: Store) -> timedelta:
        return store.now() - START + next(ticks) * TICK

    with recorded(_SeededStore, folder / "simulated.calls", elapsed=elapsed):
        yield


def a_claim_takes_what_has_not_lapsed(patch: pytest.MonkeyPatch) -> None:
    old = Tables.take_lapsed

    def take(tables: Tables, queues: Any, until: Any, limit: int) -> Any:
        return old(tables, queues, NEVER, limit)

    patch.setattr(Tables, "take_lapsed", take)


def a_start_does_not_look_at_the_claim(patch: pytest.MonkeyPatch) -> None:
    def start(store: MemoryStore, claimant: Any, claims: Any) -> Any:
        answer = old(store, claimant, claims)
        found = [store.get_instance(each.instance_id) for each in claims]
        later = store.now() + claimant.lease
        return Answer(
            done=[
                replace(each, attempt=claim.attempt, parked=False, expires_at=later)
                for each, claim in zip(found, claims, strict=True)
                if each.attempt != claim.attempt
            ]
            + [*answer.done]
        )

    old = MemoryStore.start_instances
    patch.setattr(MemoryStore, "start_instances", start)


def an_end_does_not_look_at_the_claim(patch: pytest.MonkeyPatch) -> None:
    def finish(store: MemoryStore, outcome: Any) -> Any:
        attempt = store.get_instance(outcome.claim.instance_id).attempt
        return replace(outcome, claim=replace(outcome.claim, attempt=attempt))

    batches(patch, "finish_instances", finish)


def batches(
    patch: pytest.MonkeyPatch, method: str, changed: Callable[[MemoryStore, Any], Any]
) -> None:
    """Let a store fire, or record, something else than it is asked to."""
    old = getattr(MemoryStore, method)

    def call(store: MemoryStore, rows: Any, **claimant: Any) -> Any:
        return old(store, [changed(store, each) for each in rows], **claimant)

    patch.setattr(MemoryStore, method, call)


def a_claim_does_not_raise_the_attempt(patch: pytest.MonkeyPatch) -> None:
    def claim(row: StoredInstance, claimant: Any, now: Any) -> None:
        attempt = row.attempt
        old(row, claimant, now)
        row.attempt = max(attempt, 1)

    old = StoredInstance.claim
    patch.setattr(StoredInstance, "claim", claim)


def a_firing_does_not_compare_what_was_read(patch: pytest.MonkeyPatch) -> None:
    def fire(store: MemoryStore, step: Any) -> Any:
        stored = store.get_definition(step.definition.id)
        return replace(step, definition=stored)

    batches(patch, "fire_definitions", fire)


def a_slot_is_taken_by_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Slots, "take", lambda of, row: True)


def a_release_is_lost(patch: pytest.MonkeyPatch) -> None:
    def release(store: MemoryStore, releases: Any) -> Any:
        return Answer(done={each.claim.instance_id for each in releases})

    patch.setattr(MemoryStore, "release_instances", release)


def a_call_does_not_look_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    def begin(calls: Calls, run: Any) -> bool:
        kept, run.expires_at = run.expires_at, NEVER
        try:
            return old(calls, run)
        finally:
            run.expires_at = kept

    old = Calls.begin
    patch.setattr(Calls, "begin", begin)


def nothing_is_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Heartbeat, "_renew", lambda of, runs, elapsed: None)


def a_takeover_does_not_wait_after_an_outage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Presence, "lapsed", property(lambda of: ZERO))


def a_claim_has_no_deadline(patch: pytest.MonkeyPatch) -> None:
    old = MemoryStore.claim_instances
    patch.setattr(
        MemoryStore,
        "claim_instances",
        lambda store, claimant, **asked: old(
            store, claimant, **{**asked, "deadline": NEVER}
        ),
    )


def what_a_lost_answer_claimed_is_not_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claimer, "give_back_unknown", lambda of: False)


def a_retry_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcomes, "_retry_in", lambda run, failure: None)


def a_clock_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreClock, "at", lambda of, elapsed: of.base.now())


def _name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


# Each with the first seed that shows that it is missing, and what that breaks.
GUARDS = [
    (a_claim_takes_what_has_not_lapsed, 0, "called twice"),
    (a_start_does_not_look_at_the_claim, 2, "called by a claim that is lost"),
    (an_end_does_not_look_at_the_claim, 8, "called twice"),
    (a_claim_does_not_raise_the_attempt, 0, "called by a claim that is lost"),
    (a_firing_does_not_compare_what_was_read, 21, "moved back"),
    (a_slot_is_taken_by_all, 0, "not alone"),
    (a_release_is_lost, 14, "late"),
    (a_call_does_not_look_at_the_lease, 0, "called by a claim that is lost"),
    (nothing_is_renewed, 0, "called twice"),
    (a_takeover_does_not_wait_after_an_outage, 0, "called twice"),
    (a_claim_has_no_deadline, 463, "called twice"),
    (what_a_lost_answer_claimed_is_not_given_back, 14, "late"),
    (a_retry_is_lost, 0, "ended for no reason"),
    (a_clock_leads, 5, "too early"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("guard", "seed", "broken"), GUARDS, ids=_name_of)
def test_a_guard_that_is_missing_is_noticed(
    guard: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    problems = simulated(seed).problems
    assert broken in {each.partition(":")[0] for each in problems}


def test_the_faults_of_a_broken_promise_are_shrunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_clock_leads(monkeypatch)
    leads = Fault(at=ZERO, kind=FaultKind.CLOCK, node=1, length=10 * SECOND)
    harmless = [
        Fault(at=MINUTE, kind=FaultKind.REFUSED, node=1, call=call) for call in CALLS
    ]
    report = simulate_faults(
        DEFINITIONS, seed=1, nodes=1, span=3 * MINUTE, faults=[leads, *harmless]
    )
    assert len(report.faults) > 5
    assert report.problems[0].startswith("early: often 0:00:45")
    shrunk = report.shrunk()
    assert shrunk.faults == (leads,)
    assert shrunk.problems[0].startswith("early: ")


def test_where_nothing_is_broken_nothing_is_shrunk() -> None:
    report = simulated(0)
    assert report.shrunk() is report


def test_a_seed_gives_the_same_log_in_each_process() -> None:
    code = (
        "from tests.simulation.seeds import simulated;"
        "print(*simulated(5).log, sep=chr(10))"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    assert printed.decode() == "\n".join([*simulated(5).log, ""])
    assert "FAULT" in printed.decode()


def test_without_faults_all_runs_on_time() -> None:
    report = simulate_faults(DEFINITIONS, seed=1, faults=[], failures=0, nodes=1)
    assert (report.faults, report.problems) == ((), ())
    late = [each for each in report.log if "InstanceStarted" in each]
    assert late
    assert all(each.endswith("late=0:00:00") for each in late)


def test_faults_may_be_given() -> None:
    killed = Fault(
        at=MINUTE,
        kind=FaultKind.KILLED,
        node=1,
        call="fire_definitions",
        length=30 * SECOND,
    )
    refused = Fault(at=MINUTE, kind=FaultKind.REFUSED, node=2, call="claim_instances")
    report = simulate_faults(
        DEFINITIONS, seed=1, nodes=2, span=5 * MINUTE, faults=[killed, refused]
    )
    assert {*report.faults} == {killed, refused}
    assert not report.problems
    assert str(killed) == (
        "0:01:00 node 1: killed after fire_definitions, and started again 0:00:30 later"
    )
    assert any("node 1.2: NodeStarted" in each for each in report.log)


def test_a_clock_may_be_set_while_nodes_run() -> None:
    forward = Fault(at=MINUTE, kind=FaultKind.CLOCK, node=1, length=HOUR)
    report = simulate_faults(
        DEFINITIONS, seed=1, span=3 * MINUTE, faults=[forward], failures=0
    )
    assert (report.faults, report.problems) == ((forward,), ())
    assert "node 1: FAULT its clock is off by 1:00:00" in "\n".join(report.log)


def test_a_run_that_outlives_its_expire_after_is_excused() -> None:
    often = IntervalTrigger(MINUTE)
    hanging = TaskDefinition(name="hanging", trigger=often, expire_after=10 * SECOND)
    report = simulate_faults(
        [hanging], seed=1, span=3 * MINUTE, durations=30 * SECOND, faults=[]
    )
    assert report.problems == ()
    assert report.calls > report.instances


def test_what_fails_when_it_is_carried_out_late_fails_for_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("no")

    late = Fault(
        at=ZERO, kind=FaultKind.DELAYED, node=1, call="note_contact", length=SECOND
    )
    monkeypatch.setattr(MemoryStore, "note_contact", fail)
    report = simulate_faults(
        DEFINITIONS, seed=1, nodes=1, span=MINUTE, faults=[late], failures=0
    )
    assert report.faults == (late,)
    assert any("LoopFailed loop=recovery" in each for each in report.log)


def test_an_error_of_the_simulation_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "due", lambda of: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        simulated(1)


def fires_at_other_times(patch: pytest.MonkeyPatch) -> None:
    def fire(_: MemoryStore, step: Any) -> Any:
        return replace(step, fire_times=tuple(at + SECOND for at in step.fire_times))

    batches(patch, "fire_definitions", fire)


def skips_what_it_fires(patch: pytest.MonkeyPatch) -> None:
    def fire(_: MemoryStore, step: Any) -> Any:
        skipped = Skipped.itself(step.fire_times[0], "made on purpose")
        return replace(step, skipped=skipped)

    batches(patch, "fire_definitions", fire)


def records_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        MemoryStore, "finish_instances", lambda store, outcomes: Answer(done=set())
    )


def ends_as(outcome: Outcome) -> Callable[[pytest.MonkeyPatch], None]:
    def end(_: MemoryStore, each: Any) -> Any:
        return replace(each, outcome=outcome, error=None)

    return lambda patch: batches(patch, "finish_instances", end)


@pytest.mark.parametrize(
    ("guard", "failures", "reasons"),
    [
        (fires_at_other_times, 0, ["unexpected", "missed"]),
        (skips_what_it_fires, 0, ["doubled"]),
        (records_nothing, 0, ["left open"]),
        (ends_as(Outcome.COMPLETED), 1, ["ended for no reason"]),
        (ends_as(Outcome.SKIPPED), 0, ["ended for no reason"]),
        (ends_as(Outcome.CANCELLED), 0, ["ended for no reason"]),
    ],
)
def test_what_is_wrong_without_any_fault_is_noticed(
    guard: Callable[[pytest.MonkeyPatch], None],
    failures: int,
    reasons: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    report = simulate_faults(
        DEFINITIONS[:1], seed=1, nodes=1, span=MINUTE, faults=[], failures=failures
    )
    found = {each.partition(":")[0] for each in report.problems}
    assert found >= {*reasons}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"nodes": 0}, "nodes must be at least 1"),
        ({"failures": 2}, "failures must be from 0 to 1"),
        ({"span": ZERO}, "span"),
        (
            {"faults": [Fault(at=ZERO, kind=FaultKind.LOST, node=1, call="now")]},
            "a fault meets one of",
        ),
        ({"faults": [Fault(at=ZERO, kind=FaultKind.LOST)]}, "needs a call"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        simulate_faults(DEFINITIONS, seed=1, **given)


def test_a_single_time_that_has_passed_runs_at_once() -> None:
    past = ExecuteOnceTrigger(START - MINUTE)
    once = TaskDefinition(trigger=past)
    report = simulate_faults([once], seed=1, span=MINUTE, faults=[], failures=0)
    assert (report.problems, report.calls) == ((), 1)


def test_faults_are_simulated_by_the_command_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "set").write_text('{"name": "send", "trigger": {"every": 60}}\n')
    command = ["simulate", str(tmp_path / "set"), "--faults", "--span", "5m"]
    assert main([*command, "--seed", "3", "--seeds", "2"]) == ExitCode.DONE
    [third, fourth] = capsys.readouterr().out.splitlines()
    assert third.startswith("seed 3: 4 instances, ")
    assert fourth.endswith("all promises held")
    a_retry_is_lost(monkeypatch)
    assert main([*command, "--seed", "3", "--seeds", "3"]) == ExitCode.NOT_SO
    assert "broken: ended for no reason: send" in capsys.readouterr().out
    assert main([*command, "--json", "--seed", "3", "--seeds", "3"]) == ExitCode.NOT_SO
    documents = map(json.loads, capsys.readouterr().out.splitlines())
    assert any(each["problems"] for each in documents)
    assert main([*command, "--workers", "3"]) == ExitCode.USAGE
