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
    Rig,
    definition,
    firing,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import IntervalTrigger, Trigger
from go_scheduler.triggers.base import UnknownTrigger
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


class Audited(Rig):
    """A store with a definition that fires, and the audit of it."""

    @property
    def client(self) -> Client:
        """Who asks for audits."""
        return Client(self.store)

    def scheduled(self, trigger: Trigger = FROM_START) -> TaskDefinition:
        """A definition that fires at the clock's start, and each hour after."""
        return self.put(definition(START, trigger=trigger))

    def fire_at(
        self, *hours: int, then: int, of: TaskDefinition | None = None
    ) -> TaskDefinition:
        """A definition after it has fired at these hours, and goes on at another."""
        read = of or self.scheduled()
        times = [START + hour * HOUR for hour in hours]
        self.fire(read, *times, next_fire_time=START + then * HOUR)
        return self.read(read)

    def run(self, outcome: Outcome = Outcome.COMPLETED) -> None:
        """Run what is due now, to this end."""
        self.run_due(outcome, error="it broke")

    def audited(
        self, hours: float = 24, *, since: datetime = START, **options: Any
    ) -> AuditedDefinition:
        """The audit of the only definition, up to so many hours after the start."""
        until = START + hours * HOUR
        [found] = self.client.audit(since, until, **options)
        assert found.error is None
        return found

    def verdicts(self, hours: float = 24, **options: Any) -> Sequence[str]:
        """The verdicts on its fire times."""
        found = self.audited(hours, **options)
        return [each.verdict.value for each in found.times]


@pytest.fixture
def rig(store: Store, clock: ManualClock) -> Audited:
    """Any store."""
    return Audited(store, clock)


@pytest.fixture
def memory(clock: ManualClock) -> Audited:
    """For what is the same on any store."""
    return Audited(MemoryStore(clock), clock)


def test_each_fire_time_has_one_verdict(rig: Audited) -> None:
    of = rig.fire_at(0, then=1)
    rig.run()
    rig.advance(HOUR)
    of = rig.fire_at(1, then=2, of=of)
    rig.advance(MINUTE)
    rig.run()
    rig.advance(59 * MINUTE)
    of = rig.fire_at(2, then=3, of=of)
    rig.run(Outcome.FAILED)
    rig.advance(HOUR)
    # Four has been lost, and five was skipped.
    of = rig.fire_at(3, then=5, of=of)
    rig.cancel(*rig.store.select(Filter(states=[State.PENDING])))
    rig.advance(3 * HOUR)
    skipped = Skipped.itself(START + 5 * HOUR, "it was closed")
    step = firing(
        of, START + 6 * HOUR, skipped=skipped, next_fire_time=START + 7 * HOUR
    )
    assert rig.store.fire_definitions([step]).done
    rig.advance(HOUR + TICK)
    found = rig.audited()
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


def test_the_first_of_several_runs_says_how_late_it_was(rig: Audited) -> None:
    rig.fire_at(0, then=1)
    [first] = rig.start(*rig.claim())
    assert rig.finish(first, None, retry_in=MINUTE, error="once")
    rig.advance(MINUTE)
    assert rig.audited(1).times[0].reason == "it is to run again: once"
    rig.run()
    [time] = rig.audited(1).times
    assert (time.verdict, time.late) == (Verdict.ON_TIME, timedelta())
    assert (time.reason, time.instance_id) == ("it took 2 runs", first.id)


def test_an_instance_that_was_skipped_says_why(rig: Audited) -> None:
    rig.fire_at(0, then=1)
    rig.run(Outcome.SKIPPED)
    rig.advance(TICK)
    [time] = rig.audited(1).times
    assert (time.verdict, time.reason) == (Verdict.SKIPPED, "it broke")


def test_a_run_that_was_lost_says_how_late_it_was(rig: Audited) -> None:
    rig.fire_at(0, then=1)
    rig.start(*rig.claim())
    rig.advance(LEASE)
    [again] = rig.claim(OTHER_NODE, lapsed=True)
    [again] = rig.start(again)
    assert rig.finish(again)
    assert rig.verdicts(1) == ["on time"]


def test_a_definition_that_is_paused_waits(rig: Audited) -> None:
    of = rig.fire_at(0, then=1)
    rig.store.pause_definitions([of.id])
    rig.advance(HOUR + TICK)
    reasons = {each.reason for each in rig.audited().times}
    assert reasons == {"its definition is paused"}


