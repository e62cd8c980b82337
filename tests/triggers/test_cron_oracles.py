"""Two libraries read and answer cron expressions as we do, or a test says how not.

cronsim keeps Debian's rules too. croniter reads plain fields as we do: lists of
numbers, names, ranges and steps.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from tests.case_tables import table
from tests.triggers.cron_oracle import (
    BOUNDS,
    FIVE,
    WEEKDAYS,
    expressions,
    fire_times,
    near_changes,
    numbers,
)

# Their clocks change by an hour at a whole hour that is not midnight; how cronsim reads
# other changes, a test below says.
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Europe/London"]
INSTANTS = st.datetimes(
    datetime(1975, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
    datetime(2037, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
PLACES = st.one_of(
    near_changes().filter(lambda place: place[0].key in ZONES),
    st.tuples(st.sampled_from(ZONES).map(ZoneInfo), INSTANTS),
)


@settings(max_examples=50, deadline=None)
@given(expression=expressions(), place=PLACES)
def test_it_agrees_with_cronsim(
    expression: str, place: tuple[ZoneInfo, datetime]
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
        assert trigger.next_fire_time(after) == expected
        after = expected


@settings(max_examples=40, deadline=None)
@given(expression=expressions(("second", *FIVE)), after=INSTANTS)
def test_it_agrees_with_cronsim_on_seconds(expression: str, after: datetime) -> None:
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
    """What ``for_cronsim`` rewrites, and what the zones above leave out."""

    @pytest.mark.parametrize(
        ("expression", "zone", "after", "theirs", "ours"),
        table("triggers/cronsim_differs"),
    )
    def test_cronsim_fires_at_another_time(
        self, expression: str, zone: str, after: str, theirs: str, ours: str
    ) -> None:
        place = ZoneInfo(zone)
        start = datetime.fromisoformat(after).replace(tzinfo=place)
        expected = cronsim_next(expression, start)
        found = CronTrigger(expression, zone).next_fire_time(start)
        assert found is not None
        shown = [f"{each.astimezone(place):%m-%d %H:%M}" for each in (expected, found)]
        assert shown == [theirs, ours]

    @pytest.mark.parametrize(
        "expression",
        [
            *("0 0 15W * *", "0 0 L-3 * *", "0 0 1W * *"),
            *("0 0 * * FRIL", "0 0 * * friday", "0 0 * * FRIDAY#2"),
        ],
    )
    def test_cronsim_knows_fewer_days(self, expression: str) -> None:
        with pytest.raises(CronSimError, match="Bad day-of"):
            CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC))
        assert CronTrigger(expression).next_fire_time(datetime(2024, 1, 1, tzinfo=UTC))

    def test_cronsim_starts_anew_in_a_repeated_hour(self) -> None:
        """It answers a time that has passed; ``cronsim_next`` goes on from there."""
        zone = ZoneInfo("America/New_York")
        after = datetime(2024, 11, 3, 1, 10, tzinfo=zone, fold=1)
        first = next(CronSim("30 1 * * *", after)).astimezone(UTC)
        assert first < after
        found = CronTrigger("30 1 * * *", zone).next_fire_time(after)
        assert found == datetime(2024, 11, 4, 6, 30, tzinfo=UTC)
        assert found == cronsim_next("30 1 * * *", after)


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


def cronsim_next(expression: str, after: datetime) -> datetime:
    """Its next time, past those of a repeated hour, which it begins anew."""
    times = (found.astimezone(UTC) for found in CronSim(expression, after))
    return next(found for found in times if found > after)


# Left out is what croniter reads otherwise: ranges of one number, steps from a number,
# and, until its version 7, */1 among the days of the week.


@st.composite
def items(draw: st.DrawFn, name: str) -> str:
    low, high = BOUNDS[name]
    first = draw(st.integers(low, high - 1))
    last = draw(st.integers(first + 1, high))
    step = draw(st.integers(2, high - low))
    names = WEEKDAYS if name == "day-of-week" else [str(first)]
    return draw(
        st.sampled_from(
            [
                str(first),
                names[first % len(names)],
                f"{first}-{last}",
                f"{first}-{last}/{step}",
                f"*/{step}",
            ]
        )
    )


@st.composite
def plain_expressions(draw: st.DrawFn) -> str:
    fields = [
        draw(st.just("*") | st.lists(items(name), min_size=1, max_size=3).map(",".join))
        for name in FIVE
    ]
    return " ".join(fields)


@settings(max_examples=50, deadline=None)
@given(
    expression=plain_expressions(),
    after=INSTANTS,
)
def test_it_agrees_with_croniter_where_clocks_do_not_change(
    expression: str, after: datetime
) -> None:
    *others, _ = expression.split()
    expression = " ".join([*others, "*"])
    try:
        trigger = CronTrigger(expression)
    except InvalidTriggerError:
        assume(False)  # there is no such date
    theirs = croniter(expression, after, max_years_between_matches=100)
    expected = [theirs.get_next(datetime) for _ in range(3)]
    assert fire_times(trigger, after, 3) == expected
