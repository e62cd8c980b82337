"""What is found of a schedule and its nodes, on every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    ScheduleWarning,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.doctor import Finding, Report, Severity, diagnose
from go_scheduler.doctor.diagnosis import KINDS, SHOWN
from go_scheduler.models import Counted, Outcome, Skipped, Stage
from go_scheduler.stores.base import Stretch
from go_scheduler.stores.messages import Announcement, Position, Release, Renewal
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    claim,
    claim_of,
    definition,
    ended,
    finish,
    firing,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.remote_runs import told
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

DAY = timedelta(days=1)


def announced(**told: object) -> Announcement:
    known = {"node": NODE, "queues": ("default",), "lease": DAY, "version": "1"}
    return Announcement(**(known | told))  # type: ignore[arg-type]


def once(name: str | None = None, **given: Any) -> TaskDefinition:
    """A definition that fires at the clock's start, and no more."""
    return definition(START, name=name, trigger=ExecuteOnceTrigger(START), **given)


def live(store: Store, **told: object) -> None:
    """Have a node live that serves the default queue, unless told otherwise."""
    store.note_contact(announced(**told), unbroken=SECOND)


def report(
    store: Store, *, handlers: Collection[str] | None = None, most: int = 10_000
) -> Report:
    clock = store.clock or ManualClock()
    return diagnose(store, handlers=handlers, most=most, clock=clock)


def found(store: Store, name: str, **given: object) -> Finding:
    """The one finding of this name."""
    findings = report(store, **given).findings  # type: ignore[arg-type]
    [one] = [each for each in findings if each.name == name]
    return one


def wrong(store: Store, **given: object) -> set[str]:
    """What is not as it should be."""
    findings = report(store, **given).findings  # type: ignore[arg-type]
    return {each.name for each in findings if each.severity is not Severity.OK}


