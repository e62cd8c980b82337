"""The log is the first listener, and has a line for what is to be read.

``tests/golden/events.txt`` has the level and the attributes of each line.
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
LOCKED = "another transaction has locked it"
OF = f"instance {TWO} of report: attempt 4"

# What is said of events of which not always the same is said, and of some others.
WRITTEN = [
    (
        events.DeclarationOutdated(owner="shop", version=6, stored=7),
        "INFO the set of shop was declared at version 7: what is declared at 6 changes"
        " nothing",
    ),
    (
        events.DeclarationOutdated(owner="shop", version=None, stored=7),
        "WARNING the set of shop was declared at version 7: what is declared without"
        " one changes nothing",
    ),
    (
        events.DefinitionSetAside(**OF_D, **RAISED, retry_in=SECOND),
        f"ERROR definition {ONE} cannot fire and is left alone for 1 s: {ERROR!r}",
    ),
    (
        SKIPPED,
        f"WARNING report: not run, 3 of its fire times from {NOON} to {NOON}: late",
    ),
    (
        replace(SKIPPED, name=None, late=False),
        f"INFO definition {ONE}: not run, 3 of its fire times from {NOON} to {NOON}:"
        " late",
    ),
    (
        replace(SKIPPED, added=True),
        f"WARNING report: not run, 3 that were added for {NOON} to {NOON}: late",
    ),
    (
        events.InstanceTakenOver(**OF_I),
        f"WARNING instance {TWO} of report: its last run came to no end, it runs again",
    ),
    (
        events.RunFailed(**AGAIN, error="no"),
        f"WARNING {OF} has failed and runs again in 0:00:01: no",
    ),
    (
        events.RunFailed(**AGAIN, error="no", worker="100%s"),
        f"WARNING {OF} on worker 100%s has failed and runs again in 0:00:01: no",
    ),
    (
        events.RunFailed(**OF_I | {"name": None}, runs=0, retry_in=None, error="no"),
        f"ERROR instance {TWO} of {ONE}: attempt 4 has failed for good: no",
    ),
    (
        events.RunFailed(**OF_I, runs=2, retry_in=None, error="no"),
        f"ERROR {OF} (run 2) has failed for good: no",
    ),
    (
        events.RunDeferred(**AGAIN, error="File x\nRetryAfter: not yet\n"),
        f"INFO {OF} asks to be run again in 0:00:01: RetryAfter: not yet",
    ),
    (
        events.RunDeferred(
            **AGAIN,
            error=describe_error(ExceptionGroup("all", [RetryAfter(SECOND, "not")])),
        ),
        f"INFO {OF} asks to be run again in 0:00:01: go_scheduler.run.RetryAfter: to be"
        " run again in 0:00:01: not",
    ),
    (
        events.InstanceGivenBack(**OF_I, reason="away", delay=SECOND, by_handler=True),
        f"INFO {OF} has not begun anything, counts as no run and is given back for"
        " 0:00:01: away",
    ),
    (
        events.RunLeftBehind(**OF_I, error="no"),
        f"WARNING {OF} was left behind, has failed and is given back: no",
    ),
    (events.BusBack(away=61 * SECOND), "INFO the bus answers again, after 61 s"),
    (
        NOT_RECORDED,
        f"WARNING a status of worker anna of instance {ONE}, attempt 2, is not"
        " recorded: no",
    ),
    (
        replace(NOT_RECORDED, instance_id=None, attempt=None, worker=None),
        "WARNING a status is not recorded: no",
    ),
    (
        events.RunTimedOut(**OF_I, timeout=SECOND, ended=True),
        f"WARNING instance {TWO}: attempt 4 has no result after its timeout, 0:00:01:"
        " it is told to end",
    ),
    (
        events.RunTimedOut(**OF_I, timeout=SECOND, ended=False),
        f"WARNING instance {TWO}: attempt 4 has no result after its timeout, 0:00:01:"
        " it cannot be ended, presumed hung",
    ),
    *(
        (
            events.InstanceLocked(**OF_I, write=events.Write(write)),
            f"WARNING instance {TWO}: {said}",
        )
        for write, said in (
            ("start", f"{LOCKED}, its start has to wait"),
            (
                "renewal",
                f"its claim is not renewed yet, {LOCKED}; it is tried again every"
                " second",
            ),
            (
                "end",
                f"its end is not recorded yet, {LOCKED}; it is tried again every"
                " second",
            ),
        )
    ),
    *(
        (
            events.InstanceUnrecorded(
                **OF_I, **RAISED, write=events.Write(write), retry_in=SECOND
            ),
            f"ERROR instance {TWO}: {said}: {ERROR!r}",
        )
        for write, said in (
            ("start", "its start cannot be recorded, it is tried again"),
            ("renewal", "its claim cannot be renewed, next try in 1 s"),
            ("end", "its end cannot be recorded, next try in 1 s"),
        )
    ),
    (
        events.ClaimAnswerLost(node=THREE, count=2),
        "WARNING the answer to a claim was lost: 2 instances are given back",
    ),
    (events.NodeStopped(node=THREE, clean=True), f"INFO node {THREE} has stopped"),
    (
        events.NodeStopped(node=THREE, clean=False),
        f"INFO node {THREE} has stopped and left work behind",
    ),
    *(
        (
            events.LoopFailed(**RAISED, loop="keeper", failures=failures),
            f"{level} the keeper failed and will try again: {ERROR!r}",
        )
        for failures, level in ((1, "WARNING"), (2, "DEBUG"))
    ),
    (
        events.ExecutorFailed(**RAISED),
        f"ERROR the executor takes no more handlers: {ERROR!r}",
    ),
    (
        events.ObjectiveBroken(node=ONE, objective=SECOND / 4, runs=200, late=3),
        "WARNING 3 of the last minute's 200 runs are more than 0.25 s late",
    ),
    (
        events.ObjectiveMet(node=ONE, objective=SECOND, after=61 * SECOND),
        "INFO runs are at most 1 s late again, after 61 s",
    ),
    (events.NoticeGiven(text="so it is", definition_id=ONE), "WARNING so it is"),
    (events.NoticeGiven(text="100%s", is_warning=False), "INFO 100%s"),
    (ALLOWED, "INFO ann from 10.0.0.7: POST /v1/definitions was answered by 201"),
    (
        REFUSED,
        "INFO somebody from nowhere: GET /v1/nodes was refused by 401: the key has"
        " expired",
    ),
]


@pytest.fixture(autouse=True)
def _everything_is_captured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize(
    ("event", "line"), WRITTEN, ids=[type(each).__name__ for each, _ in WRITTEN]
)
def test_what_is_to_be_read_is_written(
    event: events.Event, line: str, caplog: pytest.LogCaptureFixture
) -> None:
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


KINDS = [
    each
    for each in vars(events).values()
    if isinstance(each, type) and issubclass(each, events.Event)
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_line_has_a_place_for_what_its_event_says(
    kind: type[events.Event], caplog: pytest.LogCaptureFixture
) -> None:
    values = {
        "datetime": NOON,
        "timedelta": SECOND,
        "UUID": ONE,
        "bool": True,
        "int": 7,
        "BaseException": ERROR,
        "Write": events.Write.END,
    }
    given: Any = {
        each.name: values.get(str(each.type).partition(" |")[0], "text")
        for each in fields(kind)
    }
    LOG_ALONE.teller("room").tell(kind(**given))
    assert all(each.getMessage() for each in caplog.records)


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
