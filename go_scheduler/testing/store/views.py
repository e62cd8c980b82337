"""Store suite: what is stored is read unchanged, listed and counted.

A store need not keep trace contexts; then it keeps none at all.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import combinations, cycle, product
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler.checks import LONGEST, NAME_LIMIT, NOTE_LIMIT
from go_scheduler.clock import ZERO
from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import (
    METADATA_LIMIT,
    OPEN,
    Counted,
    Outcome,
    Skipped,
    Stage,
    State,
)
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.filters import (
    CLAIMABLE,
    CLAIMED,
    DefinitionFilter,
    Filter,
    Order,
)
from go_scheduler.stores.messages import Addition, Firing
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    SECOND,
    TICK,
    WAITING,
    Rig,
    StoreTests,
    all_pages,
    check,
    claimant,
    counts_by_state,
    definition,
    ids,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.simple import ExecuteOnceTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition, TaskInstance

KATHMANDU = timezone(timedelta(hours=5, minutes=45))
LISBON_IN_1900 = timezone(-timedelta(minutes=36, seconds=44, microseconds=680000))
TIMES = {
    "a microsecond": datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "microseconds": datetime(2030, 1, 1, 0, 0, 0, 999999, tzinfo=UTC),
    "in another zone": datetime(2030, 1, 1, 3, 4, 5, 6, tzinfo=KATHMANDU),
    "with an odd offset": datetime(1900, 1, 1, tzinfo=LISBON_IN_1900),
    "before 1970": datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    "after 2038": datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
    "after nanoseconds in 64 bits": datetime(2262, 4, 12, tzinfo=UTC),
    "the last": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
}
TEXTS = [
    "plain",
    " spaces ",
    "Größe 東京 🕰️ שלום",
    "e\u0301 is not \xe9",
    "'\"`\\%_$1?:name;--",
    "\t\r\n\x01\x7f\u2028\ufeff",
    "null",
]
DEEP: JSON = 0
for _ in range(90):
    DEEP = {"a": DEEP} if isinstance(DEEP, list) else [DEEP]
METADATA: list[Mapping[str, JSON]] = [
    {},
    {"": ""},
    {"null": None, "true": True, "false": False, "zero": 0, "one": 1},
    {"big": 2**53 + 1, "bigger": -(2**63) - 1, "biggest": 10**40 + 1},
    {"tenth": 0.1, "third": 1 / 3, "small": 5e-324, "large": 1.7976931348623157e308},
    {"whole": 1e15, "wide": 1e300, "negative": -1.5e-7},
    {"empty": [[], {}, [[]]], "mixed": [1, "1", [1], {"1": 1}, None, True]},
    {"deep": DEEP},
    {text: [text, {text: text}] for text in TEXTS},
    {"full": "é" * ((METADATA_LIMIT - len('{"full":""}')) // 2)},
]


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal; true is not the number one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


RETRIES = [
    None,
    RetryPolicy(),
    RetryPolicy(max_attempts=None),
    RetryPolicy.after_expiry(),
    RetryPolicy(max_attempts=10**9, stop_on=[KeyError, "app.errors.Gone"]),
    RetryPolicy(delay=ZERO, factor=2, jitter=1),
    RetryPolicy(delay=TICK, factor=1.1, jitter=0.1),
    RetryPolicy(delay=5 * SECOND, max_delay=LONGEST, jitter=SECOND),
]


class ValueTests(StoreTests):
    """Times, ids, texts, policies and metadata."""

    def test_a_definitions_times_come_back(self, rig: Rig) -> None:
        for name, at in TIMES.items():
            trigger = ExecuteOnceTrigger(at)
            new = rig.put(definition(at, trigger=trigger))
            moved = rig.put()
            rig.fire(moved, next_fire_time=at)
            for found in rig.store.select_definitions(
                DefinitionFilter(ids=[new.id, moved.id])
            ):
                assert found.next_fire_time == at, name
                assert found.next_fire_time.utcoffset() == ZERO, name
            assert rig.read(new).trigger == trigger, name

    def test_an_instances_times_come_back(self, rig: Rig) -> None:
        for name, at in TIMES.items():
            read = rig.put()
            skipped = Skipped(first=at, last=at, count=10**9, reason=TEXTS[2])
            for found in rig.fire(read, at, skipped=skipped):
                assert found.execute_at == found.due_at == at, name
                if found.skipped is None:
                    assert found.fire_time == at, name
                else:
                    assert found.skipped == skipped, name

    def test_times_given_in_utc_come_back_in_utc(self, rig: Rig) -> None:
        read = rig.put()
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        rig.fire(read, START + TICK, skipped=skipped)
        rig.advance(TICK)
        rig.run_due()
        record, instance = rig.instances(read)
        found = (
            *attrgetter("fire_time", "execute_at", "due_at", "started_at")(instance),
            *attrgetter("expires_at", "completed_at")(instance),
            *attrgetter("skipped.first", "skipped.last", "completed_at")(record),
        )
        assert {at.utcoffset() for at in found if at is not None} == {ZERO}

    def test_times_in_another_zone_are_the_same_times(self, rig: Rig) -> None:
        read = rig.put()
        local = replace(read, next_fire_time=START.astimezone(KATHMANDU))
        rig.fire(local, START.astimezone(KATHMANDU), next_fire_time=START)
        assert len(rig.fire(read)) == 1
        [run] = rig.claim()
        called_at = (START + TICK).astimezone(KATHMANDU)
        assert rig.finish(replace(run, started_at=called_at))
        assert rig.read(run).started_at == START + TICK

    def test_leases_and_due_times_keep_their_microseconds(self, rig: Rig) -> None:
        for years in (0, 40, 1000):
            rig.advance(timedelta(days=365 * years, microseconds=1))
            now = rig.now()
            rig.pending(definition(now + SECOND))
            [claimed] = rig.claim(ahead=SECOND)
            assert claimed.expires_at == now + SECOND + LEASE
            [started] = rig.start(claimed)
            assert started.started_at == now + SECOND
            assert rig.finish(started, None, retry_in=TICK)
            assert rig.read(started).due_at == now + TICK
            rig.delete(started.definition)

    def test_durations_keep_their_microseconds(self, rig: Rig) -> None:
        new = definition(expire_after=timedelta(days=36_525) - TICK)
        new = replace(new, catch_up=CatchUp(grace=timedelta(days=400, microseconds=3)))
        rig.check(rig.put(new), expire_after=new.expire_after, catch_up=new.catch_up)

    def test_the_store_goes_by_the_clock_it_was_given(self, rig: Rig) -> None:
        for _ in range(2):
            now = rig.clock.now()
            assert rig.store.now() == now, "the store does not go by its clock="
            assert rig.store.now().utcoffset() == ZERO
            at_earliest, at_latest = rig.store.now_between()
            assert at_earliest <= now <= at_latest
            rig.advance(HOUR + TICK)

    def test_any_id_comes_back(self, rig: Rig) -> None:
        for number in (0, 1, 2**127, 2**128 - 1):
            rig.put(definition(key=number))
            assert rig.store.get_definition(UUID(int=number)).id.int == number

    def test_names_and_queues_come_back(self, rig: Rig) -> None:
        for text in (*TEXTS, "é" * NAME_LIMIT, "🕰" * NAME_LIMIT):
            new = rig.put(definition(name=text, queue=text))
            rig.check(new, name=text, queue=text)
            assert rig.store.select_definitions(
                DefinitionFilter(name=text, queues=[text])
            ) == [new]
            rig.fire(new)
            assert len(rig.claim(queues=[text])) == 1, f"in the queue {text!r}"

    def test_errors_and_notes_come_back(self, rig: Rig) -> None:
        for text in (*TEXTS, "", "é" * 100_000):
            instance = rig.running()
            assert rig.finish(instance, Outcome.FAILED, error=text)
            assert rig.read(instance).error == text
            note = text[:NOTE_LIMIT]
            paused = rig.pause(instance.definition, note=note)
            assert paused.note == rig.read(paused).note == note

    def test_retry_policies_come_back(self, rig: Rig) -> None:
        for retry in RETRIES:
            new = rig.put(definition(retry=retry))
            # As text: 1 and 1.0, or a list and a tuple, are equal to each other.
            assert repr(rig.read(new).retry) == repr(retry)

    def test_metadata_comes_back(self, rig: Rig) -> None:
        for metadata in METADATA:
            new = definition(metadata=metadata)
            rig.put(new)
            found = rig.read(new)
            assert same(found.metadata, new.metadata), metadata
            assert found == new, metadata
            assert rig.put(new).revision == 1, f"not equal to itself: {metadata}"
            [instance] = rig.fire(found)
            assert same(instance.metadata, new.metadata), metadata

    def test_a_negative_zero_stays_negative(self, rig: Rig) -> None:
        new = rig.put(definition(metadata={"a": -0.0}))
        kept = rig.read(new).metadata["a"]
        assert isinstance(kept, float)
        assert math.copysign(1, kept) == -1

    def test_what_is_read_cannot_be_changed(self, rig: Rig) -> None:
        new = rig.put(definition(metadata={"a": {"b": [1]}}))
        found = rig.read(new)
        with pytest.raises(TypeError):
            found.metadata["a"]["b"].append(2)  # type: ignore[call-overload,index,union-attr]
        assert rig.read(new).metadata == {"a": {"b": [1]}}


class OpenTests(StoreTests):
    """``initialize``, ``connect`` and ``close``."""

    def test_initializing_again_is_harmless(self, rig: Rig) -> None:
        instance = rig.running()
        for _ in range(2):
            rig.store.initialize()
        assert rig.read(instance.definition) == instance.definition
        assert rig.read(instance) == instance

    def test_connecting_again_is_harmless(self, rig: Rig) -> None:
        for _ in range(2):
            rig.store.connect()
        new = rig.put()
        assert rig.read(new) == new

    def test_a_closed_store_may_be_opened_again(self, rig: Rig) -> None:
        for _ in range(2):
            # The first time it is closed before it was used.
            for _ in range(2):
                rig.store.close()
            rig.store.initialize()
            new = rig.put()
            assert rig.read(new) == new


def one_of_each_state(rig: Rig) -> dict[State, TaskInstance]:
    """An instance in each state, each of its own definition."""
    made = {State(each.value): rig.ended(outcome=each) for each in Outcome}
    made[State.RUNNING] = rig.running()
    asked = rig.running()
    rig.cancel(asked)
    made[State.CANCELLING] = rig.read(asked)
    made[State.CLAIMED] = rig.claimed()
    made[State.PENDING] = rig.pending()
    return made


MAIL, FAX, IDLE, FROZEN, LOCKED, BUS = (
    definition(key=key, name=name, queue=name)
    for key, name in enumerate(("mail", "fax", "idle", "frozen", "locked", "bus"))
)


def filled(rig: Rig) -> dict[str, TaskInstance]:
    """Instances in every state, by a letter each. ``FAX`` is in the set of "shop".

    a and b completed, c failed, d was skipped; e is to stop, f and g run, h is claimed;
    i was cancelled, u to y are pending, and so is z, whose definition is paused; r runs
    all the same. p runs, and q waits for its lock. s is on a bus and has not begun.
    """
    rig.store.put_definitions([MAIL, IDLE, FROZEN, replace(LOCKED, lock="a"), BUS])
    rig.store.declare_definitions(Declaration(owner="shop", definitions=[FAX]))
    made: dict[str, TaskInstance] = {}

    def add(letter: str, of: TaskDefinition, after: timedelta, key: str = "") -> None:
        made[letter] = rig.add(of, at=START + after, key=key or letter)

    for number, letter in enumerate("abcdefg"):
        add(letter, FAX if number % 2 else MAIL, number * SECOND)
        [made[letter]] = rig.claim(queues=["mail", "fax"])
        rig.advance(SECOND)
    for each in zip("abcd", ENDS, strict=True):
        assert rig.finish(made[each[0]], each[1])
        rig.advance(SECOND)
    for number, letter in enumerate("pqrs", start=23):
        of = {"r": FROZEN, "s": BUS}.get(letter, LOCKED)
        add(letter, of, number * SECOND)
    claimed = rig.claim(queues=["locked", "frozen", "bus"], ahead=MINUTE)
    assert len(rig.start(*claimed)) == 4
    rig.report_stage(rig.read(made["s"]), Stage.PUBLISHED)
    add("h", MAIL, 40 * SECOND)
    rig.claim(queues=["mail"], ahead=MINUTE)
    add("i", MAIL, MINUTE)
    rig.store.cancel_instances({made["e"].id: None, made["i"].id: None})
    add("x", IDLE, 20 * SECOND, key="a")
    add("y", IDLE, 21 * SECOND)
    add("z", FROZEN, 22 * SECOND)
    add("w", FAX, 4 * HOUR)
    later = [START + number * HOUR for number in (1, 2, 3)]
    step = {"next_fire_time": later[2], "execute_times": tuple(later[1:])}
    *_, made["u"], made["v"] = rig.fire(rig.read(MAIL), *later[:2], **step)
    rig.pause(FROZEN)
    # The claims of what runs have lapsed: it runs even so.
    rig.advance(20 * SECOND)
    return made


ENDS = (Outcome.COMPLETED, Outcome.COMPLETED, Outcome.FAILED, Outcome.SKIPPED)
ALL = "abcdefgxyzpqrshiuvw"
# What pages show, in an order that an index has.
SHOWN = [
    {name: getattr(where, name) for name in ("states", "paused", "parked")}
    for where in (CLAIMABLE, CLAIMED)
]
LISTS: Sequence[tuple[dict[str, Any], str]] = (
    ({}, ALL),
    *(
        ({"states": [state]}, expected)
        for state, expected in (
            (State.COMPLETED, "ab"),
            (State.FAILED, "c"),
            (State.SKIPPED, "d"),
            (State.CANCELLING, "e"),
            (State.RUNNING, "fgprs"),
            (State.CLAIMED, "h"),
            (State.CANCELLED, "i"),
            (State.PENDING, "xyzquvw"),
        )
    ),
    ({"states": []}, ""),
    ({"states": OPEN}, "efgxyzpqrshuvw"),
    ({"states": [State.FAILED, State.COMPLETED]}, "abc"),
    (SHOWN[0], "xyuvw"),
    (SHOWN[1], "efgpsh"),
    ({"states": [State.CLAIMED, State.SKIPPED]}, "dh"),
    ({"paused": True}, "zr"),
    ({"parked": True}, "q"),
    ({"unstarted": True}, "xyzqshuvw"),
    ({"name": "mail"}, "aceghiuv"),
    ({"name": "MAIL"}, ""),
    ({"key": "a"}, "ax"),
    ({"key": "A"}, ""),
    ({"definition_id": MAIL.id}, "aceghiuv"),
    ({"definition_id": NOBODY}, ""),
    ({"queues": ["fax", "idle"]}, "bdfxyw"),
    ({"queues": []}, ""),
    ({"owners": ["shop", "nobody"]}, "bdfw"),
    ({"owners": []}, ""),
    ({"since": START + 2 * SECOND}, ALL[2:]),
    ({"fired": True}, "uv"),
    ({"fired_since": START}, "uv"),
    ({"fired_before": START + 2 * HOUR}, "u"),
)
# One value of each condition, and some more of states, for all pairs of them.
CONDITIONS: Sequence[dict[str, Any]] = (
    {"definition_id": MAIL.id},
    {"name": "fax"},
    {"key": "a"},
    *({"states": [state]} for state in State),
    {"states": [State.CANCELLED, State.RUNNING]},
    {"paused": True},
    {"paused": False},
    {"parked": False},
    {"unstarted": True},
    {"since": START + 22 * SECOND},
    {"fired": False},
    {"fired_since": START + 2 * HOUR},
    {"fired_before": START + 2 * HOUR},
    {"queues": ["mail", "frozen", "locked"]},
    {"owners": ["shop"]},
    *SHOWN,
    {"definition_id": MAIL.id, "fired": False},
    {
        "definition_id": MAIL.id,
        "fired_since": START + HOUR,
        "fired_before": START + 2 * HOUR,
    },
)
# What pages show of some queues and owners, in an order that an index has.
WHOSE: Sequence[dict[str, Any]] = (
    {"queues": ["mail"]},
    {"owners": ["shop"]},
    {"queues": ["fax"], "owners": ["shop"]},
)
PAGES: Sequence[tuple[dict[str, Any], Order, bool]] = (
    (SHOWN[0], Order.DUE, False),
    (SHOWN[1], Order.EXPIRY, False),
    ({"key": "a"}, Order.EXECUTION, False),
    ({"states": [State.COMPLETED]}, Order.END, True),
)


class InstanceListTests(StoreTests):
    """``select``, ``count`` and ``get_instance``."""

    def test_instances_are_read_by_their_ids(self, rig: Rig) -> None:
        known = one_of_each_state(rig).values()
        where = Filter(ids=[NOBODY, *(each.id for each in known)])
        found = rig.store.select(where, order=Order.ID)
        expected = sorted(map(rig.read, known), key=attrgetter("id"))
        assert (found, found.next) == (expected, None)
        assert rig.store.select(Filter(ids=[])) == []
        with pytest.raises(TaskInstanceNotFoundError) as caught:
            rig.store.get_instance(NOBODY)
        assert caught.value.instance_id == NOBODY

    def test_a_page_has_what_meets_every_condition(self, rig: Rig) -> None:
        letters = {each.id: name for name, each in filled(rig).items()}
        for conditions, expected in LISTS:
            for limit, descending in product((1, 3, 100), (False, True)):
                where = Filter(**conditions)
                page = partial(rig.store.select, where, descending=descending)
                pages = all_pages(page, limit=limit)
                read = "".join(letters[each.id] for each in pages)
                assert read == (expected[::-1] if descending else expected), conditions

    def test_instances_meet_each_pair_of_conditions_in_order(self, rig: Rig) -> None:
        made = [each.id for each in filled(rig).values()]
        every = rig.store.select(Filter(ids=made), limit=100)
        limits = ((2, None), (100, 100))
        orders = cycle(product(Order, (False, True), limits))
        pairs = [
            *((each, {}) for each in (*CONDITIONS, {}) for _ in range(4 * len(Order))),
            *combinations(CONDITIONS, 2),
        ]
        reads = [
            *(({**one, **other}, *next(orders)) for one, other in pairs),
            *(
                ({**shown, **whose}, order, descending, limit)
                for (shown, order, descending), whose in product(PAGES, WHOSE)
                for limit in limits
            ),
        ]
        for conditions, order, descending, (limit, scan_limit) in reads:
            where = Filter(**conditions)
            page = partial(
                rig.store.select,
                where,
                order=order,
                descending=descending,
                scan_limit=scan_limit,
            )
            expected = [
                (position.at, each.id)
                for each in every
                if where.matches(each)
                and (position := order.position(each)) is not None
            ]
            expected.sort(reverse=descending, key=_with_time)
            found = all_pages(page, limit=limit)
            in_order = [id for _, id in expected]
            assert ids(found) == in_order, (where, order, descending, scan_limit)

    def test_each_pair_of_conditions_is_counted(self, rig: Rig) -> None:
        made = [each.id for each in filled(rig).values()]
        every = rig.store.select(Filter(ids=made), limit=100)
        filters = [
            Filter(**{**one, **other})
            for one, other in combinations((*CONDITIONS, {}), 2)
        ]
        exact, bounded = rig.store.count(filters), rig.store.count(filters, most=1)
        assert rig.store.count(filters, most=100) == exact
        for where, counts, few in zip(filters, exact, bounded, strict=True):
            numbers = Counter(each.state for each in every if where.matches(each))
            for state in State:
                assert counts[state] == Counted(count=numbers[state]), (where, state)
                assert few[state].count <= 1, (where, state)
                is_exact = few[state].count == numbers[state]
                assert few[state].more or is_exact, (where, state)
        assert rig.store.count([]) == []

    def test_a_page_follows_an_instance_that_is_gone(self, rig: Rig) -> None:
        gone = rig.pending()
        kept = rig.pending(definition(START + SECOND))
        rig.delete(gone.definition)
        for order in (Order.EXECUTION, Order.DUE):
            end = order.position(gone)
            assert ids(rig.store.select(order=order, after=end)) == [kept.id]

    def test_a_page_has_100_instances_by_default(self, rig: Rig) -> None:
        rig.fire(rig.put(), *(START + number * TICK for number in range(101)))
        assert len(rig.store.select()) == 100

    def test_every_state_has_a_count(self, rig: Rig) -> None:
        assert counts_by_state(rig.store) == dict.fromkeys(State, 0)
        made = one_of_each_state(rig)
        rig.pending(definition(START + SECOND))
        counts = {**dict.fromkeys(State, 1), State.PENDING: 2}
        assert counts_by_state(rig.store) == counts
        rig.store.delete_definitions([each.definition.id for each in made.values()])
        rig.clean_up()
        left = dict.fromkeys(State, 0) | {State.PENDING: 1}
        assert counts_by_state(rig.store) == left


def _with_time(place: tuple[datetime | None, UUID]) -> tuple[datetime, UUID]:
    return place[0] or START, place[1]


def counted_up_to(rig: Rig, most: int, **conditions: Any) -> Mapping[State, Counted]:
    """How many instances are in each state, as far as they have to be counted."""
    [found] = rig.store.count([Filter(**conditions)], most=most)
    return found


class ViewTests(StoreTests):
    """Reads with a bound, and ``list_backlog``."""

    def test_counts_are_exact_up_to_a_bound(self, rig: Rig) -> None:
        for outcome in (Outcome.COMPLETED, Outcome.FAILED) * 2:
            rig.ended(outcome=outcome)
        one_of_each_state(rig)
        for _ in range(3):
            rig.pending()
        exact = dict.fromkeys(State, 1) | {State.COMPLETED: 3, State.FAILED: 3}
        exact[State.PENDING] = 4
        counts = counted_up_to(rig, 10)
        assert counts == {state: Counted(count=exact[state]) for state in State}
        for most in (2, 3):
            for state, found in counted_up_to(rig, most).items():
                assert found.count <= most, state
                assert found.more or found.count == exact[state], (state, most)
        # Few that are claimed are counted amid many that wait.
        for state in (State.CLAIMED, State.RUNNING):
            assert counted_up_to(rig, 3)[state] == Counted(count=1)
        assert counted_up_to(rig, 2)[State.FAILED] == Counted(count=2, more=True)

    def test_of_many_that_are_paused_more_is_said(self, rig: Rig) -> None:
        of = rig.put(definition(START)).id
        rig.store.add_instances(of, [Addition() for _ in range(3)])
        rig.store.pause_definitions([of])
        for queues in (None, ["default"]):
            assert counted_up_to(rig, 2, queues=queues)[State.PENDING].more
            exact = counted_up_to(rig, 3, queues=queues)[State.PENDING]
            assert exact == Counted(count=3)

    def test_the_backlog_is_what_is_due_by_queue(self, rig: Rig) -> None:
        quick = definition(START - MINUTE, queue="quick")
        rig.pending(replace(quick, priority=3))
        rig.pending(definition(START - HOUR, queue="quick"))
        rig.pending(definition(START - SECOND, queue="slow"))
        rig.pending(definition(START + SECOND, queue="later"))
        paused = definition(START - HOUR, queue="paused")
        rig.pending(paused)
        rig.pause(paused)
        found = {each.queue: each for each in rig.store.list_backlog(10)}
        assert list(found) == ["quick", "slow"]
        assert found["quick"].due == Counted(count=2)
        assert found["quick"].oldest == START - HOUR
        assert found["slow"].oldest == START - SECOND
        bounded = rig.store.list_backlog(1)[0]
        assert bounded.due == Counted(count=1, more=True)

    def test_without_anything_nothing_is_shown(self, rig: Rig) -> None:
        rig.put()
        assert rig.store.list_backlog(10) == []
        for conditions, order in product(CONDITIONS, Order):
            where = Filter(**conditions)
            found = rig.store.select(where, order=order, scan_limit=10)
            assert (found, found.next) == ([], None)
        assert set(counted_up_to(rig, 1).values()) == {Counted(count=0)}

    def test_what_ended_last_comes_first(self, rig: Rig) -> None:
        failed = []
        for seconds in (0, 0, 1, 1):
            rig.advance(seconds * SECOND)
            failed.append(rig.ended(outcome=Outcome.FAILED))
        ended = partial(rig.store.select, order=Order.END, descending=True)
        for outcome in Outcome:
            if outcome is not Outcome.FAILED:
                other = rig.ended(outcome=outcome)
                of = Filter(states=[State(outcome.value)])
                for scan_limit in (None, 10):
                    page = ended(of, limit=10, scan_limit=scan_limit)
                    assert (ids(page), page.next) == ([other.id], None)
        last_first = sorted(failed, reverse=True, key=attrgetter("completed_at", "id"))
        where = Filter(states=[State.FAILED])
        # Of so few that are looked at, each page says where to go on.
        for limit, scan_limit in product((1, 2, 5), (1, 2, 10, None)):
            found = all_pages(partial(ended, where, scan_limit=scan_limit), limit=limit)
            assert ids(found) == ids(last_first), (limit, scan_limit)

    def test_however_few_are_looked_at_a_page_says_where_to_go_on(
        self, rig: Rig
    ) -> None:
        filled(rig)
        few = Filter(queues=["fax"]), Filter(name="mail"), Filter(states=OPEN)
        for where in few:
            page = partial(rig.store.select, where, scan_limit=2)
            goes_on = all_pages(page, limit=3)
            assert ids(goes_on) == ids(rig.store.select(where)), where
        for queues, found_in in ((["mail"], []), (None, ["idle"]), ([], [])):
            backlog = rig.store.list_backlog(9, queues=queues)
            assert [each.queue for each in backlog] == found_in

    def test_names_are_found_by_how_they_begin(self, rig: Rig) -> None:
        names = ("report", "report daily", "rep%", "Report", None)
        made = {name: rig.put(definition(name=name)) for name in names}
        for prefix, expected in (
            ("report", {"report", "report daily"}),
            ("rep%", {"rep%"}),
            ("x", set()),
        ):
            for scan_limit in (None, 100):
                found = rig.store.select_definitions(
                    DefinitionFilter(name_prefix=prefix), scan_limit=scan_limit
                )
                assert {each.name for each in found} == expected
        where = DefinitionFilter(name_prefix="rep")
        page = partial(rig.store.select_definitions, where)
        assert len(page(limit=2)) == 2
        read = [each.id for each in all_pages(page, limit=2)]
        assert read == sorted(made[name].id for name in names[:3])
        rig.delete(made["report"])
        [left] = rig.store.select_definitions(DefinitionFilter(name_prefix="report"))
        assert left.name == "report daily"


MADE = START + MINUTE


def made_at(given: Iterable[TaskInstance]) -> list[datetime | None]:
    """When each was made."""
    return [each.created_at for each in given]


FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANOTHER = "x" * 600


class OriginTests(StoreTests):
    """``created_at`` and ``trace_context``."""

    def test_what_is_created_and_started_at_once_is_made_then(self, rig: Rig) -> None:
        fires, adds = rig.put(), rig.put()
        rig.advance(MINUTE)
        new = definition(START)
        firing = Firing(definition=new, fire_times=(START,))
        node = claimant()
        put = rig.store.put_definitions([new], firings=[firing], claimant=node)
        step = Firing(definition=fires, fire_times=(START,))
        fired = rig.store.fire_definitions([step], claimant=node)
        added = rig.store.add_instances(adds.id, [Addition()], claimant=node)
        made = [*put.started, *fired.started, *added]
        assert made_at(made) == [MADE] * len(made)
        assert set(made_at(rig.store.select())) == {MADE}

    def test_that_of_a_definition_stays_until_it_is_changed(self, rig: Rig) -> None:
        given = definition(START + HOUR, trace_context=FIRST)
        new = rig.put(given)
        assert new.trace_context in (None, FIRST)
        again = rig.edit(given, trace_context=ANOTHER)
        rig.pause(new)
        [resumed] = rig.resume(new)
        assert again.revision == new.revision
        check(again, resumed, rig.read(new), trace_context=new.trace_context)
        edited = rig.edit(given, name="other", trace_context=ANOTHER)
        assert edited.trace_context in (None, ANOTHER)
        assert rig.read(new).trace_context == edited.trace_context
        without = replace(given, trigger=WAITING, trace_context=None)
        check(rig.put(without), rig.read(new), trace_context=None)

    def test_an_instance_has_its_own_or_its_definitions(self, rig: Rig) -> None:
        of = rig.put(definition(trace_context=FIRST))
        rig.fire(of)
        given = [Addition(key="a", trace_context=ANOTHER), Addition()]
        added = [*rig.store.add_instances(of.id, given)]
        own = added[0].own_trace_context
        assert own in (None, ANOTHER)
        assert [*rig.store.add_instances(of.id, given)] == added
        claimed = rig.claim()
        started = rig.start(*claimed)
        assert len(started) == 3
        for each in (*added, *claimed, *started, *rig.store.select()):
            expected = own if each.key == "a" else None
            assert each.own_trace_context == expected
            assert each.trace_context == (expected or of.trace_context)
        given = [Addition(trace_context=ANOTHER)]
        [at_once] = rig.store.add_instances(of.id, given, claimant=claimant())
        assert at_once.own_trace_context == own
        assert rig.read(at_once) == at_once

    def test_what_is_backfilled_has_that_of_the_call(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR))
        asked = replace(of, trace_context=ANOTHER)
        rig.store.backfill_instances(
            asked, [START - HOUR, START], overlap=Overlap.ALLOW
        )
        contexts = {each.trace_context for each in rig.claim()}
        assert contexts in ({None}, {ANOTHER})
        assert rig.read(of).trace_context is None