@pytest.fixture
def server_is_well(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found of the server alone, which many tests use, is left out."""
    monkeypatch.setattr(store, "examine", list)


@pytest.mark.usefixtures("server_is_well")
def test_a_schedule_that_is_well_has_no_finding(store: Store) -> None:
    live(store)
    put(store, definition(START + HOUR, name="report"))
    put(store, definition(None, name="send", trigger=OnDemandTrigger()))
    running(store, once("now"))
    ended(store, once())
    before = store.list_instances()
    seen = report(store)
    assert seen.worst is Severity.OK, seen
    assert seen.reached
    assert store.list_instances() == before


@pytest.mark.usefixtures("server_is_well")
def test_what_is_wrong_is_found_on_each_store(store: Store, clock: ManualClock) -> None:
    running(store, once("stuck"))
    ended(store, once("fails"), Outcome.FAILED)
    pending(store, once("waits"))
    put(store, definition(START, name="late"))
    clock.advance(HOUR)
    names = wrong(store)
    assert names == {"no-nodes", "overdue", "backlog", "lapsed-claim", "failing"}
    assert report(store).worst is Severity.ERROR


def test_each_kind_has_a_name_of_its_own() -> None:
    assert len({each.name for each in KINDS}) == len(KINDS)


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


def test_a_queue_that_no_living_node_serves_is_an_error(memory: MemoryStore) -> None:
    live(memory)
    put(memory, definition(START + HOUR, queue="mail"))
    assert "in which 1 definition runs" in found(memory, "queue-unserved").seen
    put(memory, definition(START + HOUR, queue="mail"))
    put(memory, replace(definition(START + HOUR, queue="paused"), paused=True))
    one = found(memory, "queue-unserved")
    assert one.severity is Severity.ERROR
    assert "queue 'mail', in which 2 definitions run" in one.seen


def test_a_queue_is_unserved_if_something_is_due_of_what_was_not_read(
    memory: MemoryStore,
) -> None:
    live(memory)
    put(memory, definition(START + HOUR, key=1))
    pending(memory, replace(once(queue="mail"), id=UUID(int=2)))
    one = found(memory, "queue-unserved", most=1)
    assert "queue 'mail', in which something is due" in one.seen
    live(memory, node=OTHER_NODE, queues=None)
    assert "queue-unserved" not in wrong(memory, most=1)


def test_a_scheduler_that_runs_is_found_to_live(
    memory: MemoryStore, clock: ManualClock
) -> None:
    registry = HandlerRegistry()
    registry.register("report")(lambda instance: None)
    scheduler = Scheduler(registry, memory, clock=clock, queues=["default", "mail"])
    scheduler.schedule(definition(name="report"))
    assert wrong(memory) == {"no-nodes"}
    scheduler.start()
    clock.advance(MINUTE)
    assert wrong(memory) == set()
    scheduler.schedule(definition(name="send", queue="mail"))
    assert wrong(memory) == {"name-unknown"}
    assert scheduler.stop()
    assert wrong(memory) == {"no-nodes"}


def test_what_ended_is_looked_for_in_so_many_stretches_at_most(
    clock: ManualClock,
) -> None:
    class Endless(MemoryStore):
        def list_ended(self, *_: object, **__: object) -> Stretch:
            return Stretch(found=(), next=Position(at=START, id=NODE))

    store = Endless(clock)
    live(store)
    assert wrong(store) == set()


def test_a_name_that_no_node_of_its_queue_knows_is_an_error(
    memory: MemoryStore,
) -> None:
    live(memory, names=("report",))
    live(memory, node=OTHER_NODE, queues=("mail",), names=("send",))
    put(memory, definition(START + HOUR, name="report"))
    put(memory, definition(START + HOUR, name="send"))
    one = found(memory, "name-unknown")
    assert "queue 'default' has a handler for 'send'" in one.seen


@pytest.mark.usefixtures("server_is_well")
def test_a_one_off_whose_name_no_node_knows_is_an_error_on_each_store(
    store: Store, clock: ManualClock
) -> None:
    registry = HandlerRegistry()
    registry.register("known")(lambda instance: None)
    scheduler = Scheduler(registry, store, clock=clock)
    scheduler.start()
    typo = TaskDefinition(name="typo", trigger=ExecuteOnceTrigger(START + SECOND))
    scheduler.schedule(typo)
    clock.advance(2 * MINUTE)
    [waits] = store.list_instances()
    assert waits.attempt > 1
    assert wrong(store) == {"name-unknown", "backlog"}
    one = found(store, "name-unknown")
    assert one.seen.endswith("has a handler for 'typo', 1 instance waits")
    assert "1 are due in queue 'default'" in found(store, "backlog").seen
    [backlog] = Client(store).backlog()
    assert backlog.due == Counted(count=1)
    assert backlog.oldest == START + SECOND
    assert scheduler.stop()


def test_what_has_failed_once_and_is_given_back_since_is_backlog(
    memory: MemoryStore,
) -> None:
    live(memory)
    failed = running(memory, once("fails"))
    finish(memory, failed, None, error="no", retry_in=SECOND)
    [again] = claim(memory, ahead=HOUR)
    given_back = Release(claim=claim_of(again), delay=HOUR, reason="no handler")
    assert memory.release_instances([given_back]).done == {again.id}
    [backlog] = Client(memory).backlog()
    assert (backlog.due, backlog.oldest) == (Counted(count=1), again.execute_at)


def test_what_waits_for_its_time_or_a_retry_is_no_backlog(memory: MemoryStore) -> None:
    live(memory)
    finish(memory, running(memory, once("fails")), None, error="no", retry_in=HOUR)
    pending(memory, definition(START + HOUR, name="later"))
    assert Client(memory).backlog() == []
    assert "backlog" not in wrong(memory)


def test_instances_that_wait_are_told_apart_by_queue_and_name(
    memory: MemoryStore,
) -> None:
    live(memory, names=("report",))
    for _ in range(2):
        pending(memory, once("typo"))
    assert "'typo', 2 instances wait" in found(memory, "name-unknown").seen
    assert "'typo': 2" in found(memory, "name-unregistered", handlers=["report"]).seen
    pending(memory, once())
    assert "name: 1 instance waits" in found(memory, "nameless").seen
    both = found(memory, "nameless-unregistered", handlers=["report", "typo"])
    assert "name: 1 instance waits" in both.seen
    live(memory, node=OTHER_NODE)
    assert wrong(memory) == set()


def test_what_has_no_name_is_told_with_what_to_do_about_it(
    memory: MemoryStore,
) -> None:
    live(memory, names=("report",))
    live(memory, node=OTHER_NODE, queues=("mail",))
    nameless = put(memory, definition(START + HOUR))
    put(memory, definition(START + HOUR, key=2, queue="mail"))
    one = found(memory, "nameless")
    assert one.seen.endswith(f"without a name: 1 definition ({nameless.id})")
    both = found(memory, "nameless-unregistered", handlers=["report"])
    assert "have none for definitions without a name: 2 definitions" in both.seen


def test_a_node_that_stops_or_is_gone_serves_nothing(memory: MemoryStore) -> None:
    live(memory, stopping=True)
    live(memory, node=OTHER_NODE, lease=TICK)
    assert isinstance(memory.clock, ManualClock)
    memory.clock.advance(SECOND)
    assert wrong(memory) == {"no-nodes"}


def test_nodes_of_two_versions_are_told(memory: MemoryStore) -> None:
    live(memory)
    live(memory, node=OTHER_NODE, version="2")
    assert "version 1, 2" in found(memory, "versions-differ").seen


def test_names_without_a_handler_are_found_of_a_registry_or_of_names(
    memory: MemoryStore,
) -> None:
    put(memory, definition(START + HOUR, name="report"))
    registry = HandlerRegistry()
    registry.register("other")(print)
    for handlers in (registry, ["other"]):
        seen = diagnose(memory, handlers=handlers, clock=memory.clock)
        assert "name-unregistered" in {each.name for each in seen.findings}
    assert found(memory, "handlers", handlers={"report"}).severity is Severity.OK


def test_what_fires_no_more_is_told_but_for_what_fires_once_or_on_demand(
    memory: MemoryStore, clock: ManualClock
) -> None:
    live(memory)
    scheduler = Scheduler(None, memory, clock=clock)
    with pytest.warns(ScheduleWarning):
        over = scheduler.schedule(definition(trigger=CronTrigger("0 0 0 1 1 ? 1999")))
    put(memory, definition(None, trigger=OnDemandTrigger()))
    ended(memory, once())
    one = found(memory, "never-again")
    assert f"1 definition ({over.id}) never fire" in one.seen
    assert one.severity is Severity.NOTICE


def test_what_waits_for_the_end_of_a_run_fires_again(memory: MemoryStore) -> None:
    live(memory)
    waits = DelayTrigger(HOUR)
    running(memory, definition(START, trigger=waits))
    assert wrong(memory) == set()
    lost = put(memory, definition(None, trigger=waits))
    assert f"{lost.id}" in found(memory, "never-again").seen


def test_many_definitions_are_counted_and_some_are_named(memory: MemoryStore) -> None:
    live(memory)
    for number in range(SHOWN + 1):
        put(memory, replace(definition(START + HOUR, name=f"n{number}"), paused=True))
    seen = found(memory, "paused").seen
    assert seen.startswith(f"{SHOWN + 1} definitions (n")
    assert seen.count(",") == SHOWN
    assert seen.endswith(", …) are paused")


def test_of_more_definitions_than_asked_for_some_are_left_out(
    memory: MemoryStore,
) -> None:
    live(memory)
    for _ in range(3):
        put(memory, definition(START + HOUR))
    assert "first 2 were read" in found(memory, "not-all-read", most=2).seen
    assert "4 were" not in str(report(memory, most=4))


def test_a_trigger_of_a_kind_that_is_not_known_here_is_told(
    memory: MemoryStore,
) -> None:
    live(memory)
    unknown = UnknownTrigger(unknown_kind="moon", state={}, reason="nobody knows it")
    put(memory, definition(START + HOUR, trigger=unknown))
    assert "of kind 'moon'" in found(memory, "trigger-unknown").seen


def test_what_was_due_a_moment_ago_is_no_backlog(
    memory: MemoryStore, clock: ManualClock
) -> None:
    live(memory)
    pending(memory, once())
    clock.advance(SECOND)
    assert wrong(memory) == set()
    pending(memory, definition(START + 2 * HOUR))
    assert found(memory, "waiting").seen == "1 are due"
    clock.advance(HOUR)
    assert "oldest for 1 h 1 s" in found(memory, "backlog").seen


def test_a_run_past_its_expire_after_is_stuck(
    memory: MemoryStore, clock: ManualClock
) -> None:
    live(memory)
    instance = running(memory, once(expire_after=MINUTE))
    clock.advance(2 * MINUTE)
    renewed(memory, instance, HOUR)
    assert wrong(memory) == set()
    clock.advance(SECOND)
    one = found(memory, "stuck-run")
    assert "has run for 2 min 1 s" in one.seen
    assert one.statement == f"go_scheduler cancel {instance.id}"


def test_what_waits_on_a_bus_is_not_stuck_until_it_has_begun(
    memory: MemoryStore, clock: ManualClock
) -> None:
    live(memory)
    instance = running(memory, once(expire_after=MINUTE))
    told(memory, instance, Stage.PUBLISHED, lease=DAY)
    clock.advance(HOUR)
    live(memory)
    assert "stuck-run" not in wrong(memory)
    told(memory, instance, Stage.STARTED, lease=DAY)
    clock.advance(2 * MINUTE + SECOND)
    assert "has run for 2 min 1 s" in found(memory, "stuck-run").seen


def renewed(store: Store, instance: TaskInstance, lease: timedelta) -> None:
    store.renew_claims([Renewal(claim=claim_of(instance), lease=lease)])


def test_what_failed_is_told_by_definition_with_its_last_error(
    memory: MemoryStore, clock: ManualClock
) -> None:
    live(memory)
    instance = running(memory, once("report"))
    finish(memory, instance, Outcome.FAILED, error="ValueError: 7 is odd")
    one = found(memory, "failing")
    assert one.seen.startswith("1 of report ")
    assert one.seen.endswith("the last by: ValueError: 7 is odd")
    clock.advance(DAY + SECOND)
    live(memory)
    assert wrong(memory) == set()


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("missed by more than the grace of 0:00:10", "misfired"),
        ("late by more than its drop_after of 0:01:00", "misfired"),
        ("missed by more than a day; paused from 1 to 2: holidays", "skipped"),
        ("another instance of its definition ran when it was due", "skipped"),
    ],
)
def test_what_was_skipped_is_told_with_its_reason(
    memory: MemoryStore, reason: str, name: str
) -> None:
    live(memory)
    skip(memory, START - HOUR, reason)
    one = found(memory, name)
    assert one.seen.startswith("3 fire times of ")
    assert one.seen.endswith(reason)
    assert wrong(memory) == {name}


def skip(store: Store, first: datetime, reason: str) -> None:
    record = Skipped(first=first, last=first + 2 * MINUTE, count=3, reason=reason)
    read = put(store, definition(first))
    store.fire_definitions([firing(read, skipped=record, next_fire_time=START + HOUR)])


def test_clocks_that_are_far_apart_are_told(memory: MemoryStore) -> None:
    behind, ahead = ManualClock(), ManualClock()
    ahead.advance(2 * HOUR)
    live(memory)
    for clock, text in ((ahead, "2 h behind"), (behind, "less than 1 ms behind")):
        seen = diagnose(memory, clock=clock)
        assert any(text in each.seen for each in seen.findings)
    assert diagnose(memory, clock=ahead).worst is Severity.WARNING


class Broken(MemoryStore):
    """A store that answers some questions only."""

    failing: Sequence[str] = ()

    def __getattribute__(self, name: str) -> object:
        if name in object.__getattribute__(self, "failing"):
            raise StoreError(f"{name} is not for you")
        return super().__getattribute__(name)


def test_a_question_that_fails_is_a_finding(clock: ManualClock) -> None:
    store = Broken(clock)
    store.failing = ("list_contacts",)
    seen = diagnose(store, clock=clock)
    assert seen.worst is Severity.WARNING
    [one] = [each for each in seen.findings if each.name == "not-answered"]
    assert one.seen == "nodes: list_contacts is not for you"


def test_of_a_store_that_is_away_nothing_else_is_asked(clock: ManualClock) -> None:
    class Away(MemoryStore):
        def now(self) -> datetime:
            raise StoreUnavailableError("nobody is there")

    seen = diagnose(Away(clock), clock=clock)
    assert [each.name for each in seen.findings] == ["versions", "unreachable"]
    assert not seen.reached
    assert seen.worst is Severity.ERROR


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"store": None}, "store must be"),
        # Without the URL, which may have a password.
        ({"store": "redis://:secret@host"}, "^store must be a Store, and not text: o"),
        ({"most": 0}, "most must be at least 1, not 0"),
        ({"most": "1"}, "most must be"),
        ({"expire_after": timedelta(0)}, "expire_after must be"),
        ({"handlers": "report"}, "handlers must be a HandlerRegistry"),
        ({"handlers": print}, "handlers must be a HandlerRegistry"),
    ],
)
def test_an_argument_that_is_wrong_is_refused(
    given: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        diagnose(**({"store": MemoryStore()} | given))  # type: ignore[arg-type]
