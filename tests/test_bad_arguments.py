"""Whatever is passed as an argument, the refusal is ours, and short.

What is passed may fail to show itself, hold numbers that cannot be written, be nested
deeper than Python can follow, or be megabytes long.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import TypeAlias
from uuid import uuid4

import pytest

import go_scheduler
from go_scheduler import HandlerRegistry, MemoryStore, TaskDefinition, triggers
from go_scheduler.client import Client
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.formatting import LONGEST_SHOWN, shown
from go_scheduler.run import Run
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from go_scheduler.stores import open_store
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.schema import schema_sql
from go_scheduler.stores.sqlite.store import SQLiteStore
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, HOURLY
from go_scheduler.testing.clock import START
from go_scheduler.triggers import DateCalendar, register_calendar
from tests.conftest import instance

Call: TypeAlias = Callable[..., object]


class Unshowable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class UnshowableText(str):
    __slots__ = ()
    __repr__ = Unshowable.__repr__


class UnshowableTime(timedelta):
    __repr__ = Unshowable.__repr__


class Talkative:
    def __repr__(self) -> str:
        return "x" * 10_000_000


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


ODD: Mapping[str, object] = {
    "deep": nested(5000),
    "long number": 10**5000,
    "long negative": -(10**5000),
    "long number within": {"a": 10**5000},
    "unshowable": Unshowable(),
    "unshowable within": [Unshowable()],
    "unshowable key": {Unshowable(): 1},
    "unshowable text": UnshowableText("é?"),
    "unshowable text within": {UnshowableText("a"): float("nan")},
    "unshowable time": UnshowableTime(-1),
    "talkative": Talkative(),
    "talkative within": {"a": Talkative()},
    "long text": "é" * 1_000_000,
    "long bytes": b"x" * 1_000_000,
    "many": [0] * 100_000,
}

HANDLERS = HandlerRegistry()
NO_SERVER = "postgresql://user@127.0.0.1:1/database"
CLIENT = Client(MemoryStore(ManualClock()))
KEPT = CLIENT.schedule(TaskDefinition(trigger=HOURLY))


def public(name: str) -> Call:
    package = triggers if name in triggers.__all__ else go_scheduler
    found: Call = getattr(package, name)
    return found


# Of what the package itself or that of triggers has by this name.
PUBLIC: Mapping[str, Mapping[str, object]] = {
    "TaskDefinition": {"trigger": HOURLY},
    "RetryPolicy": {},
    "CatchUp": {},
    "Scheduler": {"handler": None},
    "ExecuteOnceTrigger": {"fire_at": START},
    "IntervalTrigger": {"every": HOUR},
    "DelayTrigger": {"every": HOUR},
    "CronTrigger": {"expression": "* * * * *"},
    "RecurrenceTrigger": {"rule": "FREQ=DAILY", "start": START},
    "AnyOfTrigger": {"triggers": [HOURLY]},
    "AllOfTrigger": {"triggers": [HOURLY]},
    "ExceptTrigger": {"trigger": HOURLY, "exceptions": [HOURLY]},
    "OnlyTrigger": {"trigger": HOURLY, "calendars": "odd"},
    "LimitedTrigger": {"trigger": HOURLY, "limit": 1},
    "DateCalendar": {"days": [date(2030, 1, 1)]},
    "BusinessDays": {},
    "RuleCalendar": {"rule": "FREQ=DAILY", "start": date(2030, 1, 1)},
    "read_ical": {"source": "BEGIN:VCALENDAR\nEND:VCALENDAR"},
    "register_calendar": {"name": "odd", "calendar": DateCalendar([])},
    "parse_phrase": {"text": "every day at 9:00"},
    "preview": {"trigger": HOURLY, "n": 1, "after": START},
    "explain": {"trigger": HOURLY, "after": START},
}
OTHERS: dict[str, tuple[Call, Mapping[str, object]]] = {
    "id_for": (TaskDefinition.id_for, {"key": "a"}),
    "next_fire_time": (HOURLY.next_fire_time, {"after": START}),
    "register": (HANDLERS.register, {"name": "name"}),
    "registered": (HANDLERS.register("other"), {"handler": print}),
    "schedule": (CLIENT.schedule, {"definition": KEPT}),
    "get_definition": (CLIENT.get_definition, {"definition_id": KEPT.id}),
    "list_definitions": (CLIENT.list_definitions, {}),
    "delete_definition": (CLIENT.delete_definition, {"definition_id": uuid4()}),
    "delete_definitions": (CLIENT.delete_definitions, {"ids": [uuid4()]}),
    "pause": (CLIENT.pause, {"definition_id": KEPT.id}),
    "resume": (CLIENT.resume, {"definition_id": KEPT.id}),
    "get_instance": (CLIENT.get_instance, {"instance_id": uuid4()}),
    "list_instances": (CLIENT.list_instances, {}),
    "cancel": (CLIENT.cancel, {"instance_id": uuid4()}),
    "extend": (
        Run(HeldRun(instance(), Defaults())).extend,
        {"by": HOUR},
    ),
    "open_store": (open_store, {"url": "memory://"}),
    "PostgreSQLStore": (PostgreSQLStore, {"url": NO_SERVER}),
    "CockroachDBStore": (
        CockroachDBStore,
        {"url": NO_SERVER.replace("postgresql", "cockroachdb")},
    ),
    "SQLiteStore": (SQLiteStore, {"url": "sqlite:///no such folder/file.db"}),
    "schema_sql": (schema_sql, {"dialect": "postgresql"}),
    "advance": (ManualClock().advance, {"delta": HOUR}),
    "ManualClock": (ManualClock, {}),
}
CALLS = {name: (public(name), given) for name, given in PUBLIC.items()} | OTHERS


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name, (call, _) in CALLS.items()
        for parameter in inspect.signature(call).parameters
    ],
)
def test_the_refusal_of_an_argument_is_ours_and_short(
    name: str, parameter: str
) -> None:
    register_calendar("odd", DateCalendar([date(2030, 1, 1)]))
    call, arguments = CALLS[name]
    for value in ODD.values():
        refusal = refused(call, {**arguments, parameter: value})
        assert len(refusal) < 3 * LONGEST_SHOWN


def refused(call: Call, arguments: Mapping[str, object]) -> str:
    """What the call says, if it refuses anything."""
    try:
        call(**arguments)
    except ConfigurationError as error:
        return str(error)
    except (TaskDefinitionNotFoundError, TaskInstanceNotFoundError):
        pass
    return ""


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_anything_is_shown_and_shortened(value: object) -> None:
    assert 0 < len(shown(value)) <= LONGEST_SHOWN


def test_what_cannot_be_shown_is_shown_by_its_type() -> None:
    assert shown(10**5000) == "<int>"
    assert shown({"a": 10**5000, "b": 1}) == "{'a': <int>, 'b': 1}"
    assert shown([1, UnshowableText("a")]).startswith("[1, <UnshowableText instance")
    assert shown("short") == "'short'"