def test_what_waits_for_another_instance_says_so(rig: Audited) -> None:
    locked = replace(definition(START, trigger=FROM_START), lock="printer")
    other = rig.put(replace(definition(START, trigger=FROM_START), lock="printer"))
    rig.fire(other, next_fire_time=START + HOUR)
    rig.start(*rig.claim())
    rig.fire(rig.put(locked), next_fire_time=START + HOUR)
    rig.start(*rig.claim())
    rig.advance(TICK)
    [time] = rig.audited(ids=[locked.id]).times
    assert time.reason == "another instance has to end first"


def test_before_the_first_that_is_known_nothing_is_missed(rig: Audited) -> None:
    rig.advance(3 * HOUR)
    of = rig.put(definition(START + 2 * HOUR, trigger=FROM_START))
    rig.fire_at(2, then=4, of=of)
    assert rig.verdicts() == ["unknown", "unknown", "waits"]


def test_what_may_have_been_cleaned_up_is_unknown(rig: Audited) -> None:
    rig.fire_at(0, 2, then=3)
    rig.run()
    rig.advance(2 * HOUR + TICK)
    assert rig.verdicts(retention=MINUTE) == ["on time", "unknown", "waits"]


def test_before_the_last_of_a_former_trigger_nothing_is_missed(rig: Audited) -> None:
    of = rig.fire_at(0, then=1)
    rig.run()
    rig.advance(HOUR)
    other = IntervalTrigger(HOUR, anchor=START + MINUTE)
    at = START + HOUR + MINUTE
    of = rig.put(replace(of, trigger=other, next_fire_time=at, revision=None))
    rig.advance(MINUTE)
    rig.fire(of, next_fire_time=at + HOUR)
    rig.run()
    assert [(each.at, each.verdict.value) for each in rig.audited(1).times] == [
        (START, "on time"),
        (START + MINUTE, "unknown"),
    ]


def test_what_the_trigger_does_not_fire_is_unexpected(rig: Audited) -> None:
    rig.fire(rig.scheduled(), START + MINUTE, next_fire_time=START + HOUR)
    rig.advance(2 * MINUTE)
    found = {each.at: each for each in rig.audited().times}
    assert found[START + MINUTE].verdict is Verdict.UNEXPECTED
    assert found[START + MINUTE].reason == "its trigger does not fire then"


def test_a_single_fire_time_that_is_over_without_an_instance_is_missed(
    rig: Audited,
) -> None:
    of = rig.scheduled(ExecuteOnceTrigger(START))
    assert rig.store.fire_definitions([Firing(definition=of, fire_times=())]).done
    rig.advance(TICK)
    assert rig.verdicts() == ["missed"]


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
    memory: Audited,
    changed: dict[str, Any],
    verdict: Verdict,
    reason: str,
) -> None:
    memory.fire_at(0, then=1)
    memory.run()
    [given] = memory.store.select()

    class Changed(MemoryStore):
        def select(self, *where: Any, **page: Any) -> Page[TaskInstance]:
            if page.get("order") is Order.FIRE_TIME:
                return Page([replace(given, **changed)])
            return super().select(*where, **page)

    memory.store.__class__ = Changed
    memory.advance(TICK)
    [time] = memory.audited(1).times
    assert (time.verdict, time.reason) == (verdict, reason)
    assert (time.late is None) == ("runs" in changed)


@pytest.mark.server
def test_what_is_lost_doubled_or_late_by_hand_in_a_database_is_found(
    empty_database_url: Callable[[], str], clock: ManualClock
) -> None:
    url = empty_database_url()
    with servers.opened(url, clock) as store:
        rig = Audited(store, clock)
        rig.fire_at(*range(4), then=4)
        clock.advance(3 * HOUR + TICK)
        for each in rig.start(*rig.claim()):
            assert rig.finish(replace(each, started_at=each.execute_at))
        assert rig.verdicts() == ["on time"] * 4
        at = {"lost": START + HOUR, "late": START + 2 * HOUR, "twice": START + 3 * HOUR}
        with engine_of(url) as engine, engine.begin() as connection:
            for statement in BY_HAND:
                connection.execute(text(statement), at)
        assert rig.verdicts() == ["on time", "missed", "late", "doubled"]


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


