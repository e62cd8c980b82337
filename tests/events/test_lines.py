"""The log is the first listener, and has a line for what is to be read."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler import RetryAfter, events
from go_scheduler.events import (
    BusAway,
    BusBack,
    Change,
    ClaimAnswerLost,
    CompletedRunFailed,
    DeclarationOutdated,
    DefinitionChanged,
    DefinitionCompleted,
    DefinitionDeleted,
    DefinitionLocked,
    DefinitionScheduled,
    DefinitionSetAside,
    DefinitionsMoved,
    Event,
    ExecutorFailed,
    ExecutorRecovered,
    InstanceAdded,
    InstanceCancelRequested,
    InstanceClaimed,
    InstanceCreated,
    InstanceDropped,
    InstanceFinished,
    InstanceGivenBack,
    InstanceHandedOn,
    InstanceLapsed,
    InstanceLocked,
    InstanceLost,
    InstanceParked,
    InstanceReopened,
    InstanceReplaced,
    InstanceRetried,
    InstancesBackfilled,
    InstanceSkipped,
    InstanceStarted,
    InstanceTakenOver,
    InstanceUnparked,
    InstanceUnrecorded,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    ObjectiveBroken,
    ObjectiveMet,
    QueueUnserved,
    RequestAllowed,
    RequestRefused,
    ResultDiscarded,
    ResultLost,
    RunDeferred,
    RunEnded,
    RunFailed,
    RunHung,
    RunLeftBehind,
    RunTimedOut,
    StatusRefused,
    StoreAway,
    StoreBack,
    TriggerFailed,
    Write,
)
from go_scheduler.events.event_bus import LOG_ALONE
from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap
from go_scheduler.running.calling.error_text import describe_error

if TYPE_CHECKING:
    from go_scheduler.events.event import DefinitionIds, InstanceIds

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ERROR = ValueError("no")
OF_D: DefinitionIds = {
    "definition_id": ONE,
    "name": "report",
    "queue": "default",
}
OF_I: InstanceIds = {
    "instance_id": TWO,
    "attempt": 4,
    "definition_id": ONE,
    "name": "report",
    "queue": "default",
}

WRITE = RequestAllowed(
    subject="ann",
    address="10.0.0.7",
    method="POST",
    path="/v1/definitions",
    scopes=("jobs:write",),
    status=201,
)
REFUSAL = RequestRefused(
    subject=None,
    address=None,
    method="GET",
    path="/v1/nodes",
    scopes=(),
    status=401,
    reason="the key has expired",
)

WRITTEN = [
    (
        DeclarationOutdated(owner="shop", version=6, stored=7),
        "INFO the set of shop was declared at version 7: what is declared at 6 changes"
        " nothing",
    ),
    (
        DeclarationOutdated(owner="shop", version=None, stored=7),
        "WARNING the set of shop was declared at version 7: what is declared without"
        " one changes nothing",
    ),
    (
        DefinitionLocked(**OF_D),
        f"WARNING definition {ONE}: another transaction has locked it, its firing has"
        " to wait",
    ),
    (
        DefinitionSetAside(**OF_D, retry_in=SECOND, error="no", exception=ERROR),
        f"ERROR definition {ONE} cannot fire and is left alone for 1 s: {ERROR!r}",
    ),
    (
        TriggerFailed(**OF_D, error="no", exception=ERROR),
        f"ERROR definition {ONE}: its trigger failed, it fires again in a minute:"
        f" {ERROR!r}",
    ),
    (
        DefinitionsMoved(count=3),
        "INFO 3 definitions fire at other instants, by the present data of their time"
        " zones",
    ),
    (
        InstancesBackfilled(
            **OF_D,
            first=NOON,
            last=NOON,
            count=3,
            overlap=Overlap.ALLOW,
            joined=False,
        ),
        f"INFO report: 3 of its fire times from {NOON} to {NOON} are run after all, by"
        " hand",
    ),
    (
        InstanceSkipped(**OF_D, first=NOON, last=NOON, count=3, reason="late"),
        f"WARNING report: not run, 3 of its fire times from {NOON} to {NOON}: late",
    ),
    (
        InstanceSkipped(
            **(OF_D | {"name": None}), first=NOON, last=NOON, count=1, reason="late"
        ),
        f"WARNING definition {ONE}: not run, 1 of its fire times from {NOON} to {NOON}:"
        " late",
    ),
    (
        InstanceSkipped(
            **OF_D, first=NOON, last=NOON, count=1, reason="another ran", late=False
        ),
        f"INFO report: not run, 1 of its fire times from {NOON} to {NOON}: another ran",
    ),
    (
        InstanceSkipped(
            **OF_D,
            first=NOON,
            last=NOON,
            count=3,
            reason="full",
            late=False,
            added=True,
        ),
        f"INFO report: not run, 3 that were added for {NOON} to {NOON}: full",
    ),
    (
        InstanceDropped(
            **OF_I, fire_time=NOON, execute_at=NOON, late=SECOND, reason="late"
        ),
        f"WARNING instance {TWO} of report is not run: late",
    ),
    (
        InstanceTakenOver(**OF_I),
        f"WARNING instance {TWO} of report: its last run came to no end, it runs again",
    ),
    (
        RunFailed(**OF_I, runs=4, retry_in=SECOND, error="no"),
        f"WARNING instance {TWO} of report: attempt 4 has failed and runs again in"
        " 0:00:01: no",
    ),
    (
        RunFailed(**OF_I, runs=4, retry_in=SECOND, error="no", worker="anna"),
        f"WARNING instance {TWO} of report: attempt 4 on worker anna has failed and"
        " runs again in 0:00:01: no",
    ),
    (
        RunFailed(**(OF_I | {"name": None}), runs=0, retry_in=None, error="no"),
        f"ERROR instance {TWO} of {ONE}: attempt 4 has failed for good: no",
    ),
    (
        RunFailed(**OF_I, runs=2, retry_in=None, error="no"),
        f"ERROR instance {TWO} of report: attempt 4 (run 2) has failed for good: no",
    ),
    (
        RunDeferred(
            **OF_I, runs=4, retry_in=SECOND, error="File x\nRetryAfter: not yet\n"
        ),
        f"INFO instance {TWO} of report: attempt 4 asks to be run again in 0:00:01:"
        " RetryAfter: not yet",
    ),
    (
        RunDeferred(
            **OF_I,
            runs=4,
            retry_in=SECOND,
            error=describe_error(ExceptionGroup("all", [RetryAfter(SECOND, "not")])),
        ),
        f"INFO instance {TWO} of report: attempt 4 asks to be run again in 0:00:01:"
        " go_scheduler.run.RetryAfter: to be run again in 0:00:01: not",
    ),
    (
        InstanceGivenBack(**OF_I, reason="away", delay=SECOND, by_handler=True),
        f"INFO instance {TWO} of report: attempt 4 has not begun anything, counts as no"
        " run and is given back for 0:00:01: away",
    ),
    (
        RunLeftBehind(**OF_I, error="no"),
        f"WARNING instance {TWO} of report: attempt 4 was left behind, has failed and"
        " is given back: no",
    ),
    (
        RunHung(**OF_I, allowed=SECOND),
        f"WARNING instance {TWO}: attempt 4 has no result in time, presumed hung",
    ),
    (BusAway(), "WARNING the bus cannot be reached: what is to run over it waits"),
    (BusBack(away=61 * SECOND), "INFO the bus answers again, after 61 s"),
    (
        StatusRefused(instance_id=ONE, attempt=2, worker="anna", reason="no"),
        f"WARNING a status of worker anna of instance {ONE}, attempt 2, is not"
        " recorded: no",
    ),
    (
        StatusRefused(instance_id=None, attempt=None, worker=None, reason="no"),
        "WARNING a status is not recorded: no",
    ),
    (
        RunTimedOut(**OF_I, timeout=SECOND, ended=True),
        f"WARNING instance {TWO}: attempt 4 has no result after its timeout, 0:00:01:"
        " it is told to end",
    ),
    (
        RunTimedOut(**OF_I, timeout=SECOND, ended=False),
        f"WARNING instance {TWO}: attempt 4 has no result after its timeout, 0:00:01:"
        " it cannot be ended, presumed hung",
    ),
    (
        InstanceLapsed(**OF_I),
        f"WARNING instance {TWO}: attempt 4 is not called, too little is left of its"
        " claim",
    ),
    (
        InstanceLost(**OF_I),
        f"WARNING instance {TWO}: attempt 4 has lost its claim",
    ),
    (
        InstanceReplaced(**OF_I),
        f"INFO instance {TWO} of report is to stop: a later one takes its place",
    ),
    (
        CompletedRunFailed(**OF_I, error="no"),
        f"ERROR instance {TWO}: attempt 4 is completed, but failed afterwards: no",
    ),
    (
        ResultDiscarded(**OF_I),
        f"WARNING instance {TWO}: the result of attempt 4 is discarded, its claim is"
        " lost",
    ),
    (
        ResultLost(**OF_I, error="no", exception=ERROR),
        f"ERROR instance {TWO}: its outcome cannot be told",
    ),
    (
        InstanceLocked(**OF_I, write=Write.START),
        f"WARNING instance {TWO}: another transaction has locked it, its start has"
        " to wait",
    ),
    (
        InstanceLocked(**OF_I, write=Write.RENEWAL),
        f"WARNING instance {TWO}: its claim is not renewed yet, another transaction has"
        " locked it; it is tried again every second",
    ),
    (
        InstanceLocked(**OF_I, write=Write.END),
        f"WARNING instance {TWO}: its end is not recorded yet, another transaction has"
        " locked it; it is tried again every second",
    ),
    (
        InstanceUnrecorded(
            **OF_I,
            write=Write.START,
            retry_in=SECOND,
            error="no",
            exception=ERROR,
        ),
        f"ERROR instance {TWO}: its start cannot be recorded, it is tried again:"
        f" {ERROR!r}",
    ),
    (
        InstanceUnrecorded(
            **OF_I,
            write=Write.RENEWAL,
            retry_in=SECOND,
            error="no",
            exception=ERROR,
        ),
        f"ERROR instance {TWO}: its claim cannot be renewed, next try in 1 s:"
        f" {ERROR!r}",
    ),
    (
        InstanceUnrecorded(
            **OF_I, write=Write.END, retry_in=SECOND, error="no", exception=ERROR
        ),
        f"ERROR instance {TWO}: its end cannot be recorded, next try in 1 s: {ERROR!r}",
    ),
    (
        ClaimAnswerLost(node=THREE, count=2),
        "WARNING the answer to a claim was lost: 2 instances are given back",
    ),
    (
        NodeStarted(node=THREE, queues=("default",), max_workers=4),
        f"INFO node {THREE} starts",
    ),
    (NodeStopped(node=THREE, clean=True), f"INFO node {THREE} has stopped"),
    (
        NodeStopped(node=THREE, clean=False),
        f"INFO node {THREE} has stopped and left work behind",
    ),
    (
        LoopFailed(loop="keeper", failures=1, error="no", exception=ERROR),
        f"WARNING the keeper failed and will try again: {ERROR!r}",
    ),
    (
        LoopFailed(loop="keeper", failures=2, error="no", exception=ERROR),
        f"DEBUG the keeper failed and will try again: {ERROR!r}",
    ),
    (
        LoopRecovered(loop="keeper", failures=2),
        "INFO the keeper goes on after 2 failures",
    ),
    (
        ExecutorFailed(error="no", exception=ERROR),
        f"ERROR the executor takes no more handlers: {ERROR!r}",
    ),
    (ExecutorRecovered(), "WARNING the executor takes handlers again"),
    (QueueUnserved(queue="mail", text="it waits"), "WARNING it waits"),
    (
        ObjectiveBroken(node=ONE, objective=SECOND / 4, runs=200, late=3),
        "WARNING 3 of the last minute's 200 runs are more than 0.25 s late",
    ),
    (
        ObjectiveMet(node=ONE, objective=SECOND, after=61 * SECOND),
        "INFO runs are at most 1 s late again, after 61 s",
    ),
    (NoticeGiven(text="so it is"), "WARNING so it is"),
    (NoticeGiven(text="so it is", is_warning=False), "INFO so it is"),
    (WRITE, "INFO ann from 10.0.0.7: POST /v1/definitions was answered by 201"),
    (
        REFUSAL,
        "INFO somebody from nowhere: GET /v1/nodes was refused by 401: the key has"
        " expired",
    ),
]
SILENT = [
    RunEnded(**OF_I, late=SECOND, took=SECOND, outcome=None, retry_in=SECOND),
    DefinitionScheduled(**OF_D, next_fire_time=NOON, revision=1, joined=False),
    DefinitionChanged(**OF_D, change=Change.PAUSED, note="why"),
    DefinitionDeleted(definition_id=ONE),
    DefinitionCompleted(**OF_D),
    InstanceCreated(**OF_D, fire_time=NOON),
    InstanceAdded(**OF_D, instance_id=ONE, execute_at=NOON, key=None, joined=False),
    InstanceClaimed(**OF_I, due_at=NOON),
    InstanceCancelRequested(**OF_I, worker="anna"),
    InstanceStarted(
        **OF_I, fire_time=NOON, execute_at=NOON, started_at=NOON, late=SECOND
    ),
    InstanceGivenBack(**OF_I, reason="late", delay=SECOND),
    InstanceGivenBack(**OF_I, reason="away", delay=SECOND, by_handler=True, again=True),
    InstanceParked(**OF_I),
    InstanceUnparked(**OF_I),
    InstanceFinished(
        **OF_I, outcome=Outcome.FAILED, started_at=NOON, took=SECOND, error="no"
    ),
    InstanceHandedOn(**OF_I),
    InstanceReopened(**OF_I),
    InstanceRetried(**OF_I, retry_in=SECOND, started_at=NOON, took=SECOND, error="no"),
    StoreAway(loop="keeper", error="no"),
    StoreBack(away=SECOND),
    replace(WRITE, method="GET", scopes=("jobs:read",)),
    replace(WRITE, scopes=("workers",)),
]


@pytest.fixture(autouse=True)
def _everything_is_captured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize(
    ("event", "line"), WRITTEN, ids=[type(each).__name__ for each, _ in WRITTEN]
)
def test_what_is_to_be_read_is_written(
    event: Event, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    LOG_ALONE.teller("room").tell(event)
    [record] = caplog.records
    assert f"{record.levelname} {record.getMessage()}" == line
    assert record.name == "go_scheduler.room"
    for name in ("definition_id", "instance_id", "attempt", "node"):
        if (id := getattr(event, name, None)) is not None:
            assert record.__dict__[name] == (id if name == "attempt" else str(id))
    assert (record.exc_info is not None) == (
        hasattr(event, "exception") and not isinstance(event, ExecutorFailed)
    )


def test_a_loop_is_named_in_its_record(caplog: pytest.LogCaptureFixture) -> None:
    event = LoopFailed(loop="keeper", failures=2, error="no", exception=ERROR)
    LOG_ALONE.teller("room").tell(event)
    [record] = caplog.records
    assert record.__dict__["ticker"] == "keeper"
    assert record.__dict__["failures"] == 2


def test_a_notice_has_the_ids_with_which_it_was_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    event = NoticeGiven(text="so it is", definition_id=ONE, instance_id=TWO)
    LOG_ALONE.teller("room").tell(event)
    [record] = caplog.records
    assert record.__dict__["definition_id"] == str(ONE)
    assert record.__dict__["instance_id"] == str(TWO)


@pytest.mark.parametrize("event", SILENT, ids=lambda each: type(each).__name__)
def test_of_what_comes_by_the_thousand_or_was_asked_for_nothing_is_written(
    event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    LOG_ALONE.teller("room").tell(event)
    assert caplog.records == []


def test_no_event_was_left_out_here() -> None:
    shown = {type(each) for each, _ in WRITTEN} | {type(each) for each in SILENT}
    kinds = {
        each
        for each in vars(events).values()
        if inspect.isclass(each) and issubclass(each, Event)
    }
    bases = {Event, events.DefinitionEvent, events.InstanceEvent, events.RequestEvent}
    assert kinds - bases == shown


def test_a_teller_that_is_bounded_writes_five_lines_from_one_begin_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    teller = LOG_ALONE.teller("room", bounded=True)
    for _ in range(7):
        teller.tell(ExecutorRecovered())
    teller.begin()
    assert len(caplog.records) == 6
    assert caplog.messages[5] == "2 more such lines were left out"


def test_events_are_values() -> None:
    assert InstanceLost(**OF_I) == InstanceLost(**OF_I)
    assert {InstanceLost(**OF_I), InstanceLost(**OF_I)} == {InstanceLost(**OF_I)}
    with pytest.raises(AttributeError):
        InstanceLost(**OF_I).attempt = 5  # type: ignore[misc]
