"""The log is the first listener, and has a line for what is to be read.

``tests/golden/events.txt`` has the level and the attributes of each line. It is made of
the lines of all events, with all that their fields may have.
"""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from go_scheduler import RetryAfter, events
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events.event_bus import LOG_ALONE
from go_scheduler.running.calling.error_text import describe_error
from tests.case_tables import table

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ERROR = ValueError("no")
OF_D: Any = {"definition_id": ONE, "name": "report", "queue": "default"}
OF_I: Any = {**OF_D, "instance_id": TWO, "attempt": 4}
RAISED: Any = {"error": "no", "exception": ERROR}
AGAIN: Any = {**OF_I, "retry_in": SECOND, "runs": 4}
SKIPPED = events.InstanceSkipped(**OF_D, first=NOON, last=NOON, count=3, reason="late")
ALLOWED = events.RequestAllowed(
    subject="ann",
    address="10.0.0.7",
    method="POST",
    path="/v1/definitions",
    scopes=("jobs:write",),
    status=201,
)
REFUSED = events.RequestRefused(
    subject=None,
    address=None,
    method="GET",
    path="/v1/nodes",
    scopes=(),
    status=401,
    reason="the key has expired",
)
NOT_RECORDED = events.StatusRefused(
    instance_id=ONE, attempt=2, worker="anna", reason="no"
)
WRITES = [events.Write(each) for each in ("start", "renewal", "end")]

# Events of which not always the same is said, and some others; a table has their lines.
EVENTS = [
    events.DeclarationOutdated(owner="shop", version=6, stored=7),
    events.DeclarationOutdated(owner="shop", version=None, stored=7),
    events.DefinitionSetAside(**OF_D, **RAISED, retry_in=SECOND),
    SKIPPED,
    replace(SKIPPED, name=None, late=False),
    replace(SKIPPED, added=True),
    events.InstanceTakenOver(**OF_I),
    events.RunFailed(**AGAIN, error="no"),
    events.RunFailed(**AGAIN, error="no", worker="100%s"),
    events.RunFailed(**OF_I | {"name": None}, runs=0, retry_in=None, error="no"),
    events.RunFailed(**OF_I, runs=2, retry_in=None, error="no"),
    events.RunDeferred(**AGAIN, error="File x\nRetryAfter: not yet\n"),
    events.RunDeferred(
        **AGAIN,
        error=describe_error(ExceptionGroup("all", [RetryAfter(SECOND, "not")])),
    ),
    events.InstanceGivenBack(**OF_I, reason="away", delay=SECOND, by_handler=True),
    events.RunLeftBehind(**OF_I, error="no"),
    events.BusBack(away=61 * SECOND),
    NOT_RECORDED,
    replace(NOT_RECORDED, instance_id=None, attempt=None, worker=None),
    events.RunTimedOut(**OF_I, timeout=SECOND, ended=True),
    events.RunTimedOut(**OF_I, timeout=SECOND, ended=False),
    *(events.InstanceLocked(**OF_I, write=each) for each in WRITES),
    *(
        events.InstanceUnrecorded(**OF_I, **RAISED, write=each, retry_in=SECOND)
        for each in WRITES
    ),
    events.ClaimAnswerLost(node=THREE, count=2),
    events.NodeStopped(node=THREE, clean=True),
    events.NodeStopped(node=THREE, clean=False),
    *(events.LoopFailed(**RAISED, loop="keeper", failures=each) for each in (1, 2)),
    events.ExecutorFailed(**RAISED),
    events.ObjectiveBroken(node=ONE, objective=SECOND / 4, runs=200, late=3),
    events.ObjectiveMet(node=ONE, objective=SECOND, after=61 * SECOND),
    events.NoticeGiven(text="so it is", definition_id=ONE),
    events.NoticeGiven(text="100%s", is_warning=False),
    ALLOWED,
    REFUSED,
]


@pytest.fixture(autouse=True)
def _everything_is_captured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize(
    ("event", "kind", "line"),
    [(event, *row) for event, row in zip(EVENTS, table("events/lines"), strict=True)],
)
def test_what_is_to_be_read_is_written(
    event: events.Event, kind: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert type(event).__name__ == kind
    LOG_ALONE.teller("room").tell(event)
    [record] = caplog.records
    assert f"{record.levelname} {record.getMessage()}" == line
    assert record.name == "go_scheduler.room"
    of = {each.name: getattr(event, each.name) for each in fields(event)}
    for name in ("definition_id", "instance_id", "node", "address"):
        if of.get(name) is not None:
            assert record.__dict__[name] == str(of[name])
    for name in ("attempt", "failures", "status"):
        if of.get(name) is not None:
            assert record.__dict__[name] == of[name]
    traced = "exception" in of and not isinstance(event, events.ExecutorFailed)
    assert (record.exc_info is not None) == traced


@pytest.mark.parametrize(
    "event",
    [
        events.InstanceGivenBack(**OF_I, reason="late", delay=SECOND),
        events.InstanceGivenBack(
            **OF_I, reason="away", delay=SECOND, by_handler=True, again=True
        ),
        replace(ALLOWED, method="GET", scopes=("jobs:read",)),
        replace(ALLOWED, scopes=("workers",)),
    ],
)
def test_of_what_comes_by_the_thousand_nothing_is_written(
    event: events.Event, caplog: pytest.LogCaptureFixture
) -> None:
    LOG_ALONE.teller("room").tell(event)
    assert caplog.records == []


def test_a_teller_that_is_bounded_writes_five_lines_from_one_begin_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    teller = LOG_ALONE.teller("room", bounded=True)
    for _ in range(7):
        teller.tell(events.ExecutorRecovered())
    for _ in range(2):
        teller.begin()
    assert len(caplog.records) == 6
    assert caplog.messages[5] == "2 more such lines were left out"


def test_of_a_store_that_is_away_the_traceback_is_for_who_asks_for_all_there_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = StoreUnavailableError("server closed the connection unexpectedly")
    event = events.LoopFailed(loop="keeper", failures=1, error="no", exception=away)
    for level in (logging.INFO, logging.DEBUG):
        caplog.set_level(level)
        LOG_ALONE.teller("room").tell(event)
    LOG_ALONE.teller("room").tell(replace(event, exception=StoreError("no table")))
    assert [bool(each.exc_info) for each in caplog.records] == [False, True, True]
    assert caplog.messages[0] == caplog.messages[1]


def test_events_are_values() -> None:
    lost = events.InstanceLost(**OF_I)
    assert {lost, events.InstanceLost(**OF_I)} == {lost}
    with pytest.raises(AttributeError):
        lost.attempt = 5  # type: ignore[misc]
