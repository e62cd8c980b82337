"""The audit gives every fire time that has passed one verdict, on every store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from go_scheduler import (
    ConfigurationError,
    DelayTrigger,
    ExecuteOnceTrigger,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    StoreUnavailableError,
    TaskDefinition,
    TaskDefinitionNotFoundError,
)
from go_scheduler.audit import AuditedDefinition, Verdict
from go_scheduler.client import Client
from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.stores.filters import Filter, Order, Page
from go_scheduler.stores.messages import Addition, Firing
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    TICK,
    cancel,
    claim,
    definition,
    finish,
    fire,
    firing,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import IntervalTrigger, Trigger
from go_scheduler.triggers.stored import UnknownTrigger
from tests import servers
from tests.conftest import seconds
from tests.shop import engine_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

FROM_START = IntervalTrigger(HOUR, anchor=START)


def scheduled(store: Store, trigger: Trigger = FROM_START) -> TaskDefinition:
    """A definition that fires at the clock's start, and each hour after."""
    return put(store, definition(START, trigger=trigger))


def fired(store: Store, read: TaskDefinition, *hours: int, then: int) -> TaskDefinition:
    """The definition after it has fired at these hours, and goes on at another one."""
    times = [START + hour * HOUR for hour in hours]
    fire(store, read, *times, next_fire_time=START + then * HOUR)
    return store.get_definition(read.id)


def run(store: Store, outcome: Outcome = Outcome.COMPLETED) -> None:
    """Run what is due now, to this end."""
    for each in start(store, *claim(store)):
        assert finish(store, each, outcome, error="it broke")


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    """For what is the same on any store."""
    return MemoryStore(clock)


def audited(
    store: Store, hours: float = 24, *, since: datetime = START, **options: Any
) -> AuditedDefinition:
    """The audit of the only definition, up to so many hours after the clock's start."""
    [found] = Client(store).audit(since, START + hours * HOUR, **options)
    assert found.error is None
    return found


def verdicts(store: Store, hours: float = 24, **options: Any) -> Sequence[str]:
    """The verdicts on its fire times."""
    return [each.verdict.value for each in audited(store, hours, **options).times]


def test_each_fire_time_has_one_verdict(store: Store, clock: ManualClock) -> None:
    of = fired(store, scheduled(store), 0, then=1)
    run(store)
    clock.advance(HOUR)
    of = fired(store, of, 1, then=2)
    clock.advance(MINUTE)
    run(store)
    clock.advance(59 * MINUTE)
    of = fired(store, of, 2, then=3)
    run(store, Outcome.FAILED)
    clock.advance(HOUR)
    # Four has been lost, and five was skipped.
    of = fired(store, of, 3, then=5)
    cancel(store, *store.select(Filter(states=[State.PENDING])))
    clock.advance(3 * HOUR)
    skipped = Skipped.itself(START + 5 * HOUR, "it was closed")
    step = firing(
        of, START + 6 * HOUR, skipped=skipped, next_fire_time=START + 7 * HOUR
    )
    assert store.fire_definitions([step]).done
    clock.advance(HOUR + TICK)
    found = audited(store)
    assert [(each.verdict.value, each.reason) for each in found.times] == [
        ("on time", None),
        ("late", "it began 1 min late"),
        ("failed", "it broke"),
        ("cancelled", None),
        ("missed", "it has neither an instance nor a record"),
        ("skipped", "it was closed"),
        ("waits", "it has not begun"),
        ("waits", "it has not been fired yet"),
    ]
    assert [each.at for each in found.times] == [START + n * HOUR for n in range(8)]
    assert found.times[1].late == MINUTE
    assert found.counts[Verdict.WAITS] == 2
    assert [each.at for each in found.broken] == [START + 4 * HOUR]


def test_the_first_of_several_runs_says_how_late_it_was(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, then=1)
    [first] = start(store, *claim(store))
    assert finish(store, first, None, retry_in=MINUTE, error="once")
    clock.advance(MINUTE)
    assert audited(store, 1).times[0].reason == "it is to run again: once"
    run(store)
    [time] = audited(store, 1).times
    assert (time.verdict, time.late) == (Verdict.ON_TIME, timedelta())
    assert (time.reason, time.instance_id) == ("it took 2 runs", first.id)


