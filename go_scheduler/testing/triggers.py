"""The trigger suite: tests what every trigger promises."""

from __future__ import annotations

import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.triggers.base import WRITE_BOTH, Trigger, dump_trigger, load_trigger
from go_scheduler.triggers.previews import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
"""When the suite schedules the trigger it tests."""

_FURTHER = timedelta(microseconds=1)
_ELSEWHERE = timezone(timedelta(hours=5, minutes=45))
_FAR_AWAY = (datetime.min.replace(tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))
_INSTANTS = (
    datetime(1899, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(2000, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    datetime(2024, 3, 10, 6, 59, 59, 999_999, tzinfo=UTC),
    datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
    datetime(2100, 2, 28, 23, 59, 59, tzinfo=UTC),
)


class TriggerSuite:
    """Tests what every trigger promises; inherit from it and provide one fixture.

    ```python
    class TestFullMoonTrigger(TriggerSuite):
        @pytest.fixture
        def trigger(self) -> Trigger:
            return FullMoonTrigger(hour=22)
    ```

    The fixture ``trigger`` returns a trigger as a user makes it; give it parameters if
    there are ways to make one that differ. The instants asked about are the same in
    every run, some of them chosen by Hypothesis.
    """

    @pytest.fixture
    def trigger(self) -> Trigger:
        """The trigger to test; a subclass provides it."""
        raise NotImplementedError("write a fixture `trigger` that returns a trigger")

    def test_its_kind_is_registered(self, trigger: Trigger) -> None:
        """Its kind loads the class that was stored."""
        kind, state = dump_trigger(trigger)
        assert kind == type(trigger).kind
        loaded = load_trigger(kind, state)
        assert type(loaded) is type(trigger), loaded

    def test_it_is_frozen(self, trigger: Trigger) -> None:
        """None of its attributes can be set."""
        if dataclasses.is_dataclass(trigger):
            names = [each.name for each in dataclasses.fields(trigger)]
        else:
            names = list(getattr(trigger, "__dict__", ()))
        for name in names:
            with pytest.raises(AttributeError):
                setattr(trigger, name, getattr(trigger, name))

    def test_it_is_compared_by_value(self, trigger: Trigger) -> None:
        """It equals its copy, with the same hash, and nothing of another kind."""
        twin = _stored(trigger)
        assert twin == trigger, f"stored and loaded it is {twin}{WRITE_BOTH}"
        assert trigger != object()
        if _hashable(trigger):
            assert hash(twin) == hash(trigger)

    def test_it_survives_the_store(self, trigger: Trigger) -> None:
        """It has the same fields after it was stored as JSON text."""
        scheduled = trigger.anchored(NOW)
        loaded = _stored(scheduled)
        assert loaded == scheduled, f"stored and loaded it is {loaded}{WRITE_BOTH}"
        assert dump_trigger(loaded) == dump_trigger(scheduled)
        _check_same_fire_times(loaded, scheduled)

    def test_it_survives_pickling(self, trigger: Trigger) -> None:
        """It is the same in another process."""
        scheduled = trigger.anchored(NOW)
        loaded = pickle.loads(pickle.dumps(scheduled))
        assert loaded == scheduled
        _check_same_fire_times(loaded, scheduled)

    def test_an_anchor_is_no_part_of_its_value(self, trigger: Trigger) -> None:
        """Anchoring keeps it equal; a second anchor changes nothing."""
        scheduled = trigger.anchored(NOW)
        assert type(scheduled) is type(trigger)
        assert scheduled == trigger
        later = scheduled.anchored(NOW + timedelta(days=1))
        assert dump_trigger(later) == dump_trigger(scheduled)

    def test_the_next_fire_time_is_strictly_later(self, trigger: Trigger) -> None:
        """It is after any instant, also after a fire time, and an aware time in UTC."""
        scheduled = trigger.anchored(NOW)

        def check(after: datetime) -> None:
            for _ in range(3):
                found = _next(scheduled, after)
                if found is None:
                    break
                _check_is_utc(found)
                assert found > after
                after = found

        _for_many_instants(check)

    def test_the_first_fire_time_is_utc(self, trigger: Trigger) -> None:
        """The first fire time is an aware time in UTC, possibly past, or None."""

        def check(now: datetime) -> None:
            found = _first(trigger.anchored(now), now)
            if found is not None:
                _check_is_utc(found)

        _for_many_instants(check)

    def test_the_answer_depends_on_the_instant_alone(self, trigger: Trigger) -> None:
        """A second call gives the same, also for the same instant in another zone."""
        scheduled = trigger.anchored(NOW)

        def check(after: datetime) -> None:
            found = _next(scheduled, after)
            _next(scheduled, after + timedelta(days=400))
            assert _next(scheduled, after) == found
            assert _next(scheduled, after.astimezone(_ELSEWHERE)) == found

        _for_many_instants(check)

    def test_no_fire_time_is_passed_over(self, trigger: Trigger) -> None:
        """Up to the next fire time, every instant has the same next fire time."""
        if trigger.waits:
            pytest.skip("it counts from the end of a run")
        scheduled = trigger.anchored(NOW)

        def check(after: datetime) -> None:
            if (found := _next(scheduled, after)) is not None:
                gap = found - after
                for part in (after + gap / 3, after + gap / 2, found - _FURTHER):
                    other = _next(scheduled, part)
                    assert other == found, (
                        f"asked from {after} it fires next at {found}, and asked from"
                        f" {part}, which is between them, at {other}: the series must"
                        " not depend on when it is asked"
                    )

        _for_many_instants(check)

    def test_it_answers_at_the_ends_of_time(self, trigger: Trigger) -> None:
        """From the year 1 to the year 9000 it never raises for an instant."""
        first, last = _FAR_AWAY
        scheduled = trigger.anchored(NOW)
        found = _next(scheduled, first)
        assert found is None or found > first
        found = _next(scheduled, last)
        assert found is None or found > last

    def test_it_fires_once_unless_it_is_recurring(self, trigger: Trigger) -> None:
        """A trigger that is not recurring has one fire time at most."""
        found = _first(trigger.anchored(NOW), NOW)
        if found is not None and not trigger.recurring:
            assert _next(trigger.anchored(NOW), found) is None


def _for_many_instants(check: Callable[[datetime], None]) -> None:
    for instant in _INSTANTS:
        check(instant)
    instants = st.datetimes(
        datetime(1950, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
        datetime(2100, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    )
    examples = settings(max_examples=25, deadline=None, derandomize=True)
    examples(given(instants)(check))()


def _next(trigger: Trigger, after: datetime) -> datetime | None:
    return ask(trigger, lambda: trigger.next_fire_time(after))


def _first(trigger: Trigger, now: datetime) -> datetime | None:
    return ask(trigger, lambda: trigger.first_fire_time(now))


def _stored(trigger: Trigger) -> Trigger:
    kind, state = dump_trigger(trigger)
    return load_trigger(kind, json.loads(json.dumps(state)))


def _series(trigger: Trigger) -> Sequence[datetime | None]:
    return [_first(trigger, NOW), *(_next(trigger, each) for each in _INSTANTS)]


def _check_same_fire_times(one: Trigger, other: Trigger) -> None:
    assert _series(one) == _series(other)


def _check_is_utc(found: datetime) -> None:
    assert isinstance(found, datetime)
    assert found.utcoffset() == timedelta(0), f"{found!r} is no aware time in UTC"


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
