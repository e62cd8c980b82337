"""Runs that go on elsewhere: handed on, kept, and ended by their token."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    Cancelled,
    ConfigurationError,
    Extension,
    HandedOn,
    RetryPolicy,
    RunEnd,
    Scheduler,
    State,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.events import (
    DefinitionCompleted,
    InstanceFinished,
    InstanceGivenBack,
    InstanceHandedOn,
    InstanceRetried,
    InstanceStarted,
    InstanceTakenOver,
    RunDeferred,
    RunEnded,
    RunFailed,
    RunTimedOut,
    TriggerFailed,
)
from go_scheduler.models import Outcome, Stage
from go_scheduler.triggers.base import Trigger
from tests.behaviour.house import HOUR, LEASE, MINUTE, SECOND, World, at, once, seconds

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler import TaskInstance


class Work:
    """A node whose handler hands each run on, and the tokens of these."""

    def __init__(self, world: World, **handed_on: Any) -> None:
        self.world = world
        self.tokens: list[tuple[UUID, int]] = []
        self._handed_on = HandedOn(**handed_on)
        self.node: Scheduler

    def handler(self, instance: TaskInstance) -> HandedOn:
        self.tokens.append((instance.id, instance.attempt))
        return self._handed_on

    def start(self, name: str = "node", **settings: Any) -> Scheduler:
        self.node = self.world.node(self.handler, name, **settings)
        return self.node

    def begin(self, definition: TaskDefinition, **settings: Any) -> tuple[UUID, int]:
        """Have a definition fire, and its run handed on; answer its token."""
        self.start(**settings)
        self.node.schedule(definition)
        self.world.advance(1)
        [token] = self.tokens
        return token


@pytest.fixture
def work(world: World) -> Work:
    return Work(world)


def expires_in(world: World) -> float:
    expires_at = world.only().expires_at
    assert expires_at is not None
    return (expires_at - world.clock.now()).total_seconds()


def test_a_run_that_is_handed_on_goes_on_and_costs_its_node_nothing(
    world: World, work: Work
) -> None:
    work.begin(once(expire_after=MINUTE), max_workers=1)
    health = work.node.health()
    assert (health.busy, health.waiting, health.unrecorded) == (0, 0, 0)
    assert world.only().state is State.RUNNING
    kinds = [type(each) for each in world.heard.events]
    assert kinds.index(InstanceStarted) < kinds.index(InstanceHandedOn)
    work.node.schedule(once(2))
    world.advance(2)
    assert len(work.tokens) == 2
    assert world.heard.of(InstanceFinished) == []


@pytest.mark.parametrize(
    ("handed_on", "definition", "kept"),
    [
        ({}, {"expire_after": MINUTE}, 59),
        ({}, {}, 299),
        ({"expire_after": 10 * MINUTE}, {"expire_after": MINUTE}, 599),
        # No longer than its timeout and a little more, so that it is told.
        ({"expire_after": HOUR}, {"timeout": MINUTE}, 64),
        # Its timeout counts from when it begins.
        ({"start_timeout": 2 * MINUTE}, {"timeout": MINUTE}, 119),
    ],
)
def test_it_is_kept_for_as_long_as_was_said(
    world: World, handed_on: dict[str, Any], definition: dict[str, Any], kept: float
) -> None:
    work = Work(world, **handed_on)
    work.begin(once(**definition))
    assert expires_in(world) == pytest.approx(kept, abs=0.1)
    world.advance(kept - 1)
    assert len(work.tokens) == 1
    world.advance(LEASE.total_seconds() + 5)
    assert len(work.tokens) == 2
    assert work.tokens[1][0] == work.tokens[0][0]


def test_what_nobody_ends_runs_again_and_the_first_success_counts(
    world: World, work: Work
) -> None:
    first = work.begin(once(expire_after=MINUTE))
    world.advance(80)
    [_, second] = work.tokens
    assert second == (first[0], 2)
    assert [each.attempt for each in world.heard.of(InstanceTakenOver)] == [2]
    assert work.node.extend(*first, MINUTE) is Extension.LOST
    assert not work.node.fail(*first, "late")
    assert work.node.complete(*first, result={"from": "the first"})
    assert work.node.complete(*first)
    assert not work.node.complete(*second)
    assert work.node.extend(*second, MINUTE) is Extension.LOST
    ended = world.only()
    assert (ended.state, ended.ended_attempt) == (State.COMPLETED, 1)
    assert ended.result == {"from": "the first"}
    assert world.store.list_runs(ended.id)[0].outcome is RunEnd.LOST


def test_it_is_recorded_as_soon_as_the_store_can_be_told(
    world: World, work: Work
) -> None:
    world.faults.failing["renew_claims"] = StoreUnavailableError("away")
    work.begin(once(expire_after=HOUR))
    assert work.node.health().unrecorded == 1
    assert expires_in(world) < 21
    world.advance(5)
    world.faults.failing.clear()
    world.advance(6)
    assert work.node.health().unrecorded == 0
    assert expires_in(world) > 3500
    assert len(world.heard.of(InstanceHandedOn)) == 1


def test_one_that_cannot_be_recorded_costs_only_itself(
    world: World, work: Work
) -> None:
    node = work.start()
    for _ in range(4):
        node.schedule(once(2, expire_after=HOUR))
    world.advance(1.5)
    bad = world.store.select()[1].id
    world.faults.bad.add(bad)
    world.faults.where = {"renew_claims"}
    world.advance(5)
    assert node.health().unrecorded == 1
    assert len(world.heard.of(InstanceHandedOn)) == 3
    world.faults.bad.clear()
    world.advance(10)
    assert len(world.heard.of(InstanceHandedOn)) == 4


def test_a_stop_neither_waits_for_it_nor_ends_it(world: World, work: Work) -> None:
    token = work.begin(once())
    assert work.node.stop()
    assert world.only().state is State.RUNNING
    assert Client(world.store).complete(*token)


def test_it_may_be_ended_before_its_handler_has_returned(world: World) -> None:
    def handler(instance: TaskInstance) -> HandedOn:
        assert Client(world.store).complete(instance.id, instance.attempt)
        return HandedOn()

    node = world.node(handler)
    node.schedule(once())
    world.advance(1)
    assert world.only().state is State.COMPLETED
    assert node.health().ok
    assert world.heard.of(InstanceHandedOn) == []


def test_what_was_presumed_hung_is_not_handed_on_any_more(world: World) -> None:
    node = world.node(world.bench.handler)
    node.schedule(once(expire_after=seconds(10)))
    world.advance(11)
    first, second = world.bench.calls
    first.end(HandedOn(expire_after=HOUR))
    world.advance(1)
    assert world.heard.of(InstanceHandedOn) == []
    second.end()
    world.advance(1)
    assert world.only().ended_attempt == 2


def test_the_class_in_place_of_a_value_is_a_failed_run(world: World) -> None:
    world.node(lambda _: HandedOn).schedule(once())
    world.advance(1)
    assert "return HandedOn()" in (world.only().error or "")


def test_it_is_not_taken_for_what_a_lost_answer_had_claimed(
    world: World, work: Work
) -> None:
    work.begin(once(expire_after=HOUR))
    world.faults.losing.add("claim_instances")
    world.advance(5)
    world.faults.losing.clear()
    world.advance(10)
    assert len(work.tokens) == 1
    assert world.only().state is State.RUNNING


def test_it_goes_on_for_as_long_as_it_is_extended(world: World, work: Work) -> None:
    token = work.begin(once(expire_after=MINUTE))
    for number in range(3):
        world.advance(55)
        answer = work.node.extend(*token, MINUTE, progress={"done": number})
        assert answer is Extension.GO_ON
        assert world.only().progress == {"done": number}
    work.node.extend(*token, SECOND)
    assert expires_in(world) == 60
    assert len(work.tokens) == 1


@pytest.mark.parametrize("how", ["extend", "begin"])
def test_who_keeps_it_is_told_to_stop_and_that_it_is_lost(
    world: World, work: Work, how: str
) -> None:
    token = work.begin(once(expire_after=HOUR))

    def keep() -> Extension:
        if how == "extend":
            return work.node.extend(*token, MINUTE)
        return work.node.begin(*token, worker="a", by=MINUTE)

    assert keep() is Extension.GO_ON
    assert work.node.cancel(token[0]) is Cancelled.REQUESTED
    assert keep() is Extension.STOP
    assert work.node.fail(*token, "stopped")
    assert world.only().state is State.CANCELLED
    assert keep() is Extension.LOST
    unknown = once().id
    assert work.node.extend(unknown, 1, MINUTE) is Extension.LOST
    assert not work.node.release(unknown, 1)


def test_what_is_kept_past_its_timeout_has_failed_by_that(world: World) -> None:
    work = Work(world, expire_after=HOUR)
    retry = RetryPolicy(delay=seconds(5))
    token = work.begin(once(timeout=MINUTE, retry=retry))
    world.advance(30)
    assert work.node.extend(*token, HOUR) is Extension.GO_ON
    # It is kept a little longer than it may run, so that its worker is told.
    assert expires_in(world) == pytest.approx(34, abs=0.1)
    world.advance(29)
    assert work.node.extend(*token, HOUR) is Extension.LOST
    [told] = world.heard.of(RunTimedOut)
    assert (told.timeout, told.ended) == (MINUTE, True)
    assert (world.only().error or "").startswith("timed out after 0:01:00: it was not")
    world.advance(6)
    assert len(work.tokens) == 2


def test_what_has_succeeded_is_told_and_counted(world: World, work: Work) -> None:
    token = work.begin(once(), retry=RetryPolicy(max_attempts=1))
    world.advance(9)
    assert work.node.complete(*token, result=[1, None])
    assert world.only().result == [1, None]
    [ended], [finished] = world.heard.of(RunEnded), world.heard.of(InstanceFinished)
    assert (ended.outcome, ended.took) == (Outcome.COMPLETED, seconds(10))
    assert (finished.started_at, finished.took) == (at(0), seconds(10))
    world.advance(100)
    assert len(work.tokens) == 1


@pytest.mark.parametrize(
    ("failing", "state", "due"),
    [
        ({}, State.PENDING, 61),
        ({"retry_in": seconds(5)}, State.PENDING, 15),
        ({"retry": False}, State.FAILED, 0),
    ],
)
def test_what_has_failed_is_followed_as_its_policy_says_unless_told_otherwise(
    world: World, work: Work, failing: dict[str, Any], state: State, due: float
) -> None:
    token = work.begin(once(retry=RetryPolicy(delay=seconds(51))))
    world.advance(9)
    assert work.node.fail(*token, "no paper \0", **failing)
    assert not work.node.fail(*token, "again")
    found = world.only()
    assert (found.state, found.runs, found.due_at) == (state, 1, at(due))
    assert found.error == "no paper \\x00"
    [told] = world.heard.of(RunFailed, RunDeferred)
    assert isinstance(told, RunDeferred) == ("retry_in" in failing)
    assert len(world.heard.of(InstanceRetried)) == (state is State.PENDING)
    assert len(world.heard.of(InstanceFinished)) == (state is State.FAILED)
    world.advance(60)
    assert len(work.tokens) == 1 + (state is State.PENDING)
    # A success makes a failure good, for as long as nothing follows it.
    assert work.node.complete(*token)
    assert world.only().state is State.COMPLETED


def test_what_was_cancelled_or_is_gone_cannot_succeed(world: World, work: Work) -> None:
    token = work.begin(once(retry=RetryPolicy(delay=HOUR)))
    work.node.fail(*token, "no")
    work.node.cancel(token[0])
    assert world.only().state is State.CANCELLED
    assert not work.node.complete(*token)
    assert world.only().state is State.CANCELLED


@pytest.mark.parametrize(("delay", "times"), [(0, 2), (30, 1)])
def test_what_is_given_back_runs_anew_and_counts_as_no_run(
    world: World, work: Work, delay: float, times: int
) -> None:
    token = work.begin(once())
    given_back = work.node.release(*token, delay=seconds(delay), reason="no room")
    assert given_back
    assert not work.node.release(*token)
    assert world.only().runs == 0
    world.advance(0)
    assert len(work.tokens) == times
    world.advance(31)
    assert len(work.tokens) == 2
    told = world.heard.of(InstanceGivenBack)
    assert [(each.reason, each.delay) for each in told] == [("no room", seconds(delay))]


class Broken(Trigger):
    """Waits for the end of a run, and cannot say what follows."""

    kind = "tests.behaviour.broken"
    waits = True
    recurring = True
    error: BaseException | None = ZeroDivisionError("by zero")

    def next_fire_time(self, after: datetime) -> datetime | None:
        if Broken.error is not None:
            raise Broken.error
        return None


def test_one_whose_trigger_fails_at_the_end_fires_in_a_minute(
    world: World, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = work.start()
    broken = TaskDefinition(trigger=Broken(), next_fire_time=at(1))
    world.store.put_definitions([broken])
    world.advance(2)
    assert node.complete(*work.tokens[0])
    assert node.get_definition(broken.id).next_fire_time == at(62)
    assert len(world.heard.of(TriggerFailed)) == 1
    # One that has no further fire time is completed.
    world.advance(61)
    monkeypatch.setattr(Broken, "error", None)
    assert node.complete(*work.tokens[1])
    [told] = world.heard.of(DefinitionCompleted)
    assert told.definition_id == broken.id


def test_of_two_that_complete_one_attempt_at_once_both_learn_that_it_has(
    world: World, work: Work
) -> None:
    token = work.begin(once())
    answers: list[bool] = []

    def complete() -> None:
        answers.append(Client(world.store).complete(*token))

    world.faults.meanwhile["select"] = complete
    complete()
    assert answers == [True, True]


@pytest.mark.parametrize("call", ["complete", "fail", "release", "extend"])
def test_what_is_locked_or_away_is_to_be_asked_again(
    world: World, work: Work, call: str
) -> None:
    token = work.begin(once())
    says: dict[str, Any] = {"fail": ["no"], "extend": [MINUTE]}
    ask = partial(getattr(work.node, call), *token, *says.get(call, []))
    world.faults.locked.add(token[0])
    with pytest.raises(StoreUnavailableError, match="another transaction has locked"):
        ask()
    world.faults.locked.clear()
    world.faults.bad.add(token[0])
    with pytest.raises(StoreError, match="a bad row"):
        ask()
    world.faults.bad.clear()
    assert world.only().state is State.RUNNING
    assert ask()


@pytest.mark.parametrize(
    "call",
    [
        lambda client, id: client.complete(id, 0),
        lambda client, id: client.complete("id", 1),
        lambda client, id: client.complete(id, 1, result={"a": float("nan")}),
        lambda client, id: client.extend(id, 1, seconds(0)),
        lambda client, id: client.extend(id, 1, MINUTE, progress=object()),
        lambda client, id: client.fail(id, 1, 7),
        lambda client, id: client.fail(id, 1, "no", retry=False, retry_in=SECOND),
        lambda client, id: client.fail(id, 1, "no", retry_in=-SECOND),
        lambda client, id: client.release(id, 1, delay=-SECOND),
        lambda client, id: client.accept(id, 1, worker="", by=MINUTE),
        lambda client, id: client.begin(id, 1, worker="a", by=seconds(0)),
    ],
)
def test_what_cannot_be_meant_is_refused(world: World, work: Work, call: Any) -> None:
    token = work.begin(once())
    before = world.only()
    with pytest.raises(ConfigurationError):
        call(work.node, token[0])
    assert world.only() == before


@pytest.mark.parametrize(
    "handed_on",
    [
        {"expire_after": seconds(0)},
        {"start_timeout": seconds(0)},
        {"start_timeout": MINUTE, "expire_after": MINUTE},
        {"worker": ""},
        {"worker": "a" * 201},
    ],
)
def test_what_cannot_be_handed_on_so_is_refused(handed_on: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        HandedOn(**handed_on)


def test_a_run_on_a_bus_is_accepted_begun_and_kept(world: World) -> None:
    work = Work(world, start_timeout=MINUTE)
    token = work.begin(once(timeout=HOUR))
    found = world.only()
    assert (found.stage, found.start_by) == (Stage.PUBLISHED, found.expires_at)
    world.advance(50)
    answer = work.node.accept(*token, worker="mail 7", by=MINUTE)
    assert answer is Extension.GO_ON
    found = world.only()
    assert (found.stage, found.worker) == (Stage.ACCEPTED, "mail 7")
    world.advance(50)
    for other in (work.node.accept, work.node.begin):
        assert other(*token, worker="mail 8", by=MINUTE) is Extension.LOST
    work.node.begin(*token, worker="mail 7", by=MINUTE)
    found = world.only()
    assert (found.stage, found.started_at) == (Stage.STARTED, world.clock.now())
    for _ in range(3):
        world.advance(50)
        answer = work.node.extend(*token, MINUTE, progress=[1])
        assert answer is Extension.GO_ON
    assert work.node.complete(*token)
    assert len(work.tokens) == 1


def test_its_timeout_counts_from_when_it_begins(world: World) -> None:
    work = Work(world, start_timeout=MINUTE)
    token = work.begin(once(timeout=seconds(30)))
    world.advance(45)
    work.node.accept(*token, worker="a", by=MINUTE)
    world.advance(45)
    assert work.node.begin(*token, worker="a", by=HOUR) is Extension.GO_ON
    assert expires_in(world) == pytest.approx(35)
    world.advance(29)
    assert work.node.begin(*token, worker="a", by=HOUR) is Extension.GO_ON
    world.advance(1)
    assert work.node.begin(*token, worker="a", by=HOUR) is Extension.LOST
    assert (world.only().error or "").startswith("timed out after 0:00:30")


UNHEARD = (
    "published, and accepted by nobody within {}, or no scheduler hears what workers"
    " say"
)
SILENT = "mail 7 has been silent for longer than it may be"


@pytest.mark.parametrize(
    ("stages", "options", "error"),
    [
        (0, {}, UNHEARD.format("0:01:00")),
        (0, {"start_timeout": seconds(50)}, UNHEARD.format("0:00:50")),
        (1, {}, "accepted by mail 7, and not begun within 0:02:00"),
        (2, {}, SILENT),
        (2, {"heartbeat_timeout": seconds(100)}, "mail 7 has been silent for 0:01:40"),
        (2, {"heartbeat_timeout": HOUR, "timeout": 30 * MINUTE}, SILENT),
    ],
)
def test_a_run_that_falls_silent_has_failed_in_its_stage(
    world: World, stages: int, options: dict[str, Any], error: str
) -> None:
    work = Work(world, start_timeout=MINUTE)
    retry = RetryPolicy(max_attempts=2, delay=seconds(7))
    token = work.begin(once(retry=retry, **options))
    if stages > 0:
        work.node.accept(*token, worker="mail 7", by=2 * MINUTE)
    if stages > 1:
        work.node.begin(*token, worker="mail 7", by=2 * MINUTE)
    world.advance(58 if stages == 0 else 118)
    assert len(work.tokens) == 1
    assert world.heard.of(RunFailed) == []
    world.advance(6)
    [failed] = world.heard.of(RunFailed)
    assert (failed.error, failed.runs) == (error, 1)
    assert failed.retry_in == seconds(7)
    world.advance(10)
    assert len(work.tokens) == 2
    # The second time is the last.
    world.advance(70)
    ended = world.only()
    assert (ended.state, ended.runs) == (State.FAILED, 2)
    assert len(work.tokens) == 2
    lost_in = [each.lost_in for each in world.store.list_runs(ended.id)]
    assert lost_in == [[*Stage][stages], Stage.PUBLISHED]


def test_what_falls_silent_runs_again_at_once_where_there_is_no_delay(
    world: World,
) -> None:
    work = Work(world, start_timeout=MINUTE)
    work.begin(once(retry=RetryPolicy.after_expiry()))
    world.advance(65)
    assert len(work.tokens) == 2


def test_what_was_asked_to_stop_and_falls_silent_is_cancelled(world: World) -> None:
    work = Work(world, start_timeout=MINUTE)
    token = work.begin(once())
    assert work.node.cancel(token[0]) is Cancelled.REQUESTED
    world.advance(65)
    assert len(work.tokens) == 1
    assert world.only().state is State.CANCELLED


# Without a node