def test_an_instance_that_was_skipped_says_why(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, then=1)
    run(store, Outcome.SKIPPED)
    clock.advance(TICK)
    [time] = audited(store, 1).times
    assert (time.verdict, time.reason) == (Verdict.SKIPPED, "it broke")


def test_a_run_that_was_lost_says_how_late_it_was(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, then=1)
    start(store, *claim(store))
    clock.advance(LEASE)
    [again] = claim(store, OTHER_NODE, lapsed=True)
    [again] = start(store, again)
    assert finish(store, again)
    assert verdicts(store, 1) == ["on time"]


def test_a_definition_that_is_paused_waits(store: Store, clock: ManualClock) -> None:
    of = fired(store, scheduled(store), 0, then=1)
    store.pause_definitions([of.id])
    clock.advance(HOUR + TICK)
    reasons = {each.reason for each in audited(store).times}
    assert reasons == {"its definition is paused"}


def test_what_waits_for_another_instance_says_so(
    store: Store, clock: ManualClock
) -> None:
    locked = replace(definition(START, trigger=FROM_START), lock="printer")
    other = put(store, replace(definition(START, trigger=FROM_START), lock="printer"))
    fire(store, other, next_fire_time=START + HOUR)
    start(store, *claim(store))
    fire(store, put(store, locked), next_fire_time=START + HOUR)
    start(store, *claim(store))
    clock.advance(TICK)
    [time] = audited(store, ids=[locked.id]).times
    assert time.reason == "another instance has to end first"


def test_before_the_first_that_is_known_nothing_is_missed(
    store: Store, clock: ManualClock
) -> None:
    clock.advance(3 * HOUR)
    of = put(store, definition(START + 2 * HOUR, trigger=FROM_START))
    fired(store, of, 2, then=4)
    assert verdicts(store) == ["unknown", "unknown", "waits"]


def test_what_may_have_been_cleaned_up_is_unknown(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, 2, then=3)
    run(store)
    clock.advance(2 * HOUR + TICK)
    assert verdicts(store, retention=MINUTE) == ["on time", "unknown", "waits"]


def test_before_the_last_of_a_former_trigger_nothing_is_missed(
    store: Store, clock: ManualClock
) -> None:
    of = fired(store, scheduled(store), 0, then=1)
    run(store)
    clock.advance(HOUR)
    other = IntervalTrigger(HOUR, anchor=START + MINUTE)
    at = START + HOUR + MINUTE
    of = put(store, replace(of, trigger=other, next_fire_time=at, revision=None))
    clock.advance(MINUTE)
    fire(store, of, next_fire_time=at + HOUR)
    run(store)
    assert [(each.at, each.verdict.value) for each in audited(store, 1).times] == [
        (START, "on time"),
        (START + MINUTE, "unknown"),
    ]


def test_what_the_trigger_does_not_fire_is_unexpected(
    store: Store, clock: ManualClock
) -> None:
    fire(store, scheduled(store), START + MINUTE, next_fire_time=START + HOUR)
    clock.advance(2 * MINUTE)
    found = {each.at: each for each in audited(store).times}
    assert found[START + MINUTE].verdict is Verdict.UNEXPECTED
    assert found[START + MINUTE].reason == "its trigger does not fire then"


def test_a_single_fire_time_that_is_over_without_an_instance_is_missed(
    store: Store, clock: ManualClock
) -> None:
    of = scheduled(store, ExecuteOnceTrigger(START))
    assert store.fire_definitions([Firing(definition=of, fire_times=())]).done
    clock.advance(TICK)
    assert verdicts(store) == ["missed"]


@pytest.mark.parametrize(
    ("changed", "verdict", "reason"),
    [
        ({"started_at": START - SECOND}, Verdict.EARLY, "it began 1 s too soon"),
        (
            {"completed_at": START - TICK},
            Verdict.EARLY,
            "it ended before its time, by the store's clock",
        ),
        ({"runs": 30}, Verdict.RETRIED, "it took 30 runs"),
    ],
    ids=["began too soon", "ended too soon", "too many runs for all to be known"],
)
def test_a_run_is_judged_by_what_is_kept_of_it(
    memory: MemoryStore,
    clock: ManualClock,
    changed: dict[str, Any],
    verdict: Verdict,
    reason: str,
) -> None:
    fired(memory, scheduled(memory), 0, then=1)
    run(memory)
    [given] = memory.select()

    class Changed(MemoryStore):
        def select(self, *where: Any, **page: Any) -> Page[TaskInstance]:
            if page.get("order") is Order.FIRE_TIME:
                return Page([replace(given, **changed)])
            return super().select(*where, **page)

    memory.__class__ = Changed
    clock.advance(TICK)
    [time] = audited(memory, 1).times
    assert (time.verdict, time.reason) == (verdict, reason)
    assert (time.late is None) == ("runs" in changed)


