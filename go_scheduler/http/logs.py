"""The log of a server or a worker, as text or as JSON; a line for each request."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from go_scheduler.formatting import safe
from go_scheduler.http.access.authentication import REFUSALS
from go_scheduler.http.paths import path_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.clock import Clock
    from go_scheduler.http.configuration.sections import LogSection

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_QUIET = ("alembic", "httpcore", "httpx", "uvicorn")
_POLLS = ("/v1/work", "/healthz", "/readyz", "/metrics")
_OF_EACH_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_REQUESTS = logging.getLogger("go_scheduler.http.requests")


class TextLines(logging.Formatter):
    """Writes each record as a line; its further lines are indented.

    So a logged text, such as a worker's error, cannot forge a line of the log.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """The lines of a record."""
        return safe(super().format(record)).replace("\n", "\n    ")


class JsonLines(logging.Formatter):
    """Writes each record as a JSON object on a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; its ``extra`` are further fields."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        more = vars(record).keys() - _OF_EACH_RECORD
        line |= {name: getattr(record, name) for name in sorted(more)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


@contextmanager
def written_log(settings: LogSection) -> Iterator[None]:
    """Write the log of this process to standard error within the context."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = settings.format == "json"
    handler.setFormatter(JsonLines() if is_json else TextLines())
    levels = {logging.getLogger(): settings.level.upper()}
    # We log requests ourselves, and their URLs may have secrets.
    levels |= {logging.getLogger(name): "WARNING" for name in _QUIET}
    before = {each: each.level for each in levels}
    logging.getLogger().addHandler(handler)
    for logger, level in levels.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, found in before.items():
            logger.setLevel(found)


class RequestLog:
    """Middleware that logs each request, without its query, headers and body.

    Args:
        app: Answers the requests.
        clock: Measures how long that takes.
        polls: Whether polls, such as health checks, are logged as well.
    """

    def __init__(self, app: ASGIApp, *, clock: Clock, polls: bool) -> None:
        self._app = app
        self._clock = clock
        self._polls = polls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or not (
            self._polls or path_within(scope) not in _POLLS
        ):
            await self._app(scope, receive, send)
            return
        status: int | None = None

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        begun = self._clock.elapsed()
        try:
            await self._app(scope, receive, note)
        finally:
            took = (self._clock.elapsed() - begun).total_seconds() * 1000
            # ``Audit`` logs refusals, a few a second.
            if status not in REFUSALS:
                _tell(scope, status, took)


def _tell(scope: Scope, status: int | None, took: float) -> None:
    address = None if scope.get("client") is None else scope["client"][0]
    caller = scope.get("state", {}).get("caller")
    subject = None if caller is None else caller.subject
    fields = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "duration_ms": round(took, 1),
        "client": address,
        "subject": subject,
    }
    answer = "no answer" if status is None else status
    who = f"{subject or 'somebody'} from {address or 'nowhere'}"
    text = f"{scope['method']} {scope['path']!r}: {answer}, {took:.1f} ms, {who}"
    _REQUESTS.info("%s", text, extra=fields)
