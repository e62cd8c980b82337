"""What workers say is recorded, and they are told what is to end."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import RetryPolicy, State, StoreUnavailableError
from go_scheduler.dispatch import dispatcher as dispatching
from go_scheduler.dispatch.bus import PacedLog
from go_scheduler.errors import StoreError
from go_scheduler.events import (
    InstanceFinished,
    InstanceGivenBack,
    LoopFailed,
    RunDeferred,
    RunFailed,
    StatusRefused,
)
from go_scheduler.json import write_instant
from go_scheduler.models import Stage
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.sql.rows import EARLIEST, LATEST
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND
from go_scheduler.testing.clock import START
from tests.dispatch import direct_bus
from tests.dispatch.house import House

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.stores.messages import Renewal
    from go_scheduler.testing import ManualClock
    from tests.dispatch.direct_bus import Message


@pytest.fixture
def house(clock: ManualClock) -> Iterator[House]:
    house = House(clock)
    with house.runs():
        yield house


class TestGoing:
    """A run that goes on."""

    def test_it_is_kept_as_its_worker_says_how_far_it_has_come(
        self, house: House
    ) -> None:
        run = house.publish(heartbeat_timeout=10 * SECOND)
        assert house.tell(run, "accepted").settled == ["ack"]
        instance = house.instance(run)
        assert (instance.stage, instance.worker) == (Stage.ACCEPTED, "anna")
        house.tell(run, "started")
        for done in range(4):
            house.clock.advance(8 * SECOND)
            house.tell(run, "heartbeat")
            house.tell(run, "progress", progress={"done": done})
        instance = house.instance(run)
        assert (instance.stage, instance.attempt) == (Stage.STARTED, run.attempt)
        assert instance.progress == {"done": 3}
        assert house.cancels() == []

    def test_what_was_said_at_once_is_written_at_once(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = [house.publish(), house.publish()]
        written: list[Sequence[Renewal]] = []
        renew = house.store.renew_claims

        def noted(renewals: Sequence[Renewal]) -> Answer[Any]:
            written.append(renewals)
            return renew(renewals)

        monkeypatch.setattr(house.store, "renew_claims", noted)
        for each in runs:
            house.say(each, "accepted")
            house.say(each, "started")
            house.say(each, "progress", progress=[1])
            house.say(each, "heartbeat")
        house.look()
        [write] = [each for each in written if each]
        assert [(each.stage, each.progress) for each in write] == [
            (Stage.STARTED, "[1]")
        ] * 2

    def test_what_was_published_elsewhere_is_read(self, house: House) -> None:
        run = house.publish(heartbeat_timeout=3 * SECOND)
        house.forget(run)
        house.tell(run, "started")
        expires_at = house.instance(run).expires_at
        assert expires_at is not None
        assert expires_at - house.store.now() <= 3 * SECOND

    def test_a_second_worker_is_told_that_it_is_anothers(self, house: House) -> None:
        run = house.publish()
        house.tell(run, "accepted", "anna")
        house.tell(run, "accepted", "bert")
        [cancel] = house.cancels("bert")
        assert (cancel.reason, cancel.attempt) == ("lost", run.attempt)
        assert house.cancels("anna") == []
        for said in ("heartbeat", "failed", "released"):
            house.tell(run, said, "bert")
        instance = house.instance(run)
        assert (instance.worker, instance.state) == ("anna", State.RUNNING)

    def test_what_comes_late_changes_nothing(self, house: House) -> None:
        run = house.publish(start_timeout=SECOND, retry=again_at_once())
        house.clock.advance(MINUTE)
        later = house.run()
        assert later.attempt > run.attempt
        house.tell(later, "accepted", "bert")
        before = house.instance(run)
        for said in ("accepted", "started", "heartbeat", "failed", "released"):
            assert house.tell(run, said).settled == ["ack"]
        assert house.instance(run) == before
        assert {each.reason for each in house.cancels()} == {"lost"}

    def test_of_an_instance_that_is_gone_it_is_lost(self, house: House) -> None:
        run = house.publish()
        house.forget(run)
        gone = run.model_copy(update={"instance_id": uuid4()})
        for said in ("heartbeat", "succeeded", "failed", "released"):
            assert house.tell(gone, said).settled == ["ack"]
        [cancel] = house.cancels()
        assert (cancel.instance_id, cancel.reason) == (gone.instance_id, "lost")
        [refused] = house.of(StatusRefused)
        assert refused.instance_id == gone.instance_id
        assert "another store publishes in the same namespace" in refused.reason

    def test_its_timeout_counts_from_when_it_has_begun_and_then_it_runs_again(
        self, house: House
    ) -> None:
        run = house.publish(timeout=5 * SECOND, retry=again_at_once())
        house.clock.advance(30 * SECOND)
        house.tell(run, "accepted")
        house.clock.advance(30 * SECOND)
        house.tell(run, "started")
        house.clock.advance(4 * SECOND)
        house.tell(run, "heartbeat")
        assert (house.instance(run).attempt, house.cancels()) == (run.attempt, [])
        house.clock.advance(SECOND)
        house.tell(run, "heartbeat")
        assert [each.reason for each in house.cancels()] == ["lost"]
        house.clock.advance(SECOND)
        assert house.run().attempt > run.attempt

    def test_one_whose_start_timeout_is_long_waits_for_a_worker_as_one_run(
        self, house: House
    ) -> None:
        once = RetryPolicy(max_attempts=1)
        run = house.publish(start_timeout=365 * 24 * HOUR, retry=once)
        house.clock.advance(10 * MINUTE)
        assert (house.instance(run).stage, house.instance(run).runs) == ("published", 1)
        house.tell(run, "accepted")
        house.tell(run, "succeeded")
        assert house.instance(run).state is State.COMPLETED


class TestEnded:
    """A run that has ended."""

    def test_it_has_succeeded_with_its_result(self, house: House) -> None:
        run = house.publish()
        began = house.clock.now()
        house.say(run, "accepted")
        house.say(run, "started")
        message = house.tell(
            run,
            "succeeded",
            result={"of": [7]},
            started_at=began,
            ended_at=began + SECOND,
        )
        instance = house.instance(run)
        assert (instance.state, instance.result) == (State.COMPLETED, {"of": [7]})
        assert (instance.worker, message.settled) == ("anna", ["ack"])
        assert instance.client == {
            "started_at": write_instant(began),
            "ended_at": write_instant(began + SECOND),
        }

    def test_it_counts_from_when_it_has_begun_and_not_on_the_bus(
        self, house: House
    ) -> None:
        run = house.publish(start_timeout=HOUR)
        house.clock.advance(MINUTE)
        house.tell(run, "started")
        began = house.instance(run).started_at
        house.clock.advance(SECOND)
        house.tell(run, "heartbeat")
        house.tell(run, "succeeded")
        assert house.instance(run).started_at == began
        took = house.of(InstanceFinished)[-1].took
        assert took is not None
        assert SECOND < took < MINUTE

    @pytest.mark.parametrize("known", [{"started_at", "ended_at"}, {"started_at"}])
    def test_as_its_worker_says_if_nobody_has_heard_when_it_began(
        self, house: House, known: set[str]
    ) -> None:
        run = house.publish(start_timeout=HOUR)
        house.clock.advance(MINUTE)
        times: dict[str, Any] = {"started_at": START, "ended_at": START + SECOND}
        house.tell(run, "succeeded", **{each: times[each] for each in known})
        took = house.of(InstanceFinished)[-1].took
        assert took is not None
        assert (took == SECOND) is (len(known) == 2)

    def test_it_has_not_run_for_longer_than_it_was_on_the_bus(
        self, house: House
    ) -> None:
        run = house.publish(start_timeout=HOUR)
        house.clock.advance(MINUTE)
        always: dict[str, Any] = {"started_at": EARLIEST, "ended_at": LATEST}
        assert house.tell(run, "succeeded", **always).settled == ["ack"]
        assert house.of(LoopFailed) == []
        instance = house.instance(run)
        assert instance.completed_at is not None
        assert house.of(InstanceFinished)[-1].took == instance.completed_at - START

    def test_a_late_success_is_a_success_and_the_first_one_counts(
        self, house: House
    ) -> None:
        run = house.publish(start_timeout=SECOND, retry=again_at_once())
        house.clock.advance(MINUTE)
        later = house.run()
        house.tell(later, "accepted", "bert")
        house.tell(run, "succeeded", result=1)
        house.tell(later, "succeeded", "bert", result=2)
        house.tell(later, "heartbeat", "bert")
        instance = house.instance(run)
        assert (instance.state, instance.result) == (State.COMPLETED, 1)
        assert [each.reason for each in house.cancels("bert")] == ["lost"]

    def test_what_comes_twice_or_in_another_order_changes_nothing(
        self, house: House
    ) -> None:
        run = house.publish()
        house.tell(run, "started")
        house.tell(run, "accepted")
        assert house.instance(run).stage is Stage.STARTED
        for _ in range(2):
            house.say(run, "succeeded", result=1)
        house.tell(run, "succeeded", result=2)
        ended = house.instance(run)
        assert (ended.state, ended.result, ended.worker) == (
            State.COMPLETED,
            1,
            "anna",
        )
        house.cancels()
        for said in ("failed", "released", "started", "accepted", "succeeded"):
            assert house.tell(run, said, "anna").settled == ["ack"]
        house.clock.advance(MINUTE)
        assert house.instance(run) == ended
        assert not house.bus.published["go_scheduler.run.default"]

    def test_what_waits_for_it_begins(self, house: House) -> None:
        kept = house.put(overlap=Overlap.BUFFER_ALL)
        for _ in range(2):
            house.scheduler.run_now(kept.id)
        house.clock.advance(SECOND)
        first = house.run()
        house.say(first, "accepted")
        house.tell(first, "succeeded")
        house.clock.advance(SECOND)
        assert house.run().instance_id != first.instance_id

    def test_it_has_failed_and_runs_again_as_it_says(self, house: House) -> None:
        run = house.publish(retry=RetryPolicy(delay=HOUR))
        house.say(run, "accepted")
        house.tell(run, "failed", error="no cat", retry_in=2 * SECOND)
        [ended] = house.scheduler.list_runs(run.instance_id)
        assert (ended.error, ended.worker) == ("no cat", "anna")
        assert [each.worker for each in house.of(RunDeferred)] == ["anna"]
        house.clock.advance(3 * SECOND)
        again = house.run()
        house.say(again, "accepted")
        house.tell(again, "failed", retry=False)
        instance = house.instance(run)
        assert instance.state is State.FAILED
        assert instance.error == "the worker did not say why"
        assert [each.worker for each in house.of(RunFailed)] == ["anna"]

    def test_it_was_given_back_and_counts_as_no_run(self, house: House) -> None:
        run = house.publish()
        house.tell(run, "accepted")
        house.tell(run, "released", delay=5 * SECOND)
        house.clock.advance(4 * SECOND)
        assert not house.bus.published["go_scheduler.run.default"]
        house.clock.advance(3 * SECOND)
        again = house.run()
        assert (again.runs, again.attempt > run.attempt) == (0, True)
        house.tell(again, "released", error="anna has no handler for 'a'")
        given_back, why = house.of(InstanceGivenBack)
        assert given_back.reason == "worker anna gave it back"
        assert why.reason == "worker anna gave it back: anna has no handler for 'a'"
        assert why.reason in str(house.scheduler.why(run.instance_id))

    def test_given_back_without_a_delay_it_is_offered_later_each_time(
        self, house: House
    ) -> None:
        run = house.publish()
        for _ in range(8):
            house.tell(run, "released")
            house.clock.advance(MINUTE + SECOND)
            run = house.run()
        delays = [each.delay for each in house.of(InstanceGivenBack)]
        assert delays == [min(60, 2**each) * SECOND for each in range(8)]
        # Who says so may have it at once.
        house.tell(run, "released", delay=0 * SECOND)
        house.clock.advance(SECOND / 10)
        assert house.run().attempt > run.attempt

    def test_what_cannot_be_kept_of_it_is_left_out(self, house: House) -> None:
        run = house.publish()
        now = house.clock.now()
        house.tell(run, "progress", progress="x" * 70_000)
        house.tell(run, "succeeded", result="\0", started_at=now, ended_at=now - SECOND)
        instance = house.instance(run)
        assert (instance.state, instance.result) == (State.COMPLETED, None)
        assert (instance.client, instance.progress) == (None, None)
        reasons = [each.reason for each in house.of(StatusRefused)]
        assert len(reasons) == 2
        assert all(each.endswith("the rest of the status counts") for each in reasons)


class TestCancelled:
    """Somebody has asked it to stop."""

    def test_its_worker_is_told_at_once(self, house: House) -> None:
        run = house.publish()
        house.tell(run, "accepted")
        house.scheduler.cancel(run.instance_id)
        house.clock.advance(timedelta(0))
        [cancel] = house.cancels()
        assert (cancel.reason, cancel.instance_id) == ("cancelled", run.instance_id)
        house.tell(run, "failed", error="it was told to end")
        assert house.instance(run).state is State.CANCELLED

    def test_one_that_is_given_back_does_not_run_again(self, house: House) -> None:
        run = house.publish()
        house.tell(run, "accepted")
        house.scheduler.cancel(run.instance_id)
        house.tell(run, "released")
        house.clock.advance(MINUTE)
        assert house.instance(run).state is State.CANCELLED

    def test_a_worker_that_accepts_it_after_that_is_told_then(
        self, house: House
    ) -> None:
        run = house.publish()
        house.scheduler.cancel(run.instance_id)
        house.look()
        house.tell(run, "accepted")
        [cancel] = house.cancels()
        assert cancel.reason == "cancelled"

    @pytest.mark.parametrize("away", ["up", "fails"])
    def test_while_the_bus_is_away_the_next_heartbeat_is_answered(
        self, house: House, away: str
    ) -> None:
        run = house.publish()
        house.tell(run, "accepted")
        setattr(house.bus, away, away == "fails")
        house.scheduler.cancel(run.instance_id)
        house.look()
        house.bus.up, house.bus.fails = True, False
        house.look()
        assert house.cancels() == []
        house.tell(run, "heartbeat")
        assert [each.reason for each in house.cancels()] == ["cancelled"]


def test_a_bus_that_cannot_say_whether_it_is_up_is_taken_for_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_up() -> bool:
        raise OSError("there is no such host")

    house.look()
    assert house.scheduler.health().warnings == ()
    monkeypatch.setattr(house.bus, "is_up", is_up)
    house.look()
    [warning] = house.scheduler.health().warnings
    assert "message bus" in warning


class TestStore:
    """The store takes nothing, or not this."""

    def test_what_is_said_while_it_is_away_is_kept_and_recorded_when_it_is_back(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = house.publish()

        def away(*given: object) -> Any:
            raise StoreUnavailableError("the store is away")

        with monkeypatch.context() as patched:
            patched.setattr(house.store, "renew_claims", away)
            message = house.tell(run, "accepted")
            house.clock.advance(10 * SECOND)
            later = house.tell(run, "succeeded")
            assert (message.settled, later.settled) == ([], [])
        house.clock.advance(10 * SECOND)
        assert (message.settled, later.settled) == (["ack"], ["ack"])
        assert house.instance(run).state is State.COMPLETED
        assert any(each.loop == "hearing" for each in house.of(LoopFailed))

    def test_what_somebody_has_locked_is_tried_again(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = house.publish()
        busy: Answer[Any] = Answer(done={}, busy=frozenset([run.instance_id]))
        with monkeypatch.context() as patched:
            patched.setattr(house.store, "renew_claims", lambda _: busy)
            patched.setattr(house.store, "release_instances", lambda _: busy)
            accepted = house.say(run, "accepted")
            released = house.tell(run, "released")
            assert (accepted.settled, released.settled) == ([], [])
        house.clock.advance(SECOND)
        assert (accepted.settled, released.settled) == (["ack"], ["ack"])

    def test_what_it_refuses_for_good_is_told_and_costs_only_itself(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = [house.publish(), house.publish()]
        renew = house.store.renew_claims

        def refuse(renewals: Sequence[Renewal]) -> Answer[Any]:
            if any(each.claim.instance_id == runs[0].instance_id for each in renewals):
                raise StoreError("it is broken")
            return renew(renewals)

        monkeypatch.setattr(house.store, "renew_claims", refuse)
        messages = [house.say(each, "accepted") for each in runs]
        house.look()
        assert [each.settled for each in messages] == [["ack"], ["ack"]]
        assert house.instance(runs[1]).stage is Stage.ACCEPTED
        [refused] = house.of(StatusRefused)
        assert refused.instance_id == runs[0].instance_id
        assert (refused.worker, refused.attempt) == ("anna", runs[0].attempt)
        assert "it is broken" in refused.reason


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "worker": ""}']
)
def test_what_is_no_status_is_told_and_dropped(house: House, body: bytes) -> None:
    message = house.bus.deliver("go_scheduler.statuses", body)
    house.look()
    assert message.settled == ["reject"]
    [refused] = house.of(StatusRefused)
    assert refused.instance_id is None


def test_what_is_no_status_fills_no_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(9):
        house.bus.deliver("go_scheduler.statuses", b"?")
        house.look()
    assert len(house.of(StatusRefused)) == 9
    assert caplog.text.count("a status is not recorded") == 5
    house.clock.advance(SECOND)
    assert "4 more such lines were left out" in caplog.text


def test_a_bus_that_raises_when_it_is_told_of_messages_costs_no_status(
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def ack(self: Message) -> None:
        raise OSError("no ack, for a test")

    monkeypatch.setattr(direct_bus.Message, "ack", ack)
    house = House(clock)
    with house.runs():
        runs = [house.publish() for _ in range(3)]
        for each in runs:
            house.say(each, "accepted")
            house.say(each, "succeeded")
        house.look()
        assert [house.instance(each).state for each in runs] == [State.COMPLETED] * 3
    told = "could not be acknowledged or rejected: no ack, for a test"
    assert caplog.text.count(told) == 5
    assert "1 more such lines were left out" in caplog.text
    assert house.of(LoopFailed) == []


def test_lines_that_come_often_or_that_nobody_reads_leave_no_other_out(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tests.paced")
    log = PacedLog(logging.getLogger("tests.paced"), clock)
    for number in range(7):
        log.write(logging.INFO, "nobody reads this")
        log.write(logging.WARNING, "line %d", number)
    log.write(logging.ERROR, "another")
    log.close()
    lines = [f"line {number}" for number in range(5)]
    assert caplog.messages == [*lines, "another", "2 more such lines were left out"]


def test_a_worker_that_no_topic_can_be_named_for_is_refused(house: House) -> None:
    assert house.tell(house.publish(), "accepted", "ä" * 150).settled == ["reject"]


def test_nothing_is_heard_after_it(clock: ManualClock) -> None:
    house = House(clock)
    with house.runs():
        run = house.publish()
        house.say(run, "accepted")
    assert house.bus.subscribers == {}
    house.scheduler.cancel(run.instance_id)
    clock.advance(MINUTE)
    assert house.cancels() == []


def again_at_once() -> RetryPolicy:
    return RetryPolicy(delay=timedelta(0))


class TestSeveral:
    """Several statuses come in one message."""

    def test_it_is_acknowledged_once_all_are_recorded(self, house: House) -> None:
        first, second = house.publish(), house.publish()
        message = house.say_all((first, "accepted"), (second, "succeeded"))
        assert message.settled == []
        house.look()
        assert house.instance(first).stage is Stage.ACCEPTED
        assert house.instance(second).state is State.COMPLETED
        assert message.settled == ["ack"]

    def test_one_that_is_none_costs_no_other(self, house: House) -> None:
        run = house.publish()
        message = house.say_all((run, "accepted"), more=b"7")
        house.look()
        assert house.instance(run).stage is Stage.ACCEPTED
        # Whoever looks after the bus may have it kept.
        assert message.settled == ["reject"]
        [refused] = house.of(StatusRefused)
        assert "it must be an object" in refused.reason

    def test_no_more_are_read_than_may_be_kept(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dispatching, "_PREFETCH", 2)
        run = house.publish()
        many = [(run, "heartbeat")] * 3
        messages = [house.say_all(*many) for _ in range(2)]
        house.look()
        assert [each.settled for each in messages] == [["ack"], ["ack"]]
