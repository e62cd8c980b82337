from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.triggers.wall import zones
from go_scheduler.triggers.wall.local_time import next_instant, period_at
from go_scheduler.triggers.wall.zones import load_zone
from tests.triggers.cron_oracle import CHANGES, DAY, HOUR, MICROSECOND, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable

ZONES = sorted({zone for zone, _ in CHANGES})
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


def only(*texts: str) -> Callable[[datetime], datetime | None]:
    """A search that finds these local times and no others."""
    times = sorted(map(local, texts))
    return lambda start: next((each for each in times if each >= start), None)


def daily(time: str) -> Callable[[datetime], datetime | None]:
    hour, minute = map(int, time.split(":"))

    def search(start: datetime) -> datetime | None:
        found = start.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return found if found >= start else found + DAY

    return search


class TestPeriods:
    @settings(max_examples=100, deadline=None)
    @given(
        zone=st.sampled_from(ZONES).map(ZoneInfo),
        instant=st.datetimes(timezones=st.just(UTC)),
    )
    def test_the_clock_keeps_its_offset_from_begin_to_end(
        self, zone: ZoneInfo, instant: datetime
    ) -> None:
        period = period_at(instant, zone)
        assert period.begin <= instant < period.end or instant == LAST
        if not FIRST + DAY < instant < LAST - DAY:
            return
        shown = instant.astimezone(zone).replace(tzinfo=None, fold=0)
        assert period.local(instant) == shown
        assert period.instant(shown) == instant
        assert period.opens <= shown <= period.closes

    @pytest.mark.parametrize("name", ZONES)
    def test_no_change_is_missed(self, name: str) -> None:
        zone = ZoneInfo(name)
        start = datetime(1938, 1, 1, tzinfo=UTC)
        halves = [start + n * DAY / 2 for n in range(2 * 366 * 10)]
        offsets = [each.astimezone(zone).utcoffset() for each in halves]
        for (low, high), (before, after) in zip(
            pairwise(halves), pairwise(offsets), strict=True
        ):
            same = period_at(low, zone).epoch == period_at(high, zone).epoch
            assert same == (before == after)

    def test_a_period_of_four_days_is_found(self) -> None:
        zone = ZoneInfo("Africa/Freetown")
        period = period_at(datetime(1939, 9, 3, tzinfo=UTC), zone)
        assert period.begin == datetime(1939, 9, 1, 1, tzinfo=UTC)
        assert period.end == datetime(1939, 9, 5, 0, 40, tzinfo=UTC)

    def test_local_times_around_a_gap_and_an_overlap(self) -> None:
        zone = ZoneInfo("America/New_York")
        summer = period_at(datetime(2024, 7, 1, tzinfo=UTC), zone)
        assert summer.begin == datetime(2024, 3, 10, 7, tzinfo=UTC)
        assert summer.end == datetime(2024, 11, 3, 6, tzinfo=UTC)
        assert summer.opens == summer.anew == local("2024-03-10T03:00")
        assert summer.repeats == summer.resumes == local("2024-11-03T01:00")
        assert summer.closes == local("2024-11-03T02:00")
        winter = period_at(summer.end, zone)
        assert winter.opens == local("2024-11-03T01:00")
        assert winter.anew == local("2024-11-03T02:00")
        assert winter.repeats == winter.closes == local("2025-03-09T02:00")
        assert winter.resumes == local("2025-03-09T03:00")

    @pytest.mark.parametrize(
        ("time", "skipped"), [("01:59", 0), ("02:00", 1), ("02:59", 1), ("03:00", 0)]
    )
    def test_a_gap_skips_the_times_within(self, time: str, skipped: bool) -> None:
        winter = period_at(datetime(2024, 1, 1, tzinfo=UTC), ZoneInfo("US/Eastern"))
        assert winter.skips(local(f"2024-03-10T{time}")) == skipped
        assert winter.skips_shortly(local(f"2024-03-10T{time}")) == skipped

    def test_a_move_of_the_date_line_skips_a_day_but_not_shortly(self) -> None:
        before = period_at(datetime(2011, 12, 1, tzinfo=UTC), ZoneInfo("Pacific/Apia"))
        assert before.skips(local("2011-12-30T12:00"))
        assert not before.skips_shortly(local("2011-12-30T12:00"))

    @pytest.mark.parametrize(
        "zone", [UTC, ZoneInfo("Asia/Tokyo"), ZoneInfo("Etc/GMT+12")]
    )
    def test_time_has_two_ends(self, zone: ZoneInfo) -> None:
        first, last = period_at(FIRST, zone), period_at(LAST, zone)
        assert first.begin == FIRST
        assert last.end == LAST
        assert first.local(FIRST) >= datetime.min  # noqa: DTZ901
        assert last.local(LAST) <= datetime.max  # noqa: DTZ901


