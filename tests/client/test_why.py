"""Why: what happened to a definition, or will, and what decided it, on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.client import Client
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    ScheduleWarning,
    TaskDefinitionNotFoundError,
)
from go_scheduler.formatting import duration_text, summary
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import Cancelled, Outcome, Skipped, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.messages import Announcement, Release, Renewal
from go_scheduler.stores.rules import UNFIRED
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    SECOND,
    TICK,
    claim,
    claim_of,
    claimed,
    definition,
    pending,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger, UnknownTrigger
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.simple import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from go_scheduler.why import Because, Facts, about, why_now, why_then
from tests.client.house import House, fail
from tests.conftest import instance

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

BERLIN = CronTrigger("0 9 * * *", timezone="Europe/Berlin")
# START is in the first hour of a year: in Berlin it is one o'clock then.
NINE = START + 8 * HOUR
DAY = timedelta(days=1)
ONCE = RetryPolicy(max_attempts=1)


# What has been.


def test_it_ran_then_on_a_node_and_took_so_long(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock, lambda _: None)
    house.schedule(BERLIN)
    house.run_for(9 * HOUR)
    why = house.why(NINE)
    [node] = house.scheduler.nodes()
    assert why.because is Because.COMPLETED
    assert why.node is not None
    assert why.node.id == node.id
    assert (why.since, why.until, why.at) == (NINE, NINE, NINE)
    assert str(why) == (
        "It has completed. It was due at 2030-01-01 09:00:00 Europe/Berlin (2030-01-01"
        " 08:00:00 UTC); its last run started at 2030-01-01 09:00:00 Europe/Berlin"
        f" (2030-01-01 08:00:00 UTC), on time, on {node}, as attempt 1, and took less"
        " than 1 ms."
    )


def test_a_time_without_a_fraction_stands_for_its_second(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START + MINUTE + 7 * TICK))
    house.run_for(HOUR)
    assert house.why(START + MINUTE).because is Because.COMPLETED
    assert house.why(START + MINUTE + TICK).because is Because.NO_FIRE_TIME


def test_a_run_that_started_late_says_by_how_much(house: House) -> None:
    house.schedule(BERLIN)
    house.clock.advance(8 * HOUR + SECOND * 5)
    house.run_for(SECOND)
    assert ", 5 s late, on node" in house.why(NINE).text


@pytest.mark.parametrize(("most", "runs"), [(1, "1 run"), (2, "2 runs")])
def test_it_has_failed_after_so_many_runs_with_its_error(
    store: Store, clock: ManualClock, most: int, runs: str
) -> None:
    house = House(store, clock, fail, retry=RetryPolicy(max_attempts=most))
    house.schedule(BERLIN)
    house.run_for(10 * HOUR)
    why = house.why(NINE)
    assert why.because is Because.FAILED
    said = f"It has failed, after {runs}. Last error: ValueError: no paper. It"
    assert said in why.text
    assert why.reason is not None
    assert why.reason.startswith("Traceback")


def test_it_succeeded_at_the_second_run(store: Store, clock: ManualClock) -> None:
    seen: list[TaskInstance] = []

    def work(instance: TaskInstance) -> None:
        seen.append(instance)
        if len(seen) == 1:
            raise ValueError("no paper")

    house = House(store, clock, work)
    house.schedule(BERLIN)
    house.run_for(10 * HOUR)
    assert house.why(NINE).text.endswith(
        "It took 2 runs. Last error: ValueError: no paper."
    )


def test_it_was_cancelled(house: House) -> None:
    instance = pending(house.store, definition(START + HOUR))
    assert house.scheduler.cancel(instance.id) is Cancelled.CANCELLED
    why = house.scheduler.why(instance.definition.id, START + HOUR)
    assert why.because is Because.CANCELLED
    assert why.text == "It was cancelled at 2030-01-01 00:00:00 UTC."


def test_what_was_skipped_is_told_alike_after_another_trigger(house: House) -> None:
    old = house.schedule(CronTrigger("0 * * * *"), catch_up=CatchUp(mode="latest"))
    house.clock.advance(5 * HOUR + SECOND)
    house.run_for(MINUTE)
    three = house.why(START + 3 * HOUR)
    assert three.text.startswith(
        "2030-01-01 03:00:00 UTC is within 2030-01-01 01:00:00 UTC to 2030-01-01"
        " 04:00:00 UTC, in which 4 fire times were skipped: missed by more than "
    )
    house.scheduler.schedule(replace(old, trigger=CronTrigger("15 * * * *")))
    after = house.why(START + 3 * HOUR)
    assert (after.because, after.text) == (Because.SKIPPED, three.text)
    # It may have been one of them, for all that is known.
    quarter = house.why(START + 3 * HOUR + 15 * MINUTE)
    assert quarter.text == three.text.replace("03:00:00 UTC is", "03:15:00 UTC is")
    later = house.why(START + 4 * HOUR + MINUTE)
    assert later.because is Because.NO_FIRE_TIME
    assert later.text.startswith(
        "Nothing is kept of 2030-01-01 04:01:00 UTC, and the trigger that it has now"
        " has no fire time then; the nearest are "
    )


def test_what_was_backfilled_says_so_and_not_that_it_was_skipped(house: House) -> None:
    house.schedule(IntervalTrigger(MINUTE, START), catch_up=CatchUp(mode="none"))
    house.clock.advance(DAY)
    house.run_for(SECOND)
    found = house.scheduler.backfill(house.definition.id, START, START + 3 * MINUTE)
    assert found.first is not None
    for at in (found.first, START + 2 * MINUTE):
        why = house.why(at)
        assert why.because is not Because.SKIPPED
        assert why.text.endswith("It was backfilled, by hand.")
    assert house.why(START + 3 * MINUTE).because is Because.SKIPPED


def test_a_time_of_which_nothing_is_kept_says_how_long_it_would_be(
    house: House,
) -> None:
    house.schedule(BERLIN)
    house.run_for(DAY + 9 * HOUR)
    why = house.why(NINE)
    assert why.because is Because.NOT_KEPT
    assert "ended instances are deleted 1 d after their end" in why.text
    alone = Client(house.store).why(house.definition.id, NINE)
    assert "ended instances are deleted after the retention" in alone.text


def test_a_time_before_it_was_scheduled_has_no_instance(house: House) -> None:
    house.schedule(BERLIN)
    why = house.why(NINE - DAY)
    assert why.because is Because.NOT_KEPT
    assert why.text.endswith(
        "and there is no instance of it: it was scheduled, or given this trigger, after"
        " that."
    )


def test_nothing_was_to_fire_then_and_the_nearest_times_are_these(house: House) -> None:
    with pytest.warns(ScheduleWarning):
        house.schedule(CronTrigger("30 2 * * *", timezone="Europe/Berlin"))
    why = house.why(datetime(2030, 3, 31, 12, tzinfo=UTC))
    assert why.because is Because.NO_FIRE_TIME
    assert str(why) == (
        "Nothing: the schedule has no fire time at 2030-03-31 14:00:00 Europe/Berlin"
        " (2030-03-31 12:00:00 UTC); the nearest are 2030-03-31 03:00:00 Europe/Berlin"
        " (2030-03-31 01:00:00 UTC) (02:30 does not exist that day) and 2030-04-01"
        " 02:30:00 Europe/Berlin (2030-04-01 00:30:00 UTC)."
    )
    assert [each.at for each in why.nearest] == [
        datetime(2030, 3, 31, 1, tzinfo=UTC),
        datetime(2030, 4, 1, 0, 30, tzinfo=UTC),
    ]


def test_what_ran_at_that_time_is_told(house: House) -> None:
    instance = running(house.store, definition(START))
    house.clock.advance(5 * SECOND)
    why = house.scheduler.why(instance.definition.id, START + 2 * SECOND)
    assert why.text.endswith(
        "The instance of 2030-01-01 00:00:00 UTC was running then."
    )


# What is to come.


def test_it_fires_next_at_a_time(house: House) -> None:
    house.schedule(BERLIN)
    why = house.why()
    assert (why.because, why.until) == (Because.TO_COME, NINE)
    assert str(why) == (
        "It fires at 2030-01-01 09:00:00 Europe/Berlin (2030-01-01 08:00:00 UTC), in"
        " 8 h; its instance is made shortly before. But no node is alive that takes"
        " anything: start a scheduler."
    )
    house.run_for(SECOND)
    assert house.why(NINE + 9 * DAY).text.endswith("is made shortly before.")


def test_it_will_have_ended_by_then(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START + HOUR))
    house.run_for(2 * HOUR)
    why = house.why()
    assert why.because is Because.ENDED
    assert why.text.startswith("It has ended: its last fire time has had its instance")
    assert "no longer kept" not in why.text
    assert "Its last instance: It has completed." in why.text


def test_what_has_ended_and_is_not_kept_says_so(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock, retention=ZERO)
    house.schedule(ExecuteOnceTrigger(START + HOUR))
    house.run_for(HOUR + SECOND)
    assert house.why().because is Because.ENDED
    assert house.why().text.endswith("; what became of it is no longer kept.")
    why = house.why(START + HOUR)
    assert why.because is Because.NOT_KEPT
    assert "what has succeeded is deleted as it ends, or" in why.text


def test_what_was_cancelled_before_its_time_is_its_last_instance(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START + HOUR))
    house.run_for(SECOND)
    [made] = house.scheduler.list_instances(definition_id=house.definition.id)
    house.scheduler.cancel(made.id)
    why = house.why()
    assert why.because is Because.ENDED
    assert "Its last instance: It was cancelled at" in why.text


def test_what_fires_after_the_end_of_each_run_is_not_known_before(house: House) -> None:
    house.schedule(DelayTrigger(HOUR))
    assert house.why(START + 9 * DAY).because is Because.WAITS_FOR_END


def test_what_runs_on_demand_has_no_fire_times(house: House) -> None:
    house.schedule(OnDemandTrigger())
    for at in (None, START + DAY):
        why = house.why(at)
        assert why.because is Because.NO_FIRE_TIME
        assert "runs only when somebody asks for it" in why.text


# What is.


def test_it_runs_on_a_node_until_its_claim_ends(house: House) -> None:
    instance = running(house.store, definition(START))
    client = house.scheduler
    why = client.why(instance.definition.id)
    assert (why.because, why.since) == (Because.RUNNING, START)
    assert why.until == START + LEASE
    assert why.node is None
    assert why.text == (
        f"It is running, since 2030-01-01 00:00:00 UTC, on node {NODE}, of which"
        " nothing is known any more. Its claim holds until 2030-01-01 00:00:20 UTC,"
        " unless its node renews it before."
    )
    assert client.cancel(instance.id) is Cancelled.REQUESTED
    assert client.why(instance.id).text.endswith("It has been asked to stop.")
    house.clock.advance(LEASE)
    assert "Its claim has lapsed" in client.why(instance.id).text


def test_it_runs_at_a_worker_until_that_is_gone(house: House) -> None:
    instance = running(house.store, definition(START))
    claim = claim_of(instance)
    house.store.renew_claims(
        [Renewal(claim=claim, lease=LEASE, handed_on=True, worker="mail 7")]
    )
    client = house.scheduler
    assert client.why(instance.id).text.startswith(
        "It is running, since 2030-01-01 00:00:00 UTC, on the worker 'mail 7', to which"
        f" it was handed by node {NODE}, of which"
    )
    assert client.why(instance.id).text.endswith(
        ", unless the worker renews it before."
    )
    house.clock.advance(LEASE)
    assert client.why(instance.id).text.endswith(
        ": the worker is gone, or cut off, and another one takes it over."
    )


def test_it_runs_at_a_worker_without_a_name_when_its_node_has_stopped(
    house: House,
) -> None:
    instance = running(house.store, definition(START))
    stopped = Announcement(node=NODE, host="vm", pid=7, stopping=True)
    house.store.note_contact(stopped, unbroken=timedelta(0))
    client = house.scheduler
    text = client.why(instance.id).text
    assert f"on node {NODE} (host vm, pid 7). Its claim holds until" in text
    assert text.endswith(
        " That node has been told to stop. If it has handed the run to a worker over"
        " HTTP, the worker goes on."
    )
    house.clock.advance(LEASE)
    assert client.why(instance.id).text.endswith(
        ": the node has stopped, or the worker that it handed the run to is gone, and"
        " another one takes it over."
    )


def test_it_is_paused_for_the_reason_in_the_note(house: House) -> None:
    house.schedule(BERLIN)
    house.clock.advance(MINUTE)
    house.scheduler.pause(house.definition.id, "the printer is away")
    house.run_for(9 * HOUR)
    for at in (None, NINE, NINE + DAY):
        why = house.why(at)
        assert (why.because, why.reason) == (Because.PAUSED, "the printer is away")
        assert why.since == START + MINUTE
        assert why.text == (
            "It is paused since 2030-01-01 01:01:00 Europe/Berlin (2030-01-01 00:01:00"
            " UTC) (the printer is away), so that nothing of it starts until it is"
            " resumed. Its fire times since 2030-01-01 09:00:00 Europe/Berlin"
            " (2030-01-01 08:00:00 UTC) are missed; once it is resumed, its catch_up"
            " decides what becomes of them."
        )


def test_what_waits_for_a_retry_is_frozen_by_a_pause(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock, fail)
    house.schedule(BERLIN)
    house.run_for(8 * HOUR + MINUTE)
    house.scheduler.pause(house.definition.id)
    assert house.why().because is Because.PAUSED
    why = house.why(NINE)
    assert why.because is Because.PAUSED
    assert why.instance is not None
    assert " (there is no note), so that" in why.text


def test_what_was_backfilled_with_an_overlap_tells_of_the_one_that_it_waits_for(
    house: House,
) -> None:
    old = house.schedule(IntervalTrigger(HOUR, START - DAY))
    house.scheduler.backfill(
        old.id, START - DAY, START - 22 * HOUR, overlap=Overlap.BUFFER_ALL
    )
    first, second = claim(house.store, limit=2)
    start(house.store, first)
    start(house.store, second)
    assert house.scheduler.why(second.id).holder == house.store.get_instance(first.id)
    without = house.scheduler.why(second.id, machines=False)
    assert without.holder == house.store.get_instance(first.id)


def test_what_another_one_of_its_definition_held_up_goes_on_in_a_moment() -> None:
    parked = replace(instance(claimed_by=None), parked=True)
    why = about(facts_of(parked.definition, START, parked), parked)
    assert why.text.endswith(
        " Just now nothing runs, and the next goes on in a moment. But no node is alive"
        " that takes anything: start a scheduler."
    )


def test_no_living_node_knows_its_name(store: Store, clock: ManualClock) -> None:
    handlers = HandlerRegistry()
    handlers.register("send")(print)
    house = House(store, clock, handlers)
    house.schedule(ExecuteOnceTrigger(START), name="sned")
    house.run_for(MINUTE + 37 * SECOND)
    why = house.why()
    assert "has a handler for the name 'sned'" in why.text
    instance = pending(store, definition(START, name="sned"))
    assert "has a handler for the name 'sned'" in house.scheduler.why(instance.id).text
    instance = pending(store, definition(START))
    assert "for definitions without a name" in house.scheduler.why(instance.id).text


def test_it_is_overdue_as_no_node_makes_its_instance(house: House) -> None:
    house.schedule(BERLIN)
    house.clock.advance(9 * HOUR)
    for at in (None, NINE):
        why = house.why(at)
        assert (why.because, why.since) == (Because.OVERDUE, NINE)
        assert why.text.endswith(
            ", and no node has made its instance. But no node is alive that takes"
            " anything: start a scheduler."
        )


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (1, "; 1 node is alive. Does it know the trigger?"),
        (2, "; 2 nodes are alive. Do they know the trigger?"),
    ],
)
def test_what_is_overdue_though_nodes_live_asks_whether_they_know_the_trigger(
    house: House, nodes: int, text: str
) -> None:
    house.run_for(SECOND)
    [node] = house.scheduler.nodes()
    facts = facts_of(definition(START - HOUR), START)
    why = why_now(replace(facts, nodes=[node] * nodes))
    assert why.because is Because.OVERDUE
    assert why.text.endswith(f", and no node has made its instance{text}")


def test_what_was_due_a_moment_ago_should_have_fired(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START))
    house.clock.advance(SECOND)
    why = house.why()
    assert why.because is Because.TO_COME
    assert why.text == (
        "It should have fired at 2030-01-01 00:00:00 UTC; its instance is not made yet."
        " But no node is alive that takes anything: start a scheduler."
    )


def test_what_is_given_back_was_due_when_it_was_and_is_offered_again(
    house: House,
) -> None:
    held = claimed(house.store)
    house.clock.advance(SECOND)
    house.store.release_instances([Release(claim=claim_of(held), delay=MINUTE)])
    client = house.scheduler
    why = client.why(held.id)
    assert (why.because, why.since) == (Because.WAITS_FOR_NODE, held.execute_at)
    assert why.until == START + SECOND + MINUTE
    assert why.text == (
        "It was due at 2030-01-01 00:00:01 UTC, and is offered again at 2030-01-01"
        " 00:01:01 UTC, in 1 min. It was given back. But no node is alive that takes"
        " anything: start a scheduler."
    )
    house.clock.advance(HOUR)
    why = client.why(held.id)
    assert (why.because, why.since) == (Because.WAITS_FOR_NODE, held.execute_at)
    assert why.text.startswith("It has been due since 2030-01-01 00:00:01 UTC, and ")


def test_why_it_was_given_back_is_said_until_it_is_claimed_again(house: House) -> None:
    held = claimed(house.store)
    client = house.scheduler
    house.clock.advance(SECOND)
    house.store.release_instances(
        [Release(claim=claim_of(held), delay=MINUTE, reason="no fuel")]
    )
    told = " It was given back: no fuel."
    for wait in (ZERO, HOUR):
        house.clock.advance(wait)
        why = client.why(held.id)
        assert told in why.text
        assert why.reason == "no fuel"
        # It may say where a bus is.
        assert "fuel" not in str(client.why(held.id, machines=False))
    [held] = claim(house.store)
    assert told not in client.why(held.id).text
    house.store.release_instances([Release(claim=claim_of(held), delay=MINUTE)])
    why = client.why(held.id)
    assert " It was given back." in why.text
    assert why.reason is None


# What is not.


def test_nothing_is_known_of_an_id_that_never_was(store: Store) -> None:
    with pytest.raises(TaskDefinitionNotFoundError):
        Client(store).why(uuid4())
    with pytest.raises(ConfigurationError):
        Client(store).why("nightly")  # type: ignore[arg-type]


def test_an_id_that_has_ended_and_is_gone_is_remembered(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START), id=TaskDefinition.id_for("once"))
    house.run_for(DAY + 9 * HOUR)
    for at in (None, START):
        why = house.why(at)
        assert (why.because, why.since) == (Because.ENDED, START)
        assert "does not run again" in why.text


# What no store has at any moment, and one may have all the same.


def facts_of(of: TaskDefinition, at: datetime, *given: TaskInstance) -> Facts:
    return Facts(definition=of, at=at, now=START, instances=given, nodes=())


def test_a_trigger_that_this_process_cannot_read_is_named() -> None:
    unknown = UnknownTrigger(unknown_kind="moon", state={}, reason="no kind 'moon'")
    of = definition(trigger=unknown)
    for why in (why_now(facts_of(of, START)), why_then(facts_of(of, START + DAY))):
        assert (why.because, why.reason) == (Because.UNKNOWN_TRIGGER, "no kind 'moon'")
        assert "no kind 'moon'. Ask in a process that knows it." in why.text


def test_a_trigger_that_cannot_tell_has_no_times_that_are_near() -> None:
    class Odd(Trigger):
        kind = "test_why odd"

        def next_fire_time(self, after: datetime) -> datetime | None:
            return after

    why = why_then(facts_of(definition(trigger=Odd()), START + DAY))
    assert (why.because, why.nearest) == (Because.NO_FIRE_TIME, ())
    assert why.text.endswith("no fire time at 2030-01-02 00:00:00 UTC.")


def test_what_will_have_ended_by_then_says_so_without_the_time_of_it() -> None:
    of = replace(definition(trigger=BERLIN), next_fire_time=None)
    why = why_then(facts_of(of, NINE + DAY))
    assert (why.because, why.since) == (Because.ENDED, None)


def test_what_another_trigger_was_to_run_later_and_was_skipped_is_found() -> None:
    moved = instance(definition(trigger=BERLIN), due_at=START + MINUTE)
    skipped = replace(
        moved,
        fire_time=None,
        outcome=Outcome.SKIPPED,
        completed_at=START + MINUTE,
        skipped=Skipped(first=START, last=START, count=1, reason="edited"),
    )
    why = why_then(facts_of(skipped.definition, START, skipped))
    assert (why.because, why.reason) == (Because.SKIPPED, "edited")


@pytest.mark.parametrize("trigger", [BERLIN, DelayTrigger(HOUR), OnDemandTrigger()])
def test_what_another_trigger_had_not_fired_is_told_of_each_instant_of_it(
    house: House, trigger: Trigger
) -> None:
    old = house.scheduler.schedule(definition(trigger=IntervalTrigger(MINUTE, START)))
    house.clock.advance(HOUR)
    house.scheduler.schedule(replace(old, trigger=trigger))
    within = house.scheduler.why(old.id, START + 30 * MINUTE)
    assert (within.because, within.reason) == (Because.SKIPPED, UNFIRED)
    assert ", in which 60 fire times were skipped: " in within.text
    assert within.text.endswith(f": {UNFIRED}.")
    first = house.scheduler.why(old.id, START + MINUTE)
    assert (first.because, first.until) == (Because.SKIPPED, START + HOUR)
    later = house.scheduler.why(old.id, START + HOUR + SECOND)
    assert later.because is not Because.SKIPPED


@pytest.mark.parametrize(
    ("outcome", "completed_at", "text"),
    [
        (Outcome.SKIPPED, START, "It was skipped at 2030-01-01 00:00:00 UTC."),
        (Outcome.CANCELLED, None, "It was cancelled at an unknown time."),
        (
            Outcome.FAILED,
            START,
            "It has failed, after 0 runs. It was due at 2030-01-01 00:00:00 UTC, and"
            " was not called.",
        ),
    ],
)
def test_an_end_of_which_little_is_known_is_told(
    outcome: Outcome, completed_at: datetime | None, text: str
) -> None:
    ended = replace(instance(), outcome=outcome, completed_at=completed_at)
    assert about(facts_of(ended.definition, START), ended).text == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (ZERO, "less than 1 ms"),
        (timedelta(milliseconds=20), "20 ms"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(days=2, hours=3, seconds=5), "2 d 3 h"),
    ],
)
def test_durations_are_written_in_two_units(duration: timedelta, text: str) -> None:
    assert duration_text(duration) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("no paper\nat all", "no paper"),
        ("", ""),
        (
            "Traceback (most recent call last):\n"
            '  File "a.py", line 1, in work\n'
            "    work()\n"
            "ValueError: no\nand more",
            "ValueError: no",
        ),
        (
            "  + Exception Group Traceback (most recent call last):\n"
            '  |   File "a.py", line 1, in work\n'
            "  |     work()\n"
            "  | ExceptionGroup: all of them (1 sub-exception)\n"
            "  +-+---------------- 1 ----------------\n"
            "    | ValueError: no\n"
            "    +------------------------------------\n",
            "ExceptionGroup: all of them (1 sub-exception)",
        ),
        ('cut off\n  File "a.py", line 1\n    work()', "work()"),
    ],
)
def test_of_an_error_the_line_is_told_that_says_it(error: str, text: str) -> None:
    assert summary(error) == text