@pytest.mark.server
def test_what_is_lost_doubled_or_late_by_hand_in_a_database_is_found(
    empty_database_url: Callable[[], str], clock: ManualClock
) -> None:
    url = empty_database_url()
    with servers.opened(url, clock) as store:
        fired(store, scheduled(store), *range(4), then=4)
        clock.advance(3 * HOUR + TICK)
        for each in start(store, *claim(store)):
            assert finish(store, replace(each, started_at=each.execute_at))
        assert verdicts(store) == ["on time"] * 4
        at = {"lost": START + HOUR, "late": START + 2 * HOUR, "twice": START + 3 * HOUR}
        with engine_of(url) as engine, engine.begin() as connection:
            for statement in BY_HAND:
                connection.execute(text(statement), at)
        assert verdicts(store) == ["on time", "missed", "late", "doubled"]


BY_HAND = [
    "DELETE FROM task_instances WHERE fire_time = :lost",
    "UPDATE task_instances SET started_at = started_at + interval '1 minute'"
    " WHERE fire_time = :late",
    "ALTER TABLE task_instances DROP CONSTRAINT task_instances_fire_key",
    "CREATE TEMPORARY TABLE twice ON COMMIT DROP AS"
    " SELECT * FROM task_instances WHERE fire_time = :twice",
    "UPDATE twice SET id = gen_random_uuid()",
    "INSERT INTO task_instances SELECT * FROM twice",
]


def test_what_has_no_fire_times_of_its_own_says_so(
    store: Store, clock: ManualClock
) -> None:
    put(store, definition(None, trigger=OnDemandTrigger()))
    put(store, definition(START, trigger=DelayTrigger(HOUR)))
    clock.advance(HOUR)
    found = list(Client(store).audit(START))
    assert {(each.note, each.times) for each in found} == {
        ("it runs on demand", ()),
        ("it fires after the end of each run", ()),
    }


def test_if_nothing_was_changed_what_is_not_there_is_missed(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 2, then=4)
    clock.advance(4 * HOUR)
    at = START + HOUR + MINUTE
    assert verdicts(store) == ["unknown", "unknown", "waits", "missed"]
    unchanged = verdicts(store, unchanged_since=START)
    assert unchanged == ["unknown", "missed", "waits", "missed"]
    run(store)
    of = store.select_definitions()[0]
    other = put(store, replace(of, trigger=IntervalTrigger(HOUR, anchor=at)))
    assert other.revision != 1
    since = START + 2 * HOUR
    found = verdicts(
        store, (at + HOUR - START) / HOUR, since=since, unchanged_since=START
    )
    assert found == ["unexpected"]


def test_fire_times_may_be_computed_by_somebody_else(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, 1, then=2)
    clock.advance(HOUR + TICK)
    found = verdicts(
        store, fire_times=lambda trigger, since, until: [since, since + MINUTE]
    )
    assert found == ["waits", "missed", "unexpected"]


def test_a_backfill_of_what_was_skipped_is_no_double(
    store: Store, clock: ManualClock
) -> None:
    skipped = Skipped.itself(START, "it was closed")
    of = scheduled(store)
    step = firing(of, skipped=skipped, next_fire_time=START + HOUR)
    assert store.fire_definitions([step]).done
    clock.advance(TICK)
    assert Client(store).backfill(of.id, START, START + TICK).made == 1
    run(store)
    assert verdicts(store, 1) == ["on time"]


