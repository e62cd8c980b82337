"""Store suite: what is stored comes back as it was, and a store opens and closes."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.checks import LONGEST, NAME_LIMIT, NOTE_LIMIT
from go_scheduler.clock import ZERO
from go_scheduler.models import METADATA_LIMIT, Outcome, Skipped
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    SECOND,
    TICK,
    Rig,
    StoreTests,
    definition,
    firing,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.json import JSON

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
    """Whether two JSON values are equal, and true is not taken for one."""
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
    RetryPolicy(delay=timedelta(microseconds=1), factor=1.1, jitter=0.1),
    RetryPolicy(
        delay=timedelta(seconds=5), max_delay=LONGEST, jitter=timedelta(seconds=1)
    ),
]


class TimeTests(StoreTests):
    """Times, to the microsecond and in UTC."""

    def test_a_definitions_times_come_back(self, rig: Rig) -> None:
        for name, at in TIMES.items():
            trigger = ExecuteOnceTrigger(at)
            new = rig.put(definition(at, trigger=trigger))
            moved = rig.put()
            rig.fire(moved, next_fire_time=at)
            for found in rig.store.list_definitions(ids=[new.id, moved.id]):
                assert found.next_fire_time == at, name
                assert found.next_fire_time.utcoffset() == ZERO, name
            assert rig.read(new).trigger == trigger, name

    def test_an_instances_times_come_back(self, rig: Rig) -> None:
        for name, at in TIMES.items():
            read = rig.put()
            skipped = Skipped(first=at, last=at, count=10**9, reason=TEXTS[2])
            step = firing(read, at, skipped=skipped)
            assert rig.fire_steps(step) == [read.id]
            for found in rig.instances(read):
                assert found.execute_at == found.due_at == at, name
                if found.skipped is None:
                    assert found.fire_time == at, name
                else:
                    assert found.skipped == skipped, name

    def test_times_given_in_utc_come_back_in_utc(self, rig: Rig) -> None:
        read = rig.put()
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        step = firing(read, START + TICK, skipped=skipped)
        assert rig.fire_steps(step) == [read.id]
        [started] = rig.claim(ahead=HOUR, lead=HOUR)
        assert rig.finish(started)
        record, instance = rig.instances(read)
        found = [instance.fire_time, instance.execute_at, instance.due_at]
        found += [instance.started_at, instance.expires_at, instance.completed_at]
        assert record.skipped is not None
        found += [record.skipped.first, record.skipped.last, record.completed_at]
        assert {at.utcoffset() for at in found if at is not None} == {ZERO}

    def test_times_in_another_zone_are_the_same_times(self, rig: Rig) -> None:
        read = rig.put()
        local = replace(read, next_fire_time=START.astimezone(KATHMANDU))
        step = firing(local, START.astimezone(KATHMANDU), next_fire_time=START)
        assert rig.fire_steps(step) == [read.id]
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
        found = rig.read(rig.put(new))
        assert found.expire_after == new.expire_after
        assert found.catch_up == new.catch_up

    def test_the_store_goes_by_the_clock_it_was_given(self, rig: Rig) -> None:
        for _ in range(2):
            assert rig.now() == rig.now(), "the store does not go by its clock="
            assert rig.now().utcoffset() == ZERO
            at_earliest, at_latest = rig.store.now_between()
            assert at_earliest <= rig.now() <= at_latest
            rig.advance(HOUR + TICK)


class ValueTests(StoreTests):
    """Ids, texts, policies and metadata."""

    def test_any_id_comes_back(self, rig: Rig) -> None:
        for number in (0, 1, 2**127, 2**128 - 1):
            rig.put(definition(key=number))
            assert rig.store.get_definition(UUID(int=number)).id.int == number

    def test_names_and_queues_come_back(self, rig: Rig) -> None:
        for text in (*TEXTS, "é" * NAME_LIMIT, "🕰" * NAME_LIMIT):
            new = rig.put(definition(name=text, queue=text))
            found = rig.read(new)
            assert (found.name, found.queue) == (text, text)
            assert rig.store.list_definitions(name=text, queue=text) == [new]
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
