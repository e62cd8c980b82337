"""What a process of a ``ProcessExecutor`` does: it calls what it is sent."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.running.calling.error_text import describe_error

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

READY = b""
"""What it says once it can be sent something."""


class ProcessError(Exception):
    """Why a call in another process has failed, with the traceback that it had there.

    It is the error if the process has died or its own error cannot travel, and the
    cause of the error that did.
    """


class Returned(NamedTuple):
    """A call has returned."""

    value: object


class Raised(NamedTuple):
    """A call has raised.

    Attributes:
        text: The error, described where it was raised.
        error: The error itself, pickled; None: it cannot be.
    """

    text: str
    error: bytes | None


def serve(connection: Connection) -> None:
    """Call what comes, until the other end is closed, or its process is gone."""
    # For whoever has been started from a terminal: its own process sees to that.
    signal.signal(signal.SIGINT, lambda *_: None)
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    busy = threading.Event()
    args = connection, requests, busy
    threading.Thread(target=_receive, args=args, daemon=True).start()
    connection.send_bytes(READY)
    while (request := requests.get()) is not None:
        answer = _call(request)
        busy.clear()
        connection.send_bytes(answer)


def error_of(raised: Raised) -> BaseException:
    """What a call has raised in another process, caused by how it looked there."""
    cause = ProcessError(raised.text)
    if raised.error is None:
        return cause
    try:
        error = pickle.loads(raised.error)
    # Its own code makes it again, and may do anything.
    except BaseException:
        return cause
    if not isinstance(error, BaseException):
        return cause
    error.__cause__ = cause
    return error


def described_there(error: BaseException) -> str | None:
    """How an error looked in the process where it was raised; None: it was here."""
    for each in (error, error.__cause__):
        if isinstance(each, ProcessError):
            return str(each)
    return None


def _receive(
    connection: Connection, requests: SimpleQueue[bytes | None], busy: threading.Event
) -> None:
    """Take what comes; and end with whoever sent it, in the middle of a call too."""
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            if busy.is_set():
                os._exit(1)
            requests.put(None)
            return
        busy.set()
        requests.put(request)


def _call(request: bytes) -> bytes:
    try:
        function, args, kwargs = pickle.loads(request)
        return pickle.dumps(Returned(function(*args, **kwargs)))
    # Whatever is raised there must not cost the process.
    except BaseException as error:
        return pickle.dumps(Raised(describe_error(error), _pickled(error)))


def _pickled(error: BaseException) -> bytes | None:
    try:
        return pickle.dumps(error)
    except BaseException:
        return None
