"""Cron fields by their names, as people of other schedulers type them."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import CronTrigger, dump_trigger, preview

Reference = import_module("apscheduler.triggers.cron").CronTrigger

NOW = datetime(2030, 5, 17, 13, 45, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({"hour": 9, "minute": 30, "day_of_week": "mon-fri"}, "30 9 * * mon-fri"),
        ({"hour": 9, "day_of_week": "mon-fri"}, "0 9 * * mon-fri"),
        ({"minute": "*/5"}, "*/5 * * * *"),
        ({"minute": 30}, "30 * * * *"),
        ({"hour": "9-17"}, "0 9-17 * * *"),
        ({"hour": "*"}, "0 * * * *"),
        ({"day": 1}, "0 0 1 * *"),
        ({"day": "L", "hour": 18}, "0 18 L * *"),
        ({"day": "*", "day_of_week": "mon"}, "0 0 * * MON"),
        ({"day": "1, 15"}, "0 0 1,15 * *"),
        ({"day_of_week": "sat - sun"}, "0 0 * * SAT-SUN"),
        ({"day_of_week": " fri#2 "}, "0 0 * * FRI#2"),
        ({"day_of_week": "mon-fri/2"}, "0 0 * * MON-FRI/2"),
        ({"month": "jan,jul"}, "0 0 1 JAN,JUL *"),
        ({"month": 6, "hour": 3}, "0 3 * 6 *"),
        ({"second": 0}, "* * * * *"),
        ({"second": "*/10"}, "*/10 * * * * * *"),
        ({"second": 15, "hour": 4}, "15 * 4 * * * *"),
        ({"year": 2031}, "0 0 0 1 1 * 2031"),
        ({"year": "2031-2033", "day_of_week": "tue"}, "0 0 0 * * TUE 2031-2033"),
    ],
)
def test_named_fields_are_an_expression(
    fields: dict[str, Any], expression: str
) -> None:
    named = CronTrigger(**fields)
    written = CronTrigger(expression)
    assert named == written
    assert hash(named) == hash(written)
    assert repr(named) == repr(written)
    assert dump_trigger(named) == dump_trigger(written)
    assert pickle.loads(pickle.dumps(named)) == written


@pytest.mark.parametrize(
    "fields",
    [
        {"hour": 9, "minute": 30, "day_of_week": "mon-fri"},
        {"minute": "*/20"},
        {"day": 1},
        {"month": 2},
        {"month": 6, "hour": 3},
        {"year": 2031},
        {"year": 2031, "minute": 59},
        {"day_of_week": "sat-sun"},
        {"day_of_week": "wed", "second": 7},
        {"second": "*/15"},
    ],
)
def test_what_is_not_given_is_what_it_is_in_apscheduler(fields: dict[str, Any]) -> None:
    reference = Reference(**fields, timezone=UTC)
    last = NOW
    for found in preview(CronTrigger(**fields), 20, NOW):
        expected = reference.get_next_fire_time(last, last)
        assert expected == found.at
        last = found.at


def test_zone_gap_and_overlap_go_with_named_fields() -> None:
    named = CronTrigger(
        hour=2, minute=30, timezone="Europe/Berlin", gap="skip", overlap="both"
    )
    assert named == CronTrigger(
        "30 2 * * *", "Europe/Berlin", gap="skip", overlap="both"
    )
    assert replace(named, timezone="UTC", gap="next", overlap="first") == CronTrigger(
        "30 2 * * *"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, 'needs an expression, such as "30 9 * * Mon-Fri", or fields, such as'),
        ({"expression": "0 9 * * *", "hour": 9}, "'0 9 * * *' and hour= say the same"),
        ({"hour": 24}, "hour 24 is not in 0–23"),
        ({"hour": True}, 'hour must be a number, or a text such as "1,2", not True'),
        ({"hour": 9.5}, "hour must be a number, or a text"),
        ({"day_of_week": ["mon"]}, 'such as "mon-fri", not'),
        ({"hour": ""}, "hour '' cannot be read"),
        ({"minute": "1 2"}, "minute '1 2' cannot be read; a list has commas"),
        ({"day": "2nd fri"}, 'the second friday is day_of_week="fri#2"'),
        ({"day_of_week": 0}, "day_of_week '0': write names"),
        ({"day_of_week": "0-4"}, "in cron 0 and 7 are Sunday, in other schedulers 0"),
        ({"day_of_week": "mon,5"}, "write names"),
        ({"day_of_week": "5#2"}, "write names"),
        ({"day_of_week": "5L"}, "write names"),
        ({"day": "1-7", "day_of_week": "mon"}, "day and day_of_week are both given"),
        ({"month": 2, "day": 30}, "it never fires"),
    ],
)
def test_what_is_no_field_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTriggerError, match=re.escape(problem)):
        CronTrigger(**given)


def test_what_replaces_a_field_is_told_that_there_is_an_expression() -> None:
    with pytest.raises(InvalidTriggerError, match="and hour= say the same"):
        replace(CronTrigger(hour=9), hour=10)  # type: ignore[call-arg]