def test_what_has_no_fire_times_of_its_own_says_so(rig: Audited) -> None:
    rig.put(definition(None, trigger=OnDemandTrigger()))
    rig.put(definition(START, trigger=DelayTrigger(HOUR)))
    rig.advance(HOUR)
    found = list(rig.client.audit(START))
    assert {(each.note, each.times) for each in found} == {
        ("it runs on demand", ()),
        ("it fires after the end of each run", ()),
    }


def test_if_nothing_was_changed_what_is_not_there_is_missed(rig: Audited) -> None:
    rig.fire_at(2, then=4)
    rig.advance(4 * HOUR)
    at = START + HOUR + MINUTE
    assert rig.verdicts() == ["unknown", "unknown", "waits", "missed"]
    unchanged = rig.verdicts(unchanged_since=START)
    assert unchanged == ["unknown", "missed", "waits", "missed"]
    rig.run()
    of = rig.store.select_definitions()[0]
    other = rig.put(replace(of, trigger=IntervalTrigger(HOUR, anchor=at)))
    assert other.revision != 1
    since = START + 2 * HOUR
    found = rig.verdicts((at + HOUR - START) / HOUR, since=since, unchanged_since=START)
    assert found == ["unexpected"]


def test_fire_times_may_be_computed_by_somebody_else(rig: Audited) -> None:
    rig.fire_at(0, 1, then=2)
    rig.advance(HOUR + TICK)
    found = rig.verdicts(
        fire_times=lambda trigger, since, until: [since, since + MINUTE]
    )
    assert found == ["waits", "missed", "unexpected"]


def test_a_backfill_of_what_was_skipped_is_no_double(rig: Audited) -> None:
    skipped = Skipped.itself(START, "it was closed")
    of = rig.scheduled()
    step = firing(of, skipped=skipped, next_fire_time=START + HOUR)
    assert rig.store.fire_definitions([step]).done
    rig.advance(TICK)
    assert rig.client.backfill(of.id, START, START + TICK).made == 1
    rig.run()
    assert rig.verdicts(1) == ["on time"]


