"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import write_duration
from go_scheduler.http.configuration.durations import read_duration


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
    [
        "",
        "soon",
        "5 parsecs",
        "5m later",
        "-5m",
        "m",
        True,
        None,
        [],
        float("nan"),
        1e99,
    ],
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ConfigurationError, match="lease must be a number of seconds"):
        read_duration(written, "lease")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=400), "400d"),
        (timedelta(seconds=1, milliseconds=500), "1.5s"),
        (timedelta(milliseconds=20), "0.02s"),
    ],
)
def test_a_duration_is_written(length: timedelta, text: str) -> None:
    assert write_duration(length) == text


@given(st.timedeltas(timedelta(), timedelta(days=36_500)))
def test_what_is_written_is_read_as_the_same(length: timedelta) -> None:
    assert read_duration(write_duration(length)) == length
