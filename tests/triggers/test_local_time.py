from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import zones
from go_scheduler.triggers.local_time import (
    next_instant,
    period_at,
    zone_changes,
)
from go_scheduler.triggers.zones import load_zone
from tests.triggers.cron_oracle import CHANGES, DAY, MICROSECOND

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

    @pytest.mark.parametrize(
        ("zone", "within", "begin", "end", "clock"),
        [
            (
                *("Africa/Freetown", "1939-09-03", "1939-09-01 01:00"),
                *("1939-09-05 00:40", "00:20 00:20 23:40 00:00 23:40"),
            ),
            (
                *("America/New_York", "2024-07-01", "2024-03-10 07:00"),
                *("2024-11-03 06:00", "03:00 03:00 01:00 02:00 01:00"),
            ),
            (
                *("America/New_York", "2024-12-01", "2024-11-03 06:00"),
                *("2025-03-09 07:00", "01:00 02:00 02:00 02:00 03:00"),
            ),
        ],
    )
    def test_what_the_clock_shows_at_its_ends(
        self, zone: str, within: str, begin: str, end: str, clock: str
    ) -> None:
        instant = datetime.fromisoformat(within).replace(tzinfo=UTC)
        period = period_at(instant, ZoneInfo(zone))
        assert f"{period.begin:%Y-%m-%d %H:%M}" == begin
        assert f"{period.end:%Y-%m-%d %H:%M}" == end
        shown = (
            *(period.opens, period.anew),
            *(period.repeats, period.closes, period.resumes),
        )
        assert " ".join(f"{each:%H:%M}" for each in shown) == clock

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


def test_changes_are_told_in_words() -> None:
    start, end = (
        datetime(2024, 3, 10, 7, tzinfo=UTC),
        datetime(2025, 3, 9, 7, tzinfo=UTC),
    )
    found = zone_changes("America/New_York", start - MICROSECOND, end)
    assert [text for _, text in found] == [
        "clocks in America/New_York go forward by 60 min, to 03:00",
        "clocks in America/New_York go back by 60 min, to 01:00",
        "clocks in America/New_York go forward by 60 min, to 03:00",
    ]
    assert [found[0][0], found[-1][0]] == [start, end]
    assert zone_changes("America/New_York", start, end) == found[1:]
    assert zone_changes("UTC", start, end) == []


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