def test_what_is_done_by_hand_hides_no_record(
    memory: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.audit._PAGE", 2)
    of = scheduled(memory)
    for hour in range(3):
        skipped = Skipped.itself(START + hour * HOUR, f"closed {hour}")
        at = START + (hour + 1) * HOUR
        step = firing(of, skipped=skipped, next_fire_time=at)
        assert memory.fire_definitions([step]).done
        of = memory.get_definition(of.id)
        clock.advance(HOUR)
        memory.add_instances(of.id, [Addition() for _ in range(1_001)])
    reasons = [each.reason for each in audited(memory, 3).times]
    assert reasons == ["closed 0", "closed 1", "closed 2"]


def test_a_store_that_goes_away_is_no_error_of_a_definition(
    memory: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled(memory)
    clock.advance(HOUR)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(MemoryStore, "select", away)
    with pytest.raises(StoreUnavailableError):
        next(Client(memory).audit(START))


def test_what_is_before_the_time_shows_since_when_it_is_known(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, then=3)
    clock.advance(3 * HOUR)
    assert verdicts(store, since=START + HOUR) == ["missed"] * 2


def test_an_edit_leaves_known_what_the_new_trigger_explains(
    store: Store, clock: ManualClock
) -> None:
    of = fired(store, scheduled(store), 0, then=1)
    run(store)
    clock.advance(HOUR / 2 + MINUTE)
    half = IntervalTrigger(HOUR / 2, anchor=START)
    other = IntervalTrigger(HOUR, anchor=START + MINUTE)
    for trigger, verdict in [(half, "missed"), (other, "unknown")]:
        at = START + 4 * HOUR
        of = put(store, replace(of, trigger=trigger, next_fire_time=at, revision=None))
        found = verdicts(store, 0.51, since=START + MINUTE / 2)
        assert {*found} == {verdict}


def test_a_backfill_shows_nothing_of_the_schedule(
    store: Store, clock: ManualClock
) -> None:
    clock.advance(4 * HOUR)
    of = put(store, definition(START + 4 * HOUR, trigger=FROM_START))
    assert Client(store).backfill(of.id, START, START + HOUR).made == 1
    run(store)
    for since in (START, START + HOUR):
        assert {*verdicts(store, 3, since=since)} <= {"late", "unknown"}


def test_what_was_cleaned_up_while_it_was_read_is_unknown(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    fired(memory, scheduled(memory), 0, 2, then=3)
    run(memory)
    clock.advance(2 * HOUR + TICK)
    asked = Client(memory).audit(START, retention=3 * HOUR)
    clock.advance(2 * HOUR)
    [found] = asked
    assert [each.verdict.value for each in found.times][1] == "unknown"


class ChangedMeanwhile(MemoryStore):
    """Somebody changes a definition as soon as it has been listed."""

    change: Callable[[ChangedMeanwhile, TaskDefinition], object] | None = None

    def select_definitions(self, *where: Any, **page: Any) -> Page[TaskDefinition]:
        found = super().select_definitions(*where, **page)
        change, self.change = self.change, None
        if change is not None:
            change(self, found[0])
        return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda store, of: store.delete_definitions([of.id]), []),
        (
            lambda store, of: put(
                store, replace(of, trigger=ExecuteOnceTrigger(START), revision=None)
            ),
            [["on time"]],
        ),
    ],
    ids=["deleted", "given another trigger"],
)
def test_what_is_changed_while_it_is_read_is_read_again(
    clock: ManualClock,
    change: Callable[[ChangedMeanwhile, TaskDefinition], object],
    expected: Sequence[object],
) -> None:
    store = ChangedMeanwhile(clock)
    fired(store, scheduled(store), 0, then=5)
    run(store)
    clock.advance(2 * HOUR)
    store.change = change
    asked = Client(store).audit(START, unchanged_since=START)
    found = [[time.verdict.value for time in each.times] for each in asked]
    assert found == expected


@dataclass(frozen=True)
class Odd(Trigger):
    """Fires at once at first, and then each hour; each answer takes a moment."""

    kind = "tests.odd_first"

    def next_fire_time(self, after: datetime) -> datetime | None:
        Event().wait(0.002)
        return FROM_START.next_fire_time(after)

    def first_fire_time(self, now: datetime) -> datetime | None:
        return now


def test_a_first_fire_time_that_is_none_of_the_others_is_expected(
    memory: MemoryStore, clock: ManualClock
) -> None:
    of = put(memory, definition(START + MINUTE, trigger=Odd()))
    fire(memory, of, next_fire_time=START + HOUR)
    clock.advance(MINUTE + TICK)
    run(memory)
    assert verdicts(memory, 1) == ["unknown", "on time"]


