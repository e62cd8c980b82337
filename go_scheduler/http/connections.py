"""Connections: how many there may be, and how long each may take to ask and to read."""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from go_scheduler.http.problems import RETRY_AFTER, Problem

if TYPE_CHECKING:
    from datetime import timedelta

    # With httptools it has another parser, and all the same beside it.
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    Protocol = asyncio.Protocol

_LOG = logging.getLogger("go_scheduler.http")
_CLOSE = {"Connection": "close"}
# So much is read of a body that was answered before its end, or while one is answered.
_LEFT_OVER = 1024 * 1024
# So many are told that there are too many; who comes on top is hung up on.
_TOLD = 100
_LOGGED_AGAIN = 60.0
# Those of stores, of modules, of programs that are run.
_OTHER_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What connections may take of a server.

    Attributes:
        most: How many there may be.
        head: How long one may take to send the head of a request, from its first byte;
            of a new connection, from when it is there.
        head_bytes: How many bytes that may have.
        answer: How long it may read nothing of an answer that waits for it.
    """

    most: int
    head: timedelta
    head_bytes: int
    answer: timedelta


def bounded(
    bounds: Bounds, protocol: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """What uvicorn makes of each connection, as ``http=``, with these bounds.

    How long one is kept that asks for nothing more is uvicorn's ``timeout_keep_alive``.

    Args:
        bounds: Which.
        protocol: One of uvicorn's.
    """
    return type("Connection", (_Connection, protocol), {"bounds": bounds})


def allow_files(connections: int) -> int:
    """Let this process have so many connections; answers how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return connections
    files = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(connections, max(files - _OTHER_FILES, files // 2))


class _Connection(Protocol):
    """One connection, cut off when it takes too long, or too much."""

    bounds: ClassVar[Bounds]
    logged_at: ClassVar[float | None] = None

    _is_surplus = False
    _unread = 0
    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)  # type: ignore[arg-type]
        surplus = len(self.connections) - self.bounds.most
        self._is_surplus = surplus > 0
        if self._is_surplus:
            self._log()
        if surplus > _TOLD:
            self.transport.abort()
        else:
            self._let_ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._has_asked()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self._has_read()
        if self._is_surplus:
            # Not before: who is hung up on while it asks may not read the answer.
            self._refuse(_TOO_MANY)
            return
        cycle = self.cycle
        is_body = cycle and cycle.more_body and not cycle.response_complete
        super().data_received(data)
        if is_body or self.cycle is not cycle:
            self._has_asked()
            return
        self._unread += len(data)
        if self._unread > (self.bounds.head_bytes if self._is_idle else _LEFT_OVER):
            self._refuse(_TOO_LONG)
        elif self._asking is None and (cycle is None or cycle.response_complete):
            self._let_ask()

    def on_response_complete(self) -> None:
        """Begin anew."""
        super().on_response_complete()
        self._unread = 0
        if self.transport.get_write_buffer_size():
            self._let_read()

    def pause_writing(self) -> None:
        """Send no more, as much has not been read yet."""
        super().pause_writing()
        self._let_read()

    def resume_writing(self) -> None:
        """Send on."""
        self._has_read()
        super().resume_writing()

    def _let_ask(self) -> None:
        seconds = self.bounds.head.total_seconds()
        self._asking = self.loop.call_later(seconds, self._cut_off)

    def _has_asked(self) -> None:
        self._unread = 0
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _let_read(self) -> None:
        self._has_read()
        seconds = self.bounds.answer.total_seconds()
        self._reading = self.loop.call_later(seconds, self.transport.abort)

    def _has_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    @property
    def _is_idle(self) -> bool:
        """Whether what comes is the head of a request, and no other is under way.

        Else it is of the next one, or of a body that was answered before its end.
        """
        cycle = self.cycle
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def _cut_off(self) -> None:
        self._refuse(_TOO_SLOW if self._unread else b"")

    def _refuse(self, answer: bytes) -> None:
        if self._is_idle:
            self.transport.write(answer)
        self.transport.close()

    def _log(self) -> None:
        now, kind = self.loop.time(), type(self)
        if kind.logged_at is None or now - kind.logged_at > _LOGGED_AGAIN:
            kind.logged_at = now
            _LOG.warning(
                "there are %d connections, and more are refused: server.connections"
                " is how many there may be",
                self.bounds.most,
            )


def _written(problem: Problem) -> bytes:
    """An answer, to be sent without an application."""
    answer = problem.answer()
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
    lines += [b": ".join(each) for each in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


_TOO_MANY = _written(
    Problem(
        503,
        "connections",
        "Too many connections",
        "the server has as many connections as it takes: come again later",
        headers=RETRY_AFTER | _CLOSE,
    )
)
_TOO_SLOW = _written(
    Problem(
        408,
        "too-slow",
        "Request Timeout",
        "the head of the request took too long to arrive",
        headers=_CLOSE,
    )
)
_TOO_LONG = _written(
    Problem(
        431,
        "headers",
        "Request Header Fields Too Large",
        "the head of the request is too long",
        headers=_CLOSE,
    )
)
