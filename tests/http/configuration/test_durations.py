"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import write_duration
from go_scheduler.http.configuration.durations import read_duration

NAN = float("nan")


@pytest.mark.parametrize(
    ("written", "length"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        ("90", timedelta(seconds=90)),
        ("1.5", timedelta(seconds=1.5)),
        ("5m", timedelta(minutes=5)),
        (" 1h 30 min ", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
        ("1W", timedelta(weeks=1)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_duration_is_read(written: object, length: timedelta) -> None:
    assert read_duration(written) == length


@pytest.mark.parametrize(
    "written",
    ["", "soon", "5 parsecs", "5m later", "-5m", "m", True, None, [], NAN, 1e99],
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ConfigurationError, match="lease must be a number of seconds"):
        read_duration(written, "lease")


def test_a_duration_is_written_in_short() -> None:
    for seconds, text in (
        (0, "0s"),
        (5400, "1h30m"),
        (400 * 86_400, "400d"),
        (1.5, "1.5s"),
        (0.02, "0.02s"),
    ):
        assert write_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(), timedelta(days=36_500)))
def test_what_is_written_is_read_as_the_same(length: timedelta) -> None:
    assert read_duration(write_duration(length)) == length
