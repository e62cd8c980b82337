"""croniter reads plain fields as we do: lists of numbers, names, ranges and steps."""

from __future__ import annotations

from datetime import UTC, datetime

from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from tests.triggers.cron_oracle import BOUNDS, FIVE, WEEKDAYS, fire_times

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
    after=st.datetimes(
        datetime(1975, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
        datetime(2037, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
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
