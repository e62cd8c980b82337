"""Runs on a bus: how far they have come, who has them, and what falls silent there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    Extension,
    HandedOn,
    MemoryStore,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    current_run,
)
from go_scheduler.client import Client
from go_scheduler.events import RunFailed, hears
from go_scheduler.models import Outcome, Silence, Stage
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.desk import (
    Desk,
    Extending,
    Failing,
    Reporting,
    progress_text,
)
from go_scheduler.running.intake import Accepted, Refused, judge
from go_scheduler.running.keeper import GRACE
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    cancel,
    claim_of,
    claimant,
    definition,
    running,
)
from go_scheduler.testing.clock import START
from tests.conftest import instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler import TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.testing import ManualClock

PUBLISHED, ACCEPTED, STARTED = Stage
UNHEARD = ", or no scheduler hears what workers say"
ONCE, TWICE = RetryPolicy(max_attempts=1), RetryPolicy(max_attempts=2, delay=SECOND)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def desk(store: MemoryStore, told: list[Event]) -> Desk:
    return Desk(store, defaults=Defaults(), tell=told.append)


def published(store: MemoryStore, **values: object) -> TaskInstance:
    """A run that is on the bus, for a minute."""
    run = running(store, replace(definition(), **values))  # type: ignore[arg-type]
    renewal = Reporting(claim=claim_of(run), stage=PUBLISHED, worker="-", by=MINUTE)
    Desk(store, defaults=Defaults(), tell=lambda event: None).extend_all([renewal])
    return store.get_instance(run.id)


# What is decided of one that fell silent.


def lapsed(of: TaskDefinition | None = None, **values: object) -> TaskInstance:
    """One that has run, and is claimed again."""
    return replace(instance(of, runs=1), **values)  # type: ignore[arg-type]


def judged(one: TaskInstance) -> object:
    return judge(one, None, defaults=Defaults(), refusal=None, now=START)


@pytest.mark.parametrize(
    ("silence", "limits", "error"),
    [
        (
            Silence(stage=PUBLISHED, within=MINUTE + timedelta(milliseconds=13)),
            {},
            f"published, and accepted by nobody within 0:01:00{UNHEARD}",
        ),
        (
            Silence(stage=PUBLISHED, within=MINUTE + timedelta(milliseconds=60)),
            {},
            f"published, and accepted by nobody within 0:01:00{UNHEARD}",
        ),
        (
            Silence(stage=PUBLISHED, within=timedelta(milliseconds=313)),
            {},
            f"published, and accepted by nobody within 0:00:00.300000{UNHEARD}",
        ),
        (
            Silence(stage=PUBLISHED, within=MINUTE),
            {"start_timeout": timedelta(seconds=1.55)},
            f"published, and accepted by nobody within 0:00:01.550000{UNHEARD}",
        ),
        (
            Silence(stage=ACCEPTED, worker="mail 7", within=MINUTE),
            {},
            "accepted by mail 7, and not begun within 0:01:00",
        ),
        (
            Silence(stage=STARTED, worker="mail 7"),
            {},
            "mail 7 has been silent for longer than it may be",
        ),
        (
            Silence(stage=STARTED),
            {"heartbeat_timeout": MINUTE, "timeout": SECOND},
            "a worker has been silent for longer than it may be",
        ),
        (
            Silence(stage=STARTED),
            {"heartbeat_timeout": SECOND, "timeout": SECOND, "expire_after": HOUR},
            "a worker has been silent for 0:00:01",
        ),
    ],
)
def test_what_fell_silent_has_failed_in_its_stage(
    silence: Silence, limits: dict[str, timedelta], error: str
) -> None:
    of = replace(definition(), retry=TWICE, **limits)  # type: ignore[arg-type]
    verdict = judged(lapsed(of, silence=silence))
    assert isinstance(verdict, Refused)
    record = verdict.decision.record
    assert (record.outcome, record.retry_in) == (None, SECOND)
    assert (record.error, record.is_kept) == (error, False)


def test_what_may_not_run_again_has_failed_for_good() -> None:
    silence = Silence(stage=STARTED, worker="a")
    of = replace(definition(), retry=ONCE)
    verdict = judged(lapsed(of, silence=silence))
    assert isinstance(verdict, Refused)
    record = verdict.decision.record
    assert record.outcome is Outcome.FAILED
    assert record.error == "a has been silent for longer than it may be"


def test_after_expiry_it_runs_again_at_once_as_it_has_been_waited_for() -> None:
    of = replace(definition(), retry=RetryPolicy.after_expiry())
    verdict = judged(lapsed(of, silence=Silence(stage=PUBLISHED)))
    assert isinstance(verdict, Refused)
    assert verdict.decision.record.retry_in == timedelta()


def test_what_was_asked_to_stop_is_cancelled_though_it_fell_silent() -> None:
    silence = Silence(stage=STARTED)
    verdict = judged(lapsed(silence=silence, cancel_requested=True))
    assert isinstance(verdict, Refused)
    assert verdict.decision.record.outcome is Outcome.CANCELLED
    assert isinstance(judged(instance(runs=1)), Accepted)


# What the desk records.


def test_a_run_is_accepted_begun_and_kept(
    store: MemoryStore, clock: ManualClock
) -> None:
    run = published(store)
    client = Client(store)
    answer = client.accept(run.id, run.attempt, worker="a", by=MINUTE)
    assert answer is Extension.GO_ON
    assert store.get_instance(run.id).stage is ACCEPTED
    clock.advance(SECOND)
    client.begin(run.id, run.attempt, worker="a", by=MINUTE)
    answer = client.extend(run.id, run.attempt, HOUR, progress={"done": 3})
    assert answer is Extension.GO_ON
    found = store.get_instance(run.id)
    assert (found.stage, found.worker, found.progress) == (STARTED, "a", {"done": 3})
    assert (found.started_at, found.expires_at) == (START + SECOND, clock.now() + HOUR)
    cancel(store, found)
    answer = client.begin(run.id, run.attempt, worker="a", by=MINUTE)
    assert answer is Extension.STOP


def test_who_comes_second_has_lost_it(store: MemoryStore, desk: Desk) -> None:
    run = published(store)
    token = claim_of(run)
    assert desk.report(token, ACCEPTED, worker="a", by=MINUTE) is Extension.GO_ON
    for stage in ACCEPTED, STARTED:
        assert desk.report(token, stage, worker="b", by=MINUTE) is Extension.LOST
    other = Failing(claim=token, error="no", worker="b", instance=run)
    own = Failing(claim=token, error="no", worker="a", instance=run)
    assert desk.fail_all([other, own]) == [False, True]
    assert store.get_instance(run.id).error == "no"


def test_before_it_is_accepted_any_worker_may_say_that_it_has_failed(
    store: MemoryStore, desk: Desk
) -> None:
    run = published(store)
    failing = Failing(claim=claim_of(run), error="no", worker="b")
    assert desk.fail_all([failing]) == [True]


def test_many_are_told_of_at_once(store: MemoryStore, desk: Desk) -> None:
    runs = [published(store) for _ in range(3)]
    accepted, begun, kept = map(claim_of, runs)
    answers = desk.extend_all(
        [
            Reporting(claim=accepted, stage=ACCEPTED, worker="a", by=HOUR),
            Reporting(
                claim=begun,
                stage=STARTED,
                worker="b",
                by=HOUR,
                progress=progress_text([1]),
            ),
            Extending(claim=kept, by=HOUR, progress=progress_text(None)),
        ]
    )
    assert set(answers) == {Extension.GO_ON}
    found = [store.get_instance(each.id) for each in runs]
    assert [each.stage for each in found] == [ACCEPTED, STARTED, PUBLISHED]
    assert [each.progress for each in found] == [None, [1], None]
    assert {each.expires_at for each in found} == {START + HOUR}


def test_its_timeout_counts_from_when_it_begins(
    store: MemoryStore, desk: Desk, clock: ManualClock
) -> None:
    run = published(store, timeout=SECOND)
    token = claim_of(run)

    def report(stage: Stage) -> Extension:
        # As whoever has published it knows it.
        reporting = Reporting(
            claim=token, stage=stage, worker="a", by=MINUTE, instance=run
        )
        [answer] = desk.extend_all([reporting])
        assert isinstance(answer, Extension)
        return answer

    clock.advance(2 * SECOND)
    assert report(ACCEPTED) is Extension.GO_ON
    assert store.get_instance(run.id).expires_at == clock.now() + MINUTE
    clock.advance(2 * SECOND)
    assert report(STARTED) is Extension.GO_ON
    assert store.get_instance(run.id).expires_at == clock.now() + SECOND + GRACE
    clock.advance(SECOND)
    assert report(STARTED) is Extension.LOST
    assert store.get_instance(run.id).error is not None


def test_one_that_is_known_and_has_no_timeout_is_not_read(
    store: MemoryStore, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = published(store)
    reporting = Reporting(
        claim=claim_of(run), stage=ACCEPTED, worker="a", by=MINUTE, instance=run
    )
    monkeypatch.setattr(MemoryStore, "get_instance", None)
    assert desk.extend_all([reporting]) == [Extension.GO_ON]


def test_the_desk_tells_of_what_it_finds_silent(
    store: MemoryStore, desk: Desk, told: list[Event], clock: ManualClock
) -> None:
    run = published(store, retry=TWICE)
    clock.advance(MINUTE)
    assert desk.claim(claimant(OTHER_NODE), limit=1, lapsed=timedelta()) == []
    [failed] = told
    assert isinstance(failed, RunFailed)
    assert failed.retry_in == SECOND
    found = store.get_instance(run.id)
    assert (found.state, found.runs, found.error) == (State.PENDING, 1, failed.error)


@pytest.mark.parametrize("worker", ["", "a" * 201, 7])
@pytest.mark.parametrize("call", [Client.accept, Client.begin])
def test_a_worker_without_a_name_is_refused(
    store: MemoryStore, call: Callable[..., Extension], worker: object
) -> None:
    run = published(store)
    with pytest.raises(ConfigurationError, match="worker"):
        call(Client(store), run.id, 1, worker=worker, by=MINUTE)
    with pytest.raises(ConfigurationError, match="by"):
        call(Client(store), run.id, 1, worker="a", by=timedelta())


def test_what_is_no_json_is_no_progress(store: MemoryStore) -> None:
    run = published(store)
    with pytest.raises(ConfigurationError, match="progress"):
        Client(store).extend(run.id, 1, MINUTE, progress=object())  # type: ignore[arg-type]


# What a node does.


def test_what_is_handed_on_over_a_bus_says_nothing_of_how_long_it_is_kept() -> None:
    with pytest.raises(ConfigurationError, match="no use with start_timeout"):
        HandedOn(start_timeout=MINUTE, expire_after=MINUTE)
    with pytest.raises(ConfigurationError, match="start_timeout"):
        HandedOn(start_timeout=timedelta())


def test_what_nobody_accepts_runs_again_as_the_policy_says(
    store: MemoryStore, clock: ManualClock
) -> None:
    attempts: list[int] = []
    failures: list[RunFailed] = []

    @hears(RunFailed)
    def hear(event: Event) -> None:
        assert isinstance(event, RunFailed)
        failures.append(event)

    def publish(instance: TaskInstance) -> HandedOn:
        attempts.append(current_run().token[1])
        # It is longer than the timeout, which counts from when it begins.
        return HandedOn(start_timeout=3 * LEASE)

    scheduler = Scheduler(
        publish, store, clock=clock, retry=TWICE, timeout=SECOND, listeners=[hear]
    )
    made = scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
    error = f"published, and accepted by nobody within 0:01:00{UNHEARD}"
    with scheduler:
        clock.advance(SECOND)
        [run] = scheduler.list_instances(definition_id=made.id)
        assert (run.stage, run.start_by) == (PUBLISHED, run.expires_at)
        assert "for a worker to accept it" in scheduler.why(run.id).text
        clock.advance(3 * LEASE - 2 * SECOND)
        assert attempts == [1]
        clock.advance(10 * SECOND)
        # The one that took it over has counted as none.
        assert attempts == [1, 3]
        assert scheduler.get_instance(run.id).error == error
        for worker in "mail 7", None:
            told = scheduler.begin if worker is None else scheduler.accept
            told(run.id, 3, worker="mail 7", by=MINUTE)
        why = scheduler.why(run.id).text
        assert "on the worker 'mail 7'" in why
        clock.advance(2 * MINUTE)
        found = scheduler.get_instance(run.id)
    assert (found.state, found.runs) == (State.FAILED, 2)
    assert found.error == "mail 7 has been silent for longer than it may be"
    assert [each.lost_in for each in store.list_runs(run.id)] == [PUBLISHED, STARTED]
    assert [each.error for each in failures] == [error, found.error]
    assert [(each.attempt, each.runs) for each in failures] == [(2, 1), (4, 2)]


def test_why_says_who_has_accepted_what_has_not_begun(store: MemoryStore) -> None:
    run = published(store)
    client = Client(store)
    client.accept(run.id, run.attempt, worker="mail 7", by=MINUTE)
    assert client.why(run.id).text == (
        "It was accepted at 2030-01-01 00:00:00 UTC, by the worker 'mail 7', which is"
        " to begin it by 2030-01-01 00:01:00 UTC. Else it has failed, and any node"
        " takes it over."
    )


def test_why_names_no_time_as_one_to_come_that_is_over(
    store: MemoryStore, clock: ManualClock
) -> None:
    lost, begun = published(store), published(store)
    client = Client(store)
    client.accept(begun.id, begun.attempt, worker="mail 7", by=MINUTE)
    clock.advance(MINUTE)
    over = " 2030-01-01 00:01:00 UTC. That is overdue: a node that serves its queue"
    assert f"and was to be accepted by a worker by{over}" in client.why(lost.id).text
    why = client.why(begun.id).text
    assert f"which was to begin it by{over}" in why
    assert "But no node is alive that takes anything: start a scheduler." in why
