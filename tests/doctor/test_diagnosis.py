"""What is found of a schedule and its nodes, on every kind of store."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler import (
    ConfigurationError,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    StoreError,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.client import Client
from go_scheduler.doctor import KINDS, SHOWN, Finding, Report, Severity, diagnose
from go_scheduler.models import Counted, Outcome, Skipped, Stage
from go_scheduler.stores.filters import ANY, Filter, Order, Page
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
    report_stage,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

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
    before = store.select()
    seen = report(store)
    assert seen.worst is Severity.OK, seen
    assert seen.reached
    assert store.select() == before


@pytest.mark.usefixtures("server_is_well")
def test_what_is_wrong_is_found_on_each_store(store: Store, clock: ManualClock) -> None:
    running(store, once("stuck"))
    ended(store, once("fails"), Outcome.FAILED)
    pending(store, once("waits"))
    put(store, definition(START, name="late"))
    clock.advance(HOUR)
    assert wrong(store) == {"no-nodes", "overdue", "backlog", "lapsed-claim", "failing"}
    assert report(store).worst is Severity.ERROR


def test_each_finding_is_on_the_page_with_its_remedy() -> None:
    page = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| .+? \| (.+?) \|$", page, re.M)
    assert rows == [(each.name, each.severity.value, each.remedy) for each in KINDS]
    assert len({name for name, *_ in rows}) == len(KINDS)


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


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
        def select(
            self, where: Filter = ANY, *, order: Order = Order.EXECUTION, **page: Any
        ) -> Page[TaskInstance]:
            if order is Order.END:
                return Page(next=Position(at=START, id=NODE))
            return super().select(where, order=order, **page)

    store = Endless(clock)
    live(store)
    assert wrong(store) == set()


def test_what_waits_for_its_time_or_a_retry_is_no_backlog_until_it_is_given_back(
    memory: MemoryStore,
) -> None:
    live(memory)
    finish(memory, running(memory, once("fails")), None, error="no", retry_in=MINUTE)
    pending(memory, definition(START + HOUR, name="later"))
    assert Client(memory).backlog() == []
    assert "backlog" not in wrong(memory)
    again, later = claim(memory, ahead=HOUR)
    for each in (again, later):
        given_back = Release(claim=claim_of(each), delay=HOUR, reason="no handler")
        assert memory.release_instances([given_back]).done == {each.id}
    [backlog] = Client(memory).backlog()
    assert (backlog.due, backlog.oldest) == (Counted(count=1), again.execute_at)


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
    store = Broken(clock)
    store.failing = ("now",)
    seen = diagnose(store, clock=clock)
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


def skip(store: Store, reason: str) -> None:
    first = START - HOUR
    record = Skipped(first=first, last=first + 2 * MINUTE, count=3, reason=reason)
    read = put(store, definition(first))
    store.fire_definitions([firing(read, skipped=record, next_fire_time=START + HOUR)])


def fail(store: Store) -> None:
    instance = running(store, once("report"))
    finish(store, instance, Outcome.FAILED, error="ValueError: 7 is odd")


def some(store: Store, *names: str | None, **given: Any) -> None:
    """Have definitions that fire in an hour."""
    for name in names:
        put(store, replace(definition(START + HOUR, name=name), **given))


MOON = UnknownTrigger(unknown_kind="moon", state={}, reason="nobody knows it")
OVER = DelayTrigger(HOUR)
NUMBERED = [f"n{number}" for number in range(SHOWN + 1)]
FOUND: list[tuple[str, Any, str]] = [
    (
        "queue-unserved",
        lambda store: some(store, None, queue="mail"),
        r"queue 'mail', in which 1 definition runs$",
    ),
    (
        "queue-unserved",
        lambda store: some(store, None, None, queue="mail"),
        r"queue 'mail', in which 2 definitions run$",
    ),
    (
        "versions-differ",
        lambda store: live(store, node=OTHER_NODE, version="2"),
        r"version 1, 2$",
    ),
    (
        "name-unknown",
        lambda store: some(store, "report", "send"),
        r"queue 'default' has a handler for 'send', of which there are 1 definition$",
    ),
    (
        "nameless",
        lambda store: some(store, None),
        r"without a name: 1 definition \([-0-9a-f]{36}\)$",
    ),
    (
        "trigger-unknown",
        lambda store: some(store, "report", trigger=MOON),
        r"^the trigger of 1 definition .* is unknown here, of the kind 'moon'$",
    ),
    (
        "paused",
        lambda store: some(store, *NUMBERED, paused=True),
        rf"^{SHOWN + 1} definitions \(n[^,]*(, n[^,]*){{{SHOWN - 1}}}, …\) are paused$",
    ),
    (
        "never-again",
        lambda store: put(store, definition(None, name="report", trigger=OVER)),
        r"^1 definition \(report .*\) never fire again$",
    ),
    (
        "never-again",
        lambda store: ended(store, definition(START, name="report")),
        r"^1 definition \(report .*\) never fire again$",
    ),
    ("failing", fail, r"^1 of report .*, the last by: ValueError: 7 is odd$"),
    *(
        (name, partial(skip, reason=reason), rf"^3 fire times of .* as {reason}$")
        for name, reason in (
            ("misfired", "missed by more than the grace of 0:00:10"),
            ("misfired", "late by more than its drop_after of 0:01:00"),
            ("skipped", "missed by more than a day; paused from 1 to 2: holidays"),
            ("skipped", "another instance of its definition ran when it was due"),
        )
    ),
]


@pytest.mark.parametrize(("name", "have", "seen"), FOUND)
def test_what_is_wrong_is_told_with_what_was_seen(
    memory: MemoryStore, name: str, have: Callable[[Store], object], seen: str
) -> None:
    knows_all = name in ("skipped", "misfired")
    live(memory, names=None if knows_all else ("report", *NUMBERED))
    have(memory)
    assert wrong(memory) == {name}
    told = found(memory, name).seen
    assert re.search(seen, told), told


def failed_long_ago(store: Any) -> None:
    fail(store)
    store.clock.advance(DAY + SECOND)
    live(store)


@pytest.mark.parametrize(
    "have",
    [
        lambda store: some(store, None, queue="mail", paused=True),
        lambda store: put(store, definition(None, trigger=OnDemandTrigger())),
        lambda store: ended(store, once()),
        # It counts from the end of its run, and fires again.
        lambda store: running(store, definition(START, trigger=OVER)),
        # It has been due for a moment.
        lambda store: (pending(store, once()), store.clock.advance(SECOND)),
        failed_long_ago,
    ],
    ids=["paused", "on demand", "ended", "waits for a run", "just due", "long ago"],
)
def test_what_is_as_it_should_be_is_not_told(
    memory: MemoryStore, have: Callable[[Any], object]
) -> None:
    live(memory)
    have(memory)
    assert wrong(memory) <= {"paused"}


@pytest.mark.parametrize("told", [{"stopping": True}, {"lease": TICK}])
def test_a_node_that_stops_or_is_gone_serves_nothing(
    memory: MemoryStore, clock: ManualClock, told: dict[str, object]
) -> None:
    live(memory, **told)
    clock.advance(SECOND)
    assert wrong(memory) == {"no-nodes"}


def test_names_without_a_handler_are_found_of_a_registry_or_of_names(
    memory: MemoryStore,
) -> None:
    some(memory, "report", None, None)
    registry = HandlerRegistry()
    registry.register("other")(print)
    for handlers in (registry, ["other"]):
        one = found(memory, "name-unregistered", handlers=handlers)
        assert one.seen.endswith("none for 'report', of which there are 1 definition")
        nameless = found(memory, "nameless-unregistered", handlers=handlers).seen
        assert "have none for definitions without a name: 2 definitions" in nameless
    empty = MemoryStore(memory.clock)
    assert found(empty, "handlers", handlers={"report"}).severity is Severity.OK


def test_of_more_definitions_than_asked_for_some_are_left_out(
    memory: MemoryStore,
) -> None:
    live(memory)
    some(memory, *"abc")
    assert "first 2 were read" in found(memory, "not-all-read", most=2).seen
    assert "not-all-read" not in wrong(memory, most=4)


@pytest.mark.parametrize("on_bus", [False, True])
def test_a_run_past_its_expire_after_is_stuck_once_it_has_begun(
    memory: MemoryStore, clock: ManualClock, on_bus: bool
) -> None:
    live(memory)
    instance = running(memory, once(expire_after=MINUTE))
    if on_bus:
        report_stage(memory, instance, Stage.PUBLISHED, lease=DAY)
        clock.advance(HOUR)
        live(memory)
        assert wrong(memory) == set()
        report_stage(memory, instance, Stage.STARTED, lease=DAY)
    else:
        memory.renew_claims([Renewal(claim=claim_of(instance), lease=DAY)])
    clock.advance(2 * MINUTE)
    assert wrong(memory) == set()
    clock.advance(SECOND)
    one = found(memory, "stuck-run")
    assert "has run for 2 min 1 s" in one.seen
    assert one.statement == f"go_scheduler cancel {instance.id}"