def test_a_trigger_of_a_users_may_take_long_for_all(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    put(memory, definition(START, trigger=Odd()))
    clock.advance(700 * HOUR)
    [found] = Client(memory).audit(START)
    assert (found.error, len(found.times)) == (None, 700)


def test_an_interval_does_not_fire_when_it_is_scheduled(clock: ManualClock) -> None:
    client = Client(MemoryStore(clock))
    client.schedule(TaskDefinition(trigger=IntervalTrigger(HOUR)))
    clock.advance(HOUR + TICK)
    [found] = client.audit(START)
    assert [each.at for each in found.times] == [START + HOUR]


def test_fire_times_that_are_none_are_an_error(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    scheduled(memory)
    clock.advance(TICK)
    naive = START.replace(tzinfo=None)
    [found] = Client(memory).audit(START, fire_times=lambda *_: [naive])
    assert "time zone" in (found.error or "")
    far = START - HOUR
    [found] = Client(memory).audit(START, fire_times=lambda *_: [far])
    assert list(found.times) == []


def test_more_fire_times_than_the_limit_are_an_error(
    store: Store, clock: ManualClock
) -> None:
    fired(store, scheduled(store), 0, then=1)
    clock.advance(2 * HOUR + TICK)
    assert [each.error for each in Client(store).audit(START, limit=3)] == [None]
    [found] = Client(store).audit(START, limit=2)
    assert found.error == "more than 2 fire times: ask for a shorter time"


def test_a_day_is_audited_if_nothing_is_said(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    scheduled(memory)
    clock.advance(48 * HOUR)
    [found] = Client(memory).audit()
    hours = range(24, 48)
    assert [each.at for each in found.times] == [START + hour * HOUR for hour in hours]
    assert {each.verdict for each in found.times} == {Verdict.WAITS}


def test_a_scheduler_knows_its_retention(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    fired(memory, scheduled(memory), 0, 2, then=49)
    clock.advance(30 * HOUR)
    for hours, verdict in [(24, Verdict.UNKNOWN), (48, Verdict.MISSED)]:
        with Scheduler(print, memory, clock=clock, retention=hours * HOUR) as scheduler:
            [found] = scheduler.audit(START, START + 2 * HOUR)
        assert found.times[1].verdict is verdict


def test_a_trigger_that_nobody_can_read_is_an_error(clock: ManualClock) -> None:
    memory = MemoryStore(clock)
    scheduled(memory, UnknownTrigger("shop.moon", None, "no class for it is imported"))
    clock.advance(HOUR)
    [found] = Client(memory).audit(START)
    assert found.error is not None
    assert found.times == ()


def test_many_fire_times_and_definitions_are_read_page_by_page(
    memory: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.audit._PAGE", 2)
    for _ in range(3):
        fired(memory, scheduled(memory), *range(5), then=6)
    clock.advance(5 * HOUR)
    found = list(Client(memory).audit(START))
    assert [len(each.times) for each in found] == [5, 5, 5]
    assert {each.verdict for one in found for each in one.times} == {Verdict.WAITS}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"since": START.replace(tzinfo=None)}, "since"),
        ({"since": START, "until": START}, "since must have passed"),
        ({"since": START + HOUR}, "since must have passed"),
        ({"since": START - HOUR, "retention": -SECOND}, "retention"),
        ({"since": START - HOUR, "late": -SECOND}, "late"),
        ({"limit": 0}, "limit"),
        ({"ids": ["report"]}, "an id must be"),
        ({"unchanged_since": START.replace(tzinfo=None)}, "unchanged_since"),
    ],
    ids=["naive", "empty", "to come", "retention", "late", "limit", "ids", "unchanged"],
)
def test_wrong_arguments_are_refused(
    clock: ManualClock, given: Mapping[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        list(Client(MemoryStore(clock)).audit(**given))  # type: ignore[arg-type]


def test_what_is_not_there_is_refused_by_its_id(store: Store) -> None:
    id = TaskDefinition.id_for("report")
    with pytest.raises(TaskDefinitionNotFoundError, match=f"{id}"):
        list(Client(store).audit(START - HOUR, ids=[id]))


def test_how_late_is_late_can_be_said(store: Store, clock: ManualClock) -> None:
    fired(store, scheduled(store), 0, then=1)
    clock.advance(seconds(2))
    run(store)
    assert verdicts(store, late=seconds(2)) == ["on time"]
