"""cronsim keeps Debian's rules too. Where it departs, a test here says how."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.wall.zones import load_zone
from tests.triggers.cron_oracle import (
    DAY,
    FIVE,
    HOUR,
    MINUTE,
    WEEKDAYS,
    expressions,
    fire_times,
    near_changes,
    numbers,
)

# Those that are no clocks of a place are refused or are told apart from none.
ZONES = sorted(
    name
    for name in available_timezones()
    if "/" in name and not name.startswith(("Etc/", "posix/", "right/", "SystemV/"))
)


class TestAgainstCronsim:
    @settings(max_examples=50, deadline=None)
    @given(
        expression=expressions(),
        place=near_changes()
        | st.tuples(
            st.sampled_from(ZONES).map(ZoneInfo),
            st.datetimes(
                datetime(1975, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
                datetime(2037, 1, 1),  # noqa: DTZ001
                timezones=st.just(UTC),
            ),
        ),
    )
    def test_it_agrees_with_cronsim(
        self, expression: str, place: tuple[ZoneInfo, datetime]
    ) -> None:
        zone, start = place
        after = start.replace(second=0, microsecond=0)
        assume(not has_a_nearest_weekday(expression))
        try:
            trigger = CronTrigger(expression, zone)
        except InvalidTriggerError:
            with pytest.raises((CronSimError, StopIteration)):
                next(CronSim(for_cronsim(expression), after.astimezone(zone)))
            return
        for _ in range(3):
            expected = cronsim_next(for_cronsim(expression), after.astimezone(zone))
            assume(not has_an_odd_change(expression, zone, after, expected))
            assert trigger.next_fire_time(after) == expected
            after = expected

    @settings(max_examples=40, deadline=None)
    @given(
        expression=expressions(("second", *FIVE)),
        after=st.datetimes(
            datetime(1975, 1, 1),  # noqa: DTZ001
            datetime(2037, 1, 1),  # noqa: DTZ001
            timezones=st.just(UTC),
        ),
    )
    def test_it_agrees_with_cronsim_on_seconds(
        self, expression: str, after: datetime
    ) -> None:
        after = after.replace(microsecond=0)
        assume(not has_a_nearest_weekday(expression))
        try:
            trigger = CronTrigger(f"{expression} *")
        except InvalidTriggerError:
            with pytest.raises((CronSimError, StopIteration)):
                next(CronSim(for_cronsim(expression), after))
            return
        expected = list(islice(CronSim(for_cronsim(expression), after), 3))
        assert fire_times(trigger, after, 3) == expected


class TestDifferences:
    """What ``for_cronsim`` rewrites, and what the functions below leave out."""

    @pytest.mark.parametrize(
        ("expression", "theirs", "ours"),
        [
            ("0 0 */10 * 1", "2024-10-21", "2024-09-02"),
            ("0 0 1 * */2", "2024-10-01", "2024-09-03"),
        ],
    )
    def test_cronsim_takes_a_step_over_days_for_no_restriction(
        self, expression: str, theirs: str, ours: str
    ) -> None:
        """To it, both day fields must match then; to us, one is enough."""
        after = datetime(2024, 9, 1, 12, tzinfo=UTC)
        assert cronsim_next(expression, after).date().isoformat() == theirs
        found = CronTrigger(expression).next_fire_time(after)
        assert found is not None
        assert found.date().isoformat() == ours

    def test_cronsim_takes_a_star_in_a_list_for_one_only_at_its_start(self) -> None:
        after = datetime(2024, 9, 1, 12, tzinfo=UTC)
        assert cronsim_next("0 0 13,* * 1", after) == after + 12 * HOUR
        assert CronTrigger("0 0 13,* * 5").next_fire_time(after) == datetime(
            2024, 9, 6, tzinfo=UTC
        )
        assert cronsim_next("0 0 13,* * 5", after) == datetime(2024, 9, 2, tzinfo=UTC)

    def test_cronsim_counts_steps_from_a_weekday_on_to_the_next_sunday(self) -> None:
        sunday = datetime(2024, 9, 1, tzinfo=UTC)
        saturday = sunday - DAY
        assert cronsim_next("0 0 * * 3/2", saturday) == sunday
        found = CronTrigger("0 0 * * 3/2").next_fire_time(saturday)
        assert found == sunday + 3 * DAY

    def test_cronsim_goes_on_from_a_range_of_one_number(self) -> None:
        after = datetime(2024, 9, 1, tzinfo=UTC)
        assert cronsim_next("9-9/20 * * * *", after + 10 * MINUTE).minute == 29
        found = CronTrigger("9-9/20 * * * *").next_fire_time(after + 10 * MINUTE)
        assert found == after + HOUR + 9 * MINUTE

    @pytest.mark.parametrize("expression", ["0 0 15W * *", "0 0 L-3 * *", "0 0 1W * *"])
    def test_cronsim_knows_no_nearest_weekday(self, expression: str) -> None:
        with pytest.raises(CronSimError, match="Bad day-of-month"):
            CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC))
        assert CronTrigger(expression).next_fire_time(datetime(2024, 1, 1, tzinfo=UTC))

    @pytest.mark.parametrize("day", ["FRIL", "friday", "FRIDAY#2"])
    def test_cronsim_knows_fewer_names(self, day: str) -> None:
        with pytest.raises(CronSimError, match="Bad day-of-week"):
            CronSim(f"0 0 * * {day}", datetime(2024, 1, 1, tzinfo=UTC))
        assert CronTrigger(f"0 0 * * {day}").describe()

    def test_cronsim_starts_anew_in_a_repeated_hour(self) -> None:
        """It answers a time that has passed; ``cronsim_next`` goes on from there."""
        zone = ZoneInfo("America/New_York")
        after = datetime(2024, 11, 3, 1, 10, tzinfo=zone, fold=1)
        first = next(CronSim("30 1 * * *", after)).astimezone(UTC)
        assert first < after
        found = CronTrigger("30 1 * * *", zone).next_fire_time(after)
        assert found == datetime(2024, 11, 4, 6, 30, tzinfo=UTC)
        assert found == cronsim_next("30 1 * * *", after)

    def test_cronsim_passes_over_the_end_of_an_hour_that_is_repeated(self) -> None:
        """As time elapses it goes by whole hours from where it is; see below."""
        zone = ZoneInfo("Pacific/Chatham")
        after = datetime(2024, 4, 7, 2, 46, tzinfo=zone)
        again = after.replace(fold=1).astimezone(UTC)
        assert again == after.astimezone(UTC) + HOUR
        expression = "*/23 0-2 * * *"
        assert CronTrigger(expression, zone).next_fire_time(after) == again
        passed = cronsim_next(expression, after)
        assert passed > again
        assert has_an_odd_change(expression, zone, after.astimezone(UTC), passed)

    def test_cronsim_takes_a_midnight_that_is_skipped_for_the_hour_0(self) -> None:
        zone = ZoneInfo("America/Santiago")
        after = datetime(2020, 9, 5, 12, tzinfo=zone)
        sunday = cronsim_next("* 0 * * 0", after)
        assert f"{sunday.astimezone(zone):%m-%d %H:%M}" == "09-06 01:00"
        found = CronTrigger("* 0 * * 0", zone).next_fire_time(after)
        assert found == datetime(2020, 9, 13, 0, tzinfo=zone)
        assert has_an_odd_change("* 0 * * 0", zone, after.astimezone(UTC), sunday)

    def test_cronsim_knows_no_gap_that_is_too_long(self) -> None:
        zone = ZoneInfo("Pacific/Apia")
        after = datetime(2011, 12, 29, 12, tzinfo=zone)
        expected = cronsim_next("0 12 * * *", after)
        assert expected == datetime(2011, 12, 31, 0, tzinfo=zone)
        found = CronTrigger("0 12 * * *", zone).next_fire_time(after)
        assert found == datetime(2011, 12, 31, 12, tzinfo=zone)
        assert has_an_odd_change("0 12 * * *", zone, after.astimezone(UTC), expected)


def for_cronsim(expression: str) -> str:
    """The same schedule in cronsim's words: plain lists of numbers.

    To cronsim a day field that begins with ``*`` is no restriction, also ``*/2``; a
    step counts on to Sunday as the seventh day; and ``9-9/2`` is ``9/2``. A ``*`` at
    the start of minute or hour stays: it decides what happens where the clocks change.
    """
    parts = expression.split()
    names = FIVE if len(parts) == 5 else ("second", *FIVE)
    return " ".join(map(_part_for_cronsim, parts, names))


def _part_for_cronsim(part: str, name: str) -> str:
    if part == "*":
        return part
    items = part.split(",")
    special = [each for each in items if set("LW#") & set(each.upper())]
    plain = ",".join(each for each in items if each not in special)
    listed = [*map(_special_for_cronsim, special)]
    if plain:
        listed += map(str, sorted(numbers(plain, name)))
    if part.startswith("*") and name in ("minute", "hour"):
        listed.insert(0, items[0])
    return ",".join(listed)


def _special_for_cronsim(item: str) -> str:
    """The last of a weekday needs its number."""
    name = item.upper().removesuffix("L")
    return f"{WEEKDAYS.index(name)}L" if name in WEEKDAYS else item.upper()


def has_a_nearest_weekday(expression: str) -> bool:
    """Whether it has what cronsim does not read: ``15W``, ``L-3``."""
    *_, day_of_month, _, _ = expression.split()
    items = day_of_month.split(",")
    return any(each not in ("L", "LW") and set("LW") & set(each) for each in items)


def has_an_odd_change(
    expression: str, zone: ZoneInfo, after: datetime, until: datetime
) -> bool:
    """Whether the clocks change in a way that cronsim does not follow.

    As time elapses, it moves by whole hours and to midnight, and so loses its way where
    a clock changes to or from the middle of an hour, by another time than an hour, or
    skips or repeats midnight. And it knows no gap that is too long.
    """
    *_, minute, hour, _, _, _ = expression.split()
    elapsed = "*" in (minute[0], hour[0])
    day = after - 2 * DAY
    while day < until + 2 * DAY:
        low, high = (each.astimezone(zone).utcoffset() for each in (day, day + DAY))
        assert low is not None
        assert high is not None
        if high - low >= timedelta(hours=3):
            return True
        if elapsed and low != high and _is_odd(day, zone):
            return True
        day += DAY
    return False


def _is_odd(day: datetime, zone: ZoneInfo) -> bool:
    """Whether the change within a day is not from and to a whole hour of the day."""
    minutes = [(day + n * MINUTE).astimezone(zone) for n in range(24 * 60 + 1)]
    for before, now in pairwise(minutes):
        if before.utcoffset() != now.utcoffset():
            shown = {before + MINUTE, now}
            moved = now.replace(tzinfo=None) - before.replace(tzinfo=None) - MINUTE
            return (
                abs(moved) != HOUR
                or any(each.minute for each in shown)
                or 0 in {each.hour for each in shown}
                or before.hour == 0
            )
    raise AssertionError("the offset changes within the day")


def cronsim_next(expression: str, after: datetime) -> datetime:
    """Its next time, past those of a repeated hour, which it begins anew."""
    times = (found.astimezone(UTC) for found in CronSim(expression, after))
    return next(found for found in times if found > after)


def test_the_zones_are_read_here_too() -> None:
    assert len(ZONES) > 300
    assert all(load_zone(name) for name in ZONES)