def test_what_is_done_by_hand_hides_no_record(
    memory: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.audit._PAGE", 2)
    of = memory.scheduled()
    for hour in range(3):
        skipped = Skipped.itself(START + hour * HOUR, f"closed {hour}")
        at = START + (hour + 1) * HOUR
        step = firing(of, skipped=skipped, next_fire_time=at)
        assert memory.store.fire_definitions([step]).done
        of = memory.read(of)
        memory.advance(HOUR)
        memory.store.add_instances(of.id, [Addition() for _ in range(1_001)])
    reasons = [each.reason for each in memory.audited(3).times]
    assert reasons == ["closed 0", "closed 1", "closed 2"]


def test_a_store_that_goes_away_is_no_error_of_a_definition(
    memory: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.scheduled()
    memory.advance(HOUR)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(MemoryStore, "select", away)
    with pytest.raises(StoreUnavailableError):
        next(memory.client.audit(START))


def test_what_is_before_the_time_shows_since_when_it_is_known(rig: Audited) -> None:
    rig.fire_at(0, then=3)
    rig.advance(3 * HOUR)
    assert rig.verdicts(since=START + HOUR) == ["missed"] * 2


def test_an_edit_leaves_known_what_the_new_trigger_explains(rig: Audited) -> None:
    of = rig.fire_at(0, then=1)
    rig.run()
    rig.advance(HOUR / 2 + MINUTE)
    half = IntervalTrigger(HOUR / 2, anchor=START)
    other = IntervalTrigger(HOUR, anchor=START + MINUTE)
    for trigger, verdict in [(half, "missed"), (other, "unknown")]:
        at = START + 4 * HOUR
        of = rig.put(replace(of, trigger=trigger, next_fire_time=at, revision=None))
        found = rig.verdicts(0.51, since=START + MINUTE / 2)
        assert {*found} == {verdict}


def test_a_backfill_shows_nothing_of_the_schedule(rig: Audited) -> None:
    rig.advance(4 * HOUR)
    of = rig.put(definition(START + 4 * HOUR, trigger=FROM_START))
    assert rig.client.backfill(of.id, START, START + HOUR).made == 1
    rig.run()
    for since in (START, START + HOUR):
        assert {*rig.verdicts(3, since=since)} <= {"late", "unknown"}


def test_what_was_cleaned_up_while_it_was_read_is_unknown(memory: Audited) -> None:
    memory.fire_at(0, 2, then=3)
    memory.run()
    memory.advance(2 * HOUR + TICK)
    asked = memory.client.audit(START, retention=3 * HOUR)
    memory.advance(2 * HOUR)
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
    rig = Audited(store, clock)
    rig.fire_at(0, then=5)
    rig.run()
    clock.advance(2 * HOUR)
    store.change = change
    asked = rig.client.audit(START, unchanged_since=START)
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
    memory: Audited,
) -> None:
    of = memory.put(definition(START + MINUTE, trigger=Odd()))
    memory.fire(of, next_fire_time=START + HOUR)
    memory.advance(MINUTE + TICK)
    memory.run()
    assert memory.verdicts(1) == ["unknown", "on time"]


def test_a_trigger_of_a_users_may_take_long_for_all(memory: Audited) -> None:
    memory.put(definition(START, trigger=Odd()))
    memory.advance(700 * HOUR)
    [found] = memory.client.audit(START)
    assert (found.error, len(found.times)) == (None, 700)


def test_an_interval_does_not_fire_when_it_is_scheduled(clock: ManualClock) -> None:
    client = Client(MemoryStore(clock))
    client.schedule(TaskDefinition(trigger=IntervalTrigger(HOUR)))
    clock.advance(HOUR + TICK)
    [found] = client.audit(START)
    assert [each.at for each in found.times] == [START + HOUR]


def test_fire_times_that_are_none_are_an_error(memory: Audited) -> None:
    memory.scheduled()
    memory.advance(TICK)
    naive = START.replace(tzinfo=None)
    [found] = memory.client.audit(START, fire_times=lambda *_: [naive])
    assert "time zone" in (found.error or "")
    far = START - HOUR
    [found] = memory.client.audit(START, fire_times=lambda *_: [far])
    assert list(found.times) == []


def test_more_fire_times_than_the_limit_are_an_error(rig: Audited) -> None:
    rig.fire_at(0, then=1)
    rig.advance(2 * HOUR + TICK)
    assert [each.error for each in rig.client.audit(START, limit=3)] == [None]
    [found] = rig.client.audit(START, limit=2)
    assert found.error == "more than 2 fire times: ask for a shorter time"


def test_a_day_is_audited_if_nothing_is_said(memory: Audited) -> None:
    memory.scheduled()
    memory.advance(48 * HOUR)
    [found] = memory.client.audit()
    hours = range(24, 48)
    assert [each.at for each in found.times] == [START + hour * HOUR for hour in hours]
    assert {each.verdict for each in found.times} == {Verdict.WAITS}


def test_a_scheduler_knows_its_retention(memory: Audited) -> None:
    memory.fire_at(0, 2, then=49)
    memory.advance(30 * HOUR)
    for hours, verdict in [(24, Verdict.UNKNOWN), (48, Verdict.MISSED)]:
        with Scheduler(
            print, memory.store, clock=memory.clock, retention=hours * HOUR
        ) as scheduler:
            [found] = scheduler.audit(START, START + 2 * HOUR)
        assert found.times[1].verdict is verdict


def test_a_trigger_that_nobody_can_read_is_an_error(memory: Audited) -> None:
    memory.scheduled(UnknownTrigger("shop.moon", None, "no class for it is imported"))
    memory.advance(HOUR)
    [found] = memory.client.audit(START)
    assert found.error is not None
    assert found.times == ()


def test_many_fire_times_and_definitions_are_read_page_by_page(
    memory: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.audit._PAGE", 2)
    for _ in range(3):
        memory.fire_at(*range(5), then=6)
    memory.advance(5 * HOUR)
    found = list(memory.client.audit(START))
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


def test_what_is_not_there_is_refused_by_its_id(rig: Audited) -> None:
    id = TaskDefinition.id_for("report")
    with pytest.raises(TaskDefinitionNotFoundError, match=f"{id}"):
        list(rig.client.audit(START - HOUR, ids=[id]))


def test_how_late_is_late_can_be_said(rig: Audited) -> None:
    rig.fire_at(0, then=1)
    rig.advance(seconds(2))
    rig.run()
    assert rig.verdicts(late=seconds(2)) == ["on time"]