class TestNextInstant:
    ZONE = ZoneInfo("America/New_York")

    @pytest.mark.parametrize(
        ("gap", "expected"),
        [("next", "2024-03-10T07:00"), ("skip", "2024-03-11T06:30")],
    )
    def test_a_time_that_does_not_exist(self, gap: str, expected: str) -> None:
        after = datetime(2024, 3, 10, 6, 59, tzinfo=UTC)
        found = next_instant(daily("02:30"), after, self.ZONE, gap=gap)
        assert found == local(expected).replace(tzinfo=UTC)

    @pytest.mark.parametrize(
        ("overlap", "expected"),
        [
            ("first", ["11-03T05:30", "11-04T06:30"]),
            ("second", ["11-03T06:30", "11-04T06:30"]),
            ("both", ["11-03T05:30", "11-03T06:30", "11-04T06:30"]),
        ],
    )
    def test_a_time_that_occurs_twice(self, overlap: str, expected: list[str]) -> None:
        after, found = datetime(2024, 11, 3, tzinfo=UTC), []
        for _ in expected:
            following = next_instant(daily("01:30"), after, self.ZONE, overlap=overlap)
            assert following is not None
            found.append(f"{following:%m-%dT%H:%M}")
            after = following
        assert found == expected

    @pytest.mark.parametrize("gap", ["next", "skip"])
    @pytest.mark.parametrize("overlap", ["first", "second", "both"])
    def test_what_follows_elapsed_time_has_no_choice(
        self, gap: str, overlap: str
    ) -> None:
        def found(time: str, after: datetime) -> datetime | None:
            return next_instant(
                daily(time), after, self.ZONE, elapsed=True, gap=gap, overlap=overlap
            )

        first = datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
        assert found("01:30", first - MINUTE) == first
        assert found("01:30", first) == first + HOUR
        skipped = datetime(2024, 3, 10, 6, tzinfo=UTC)
        assert found("02:30", skipped) == skipped + 24 * HOUR + 30 * MINUTE

    @pytest.mark.parametrize("overlap", ["both", "second"])
    def test_the_last_match_of_all_may_be_shown_again(self, overlap: str) -> None:
        """It is past when the clock is set back, and still to come."""
        search = only("2024-11-03T01:10")
        after = datetime(2024, 11, 3, 5, 40, tzinfo=UTC)
        found = next_instant(search, after, self.ZONE, overlap=overlap)
        assert found == datetime(2024, 11, 3, 6, 10, tzinfo=UTC)
        assert next_instant(search, found, self.ZONE, overlap=overlap) is None
        assert next_instant(search, after, self.ZONE, overlap="first") is None

    def test_a_match_centuries_away_takes_a_few_steps(self) -> None:
        asked = []

        def search(start: datetime) -> datetime | None:
            asked.append(start)
            return only("9000-07-01T12:00")(start)

        after = datetime(2024, 1, 1, tzinfo=UTC)
        found = next_instant(search, after, self.ZONE)
        assert found == datetime(9000, 7, 1, 16, tzinfo=UTC)
        assert len(asked) < 5

    def test_what_matches_in_gaps_alone_is_given_up(self) -> None:
        """Without a bound it would look at each year up to 9999."""
        asked = []

        def second_sunday_of_march(start: datetime) -> datetime | None:
            asked.append(start)
            for year in (start.year, start.year + 1):
                first = datetime(year, 3, 8, 2, 30)  # noqa: DTZ001
                found = first + (6 - first.weekday()) * DAY
                if found >= start:
                    return found
            return None

        after = datetime(2024, 1, 1, tzinfo=UTC)
        found = next_instant(second_sunday_of_march, after, self.ZONE)
        assert found == datetime(2024, 3, 10, 7, tzinfo=UTC)
        asked.clear()
        skip = next_instant(second_sunday_of_march, after, self.ZONE, gap="skip")
        assert skip is None
        assert len(asked) <= 200

    def test_local_times_begin_and_end(self) -> None:
        for zone in (UTC, ZoneInfo("Asia/Tokyo"), self.ZONE):
            assert next_instant(daily("12:00"), FIRST, zone) is not None
            assert next_instant(lambda _: None, FIRST, zone) is None
            assert next_instant(only("9999-12-31T23:59"), LAST, zone) is None
        late = only("9999-12-31T22:00")
        assert next_instant(late, LAST - 30 * DAY, self.ZONE) is None
        assert next_instant(late, LAST - 30 * DAY, UTC) == LAST.replace(
            hour=22, minute=0, second=0, microsecond=0
        )

    def test_any_aware_instant_will_do(self) -> None:
        after = datetime(2024, 6, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
        found = next_instant(daily("12:00"), after, self.ZONE)
        assert found == datetime(2024, 5, 31, 16, tzinfo=UTC)
        with pytest.raises(ConfigurationError, match="after has no time zone"):
            next_instant(daily("12:00"), after.replace(tzinfo=None), self.ZONE)

    @settings(max_examples=60, deadline=None)
    @given(
        data=st.data(),
        change=st.sampled_from(CHANGES),
        gap=st.sampled_from(["next", "skip"]),
        overlap=st.sampled_from(["first", "second", "both"]),
    )
    def test_no_match_is_passed_over_and_none_fires_early(
        self, data: st.DataObject, change: tuple[str, str], gap: str, overlap: str
    ) -> None:
        """Its fire times are in order, whatever local times match."""
        zone, at = ZoneInfo(change[0]), local(change[1]).replace(tzinfo=UTC)
        offset = at.astimezone(zone).utcoffset()
        assert offset is not None
        middle = at.replace(tzinfo=None) + offset
        minutes = st.integers(-36 * 60, 36 * 60).map(lambda n: middle + n * MINUTE)
        times = data.draw(st.lists(minutes, min_size=1, max_size=8, unique=True))
        search = only(*map(datetime.isoformat, times))
        after, fired = at - 4 * DAY, []
        while (
            found := next_instant(search, after, zone, gap=gap, overlap=overlap)
        ) is not None:
            assert found > after
            half = after + (found - after) / 2
            assert found == next_instant(search, half, zone, gap=gap, overlap=overlap)
            assert found == next_instant(
                search, found - MICROSECOND, zone, gap=gap, overlap=overlap
            )
            fired.append(after := found)
        assert len(fired) <= 2 * len(times)
        assert all(abs(each - at) < 4 * DAY for each in fired)


class TestZones:
    def test_utc_needs_no_time_zone_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_zone(key: str) -> ZoneInfo:
            raise zoneinfo.ZoneInfoNotFoundError(key)

        monkeypatch.setattr(zones, "_zones", {})
        monkeypatch.setattr(zones, "ZoneInfo", no_zone)
        assert load_zone("UTC") is UTC
        with pytest.raises(InvalidTriggerError, match="install tzdata"):
            load_zone("Europe/Berlin")

    def test_a_zone_is_loaded_once(self) -> None:
        assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")
