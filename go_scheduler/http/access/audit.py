"""The audit: who asked for what, and whether they might, told as events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote

from go_scheduler.events.request_events import RequestAllowed, RequestRefused

if TYPE_CHECKING:
    from starlette.requests import Request

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock

REFUSALS = (401, 403, 429)
"""Who may not is told so."""

_SECOND = timedelta(seconds=1)
_LONGEST_PATH = 200


class _Told(TypedDict):
    subject: str | None
    address: str | None
    method: str
    path: str
    scopes: tuple[str, ...]
    status: int


class Audit:
    """Tells of requests, without what is secret in them.

    The log has a few lines a second of those that are refused, and says how many it has
    left out, so that nobody can fill it; listeners hear of all.

    Args:
        client: Whose listeners hear it.
        clock: Measures time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._clock = clock
        self._teller = client.teller("http")
        self._bounded = client.teller("http", bounded=True)
        self._begun = clock.elapsed()

    def answered(self, request: Request, status: int) -> None:
        """Tell of a request that has an answer, whatever that is."""
        if status in REFUSALS:
            needed = " ".join(_needed(request)) or "another caller"
            self.refused(request, status, f"it needs {needed}, or other restrictions")
        else:
            self._teller.tell(RequestAllowed(**_told(request, status)))

    def refused(self, request: Request, status: int, reason: str) -> None:
        """Tell of a request that was refused."""
        now = self._clock.elapsed()
        if now - self._begun >= _SECOND:
            self._begun = now
            self._bounded.begin()
        self._bounded.tell(RequestRefused(**_told(request, status), reason=reason))


def _told(request: Request, status: int) -> _Told:
    caller = getattr(request.state, "caller", None)
    # Quoted, without line feeds: nobody may write lines of their own into a log.
    path = quote(request.scope["path"])[:_LONGEST_PATH]
    return {
        "subject": None if caller is None else caller.subject,
        "address": None if request.client is None else request.client.host,
        "method": request.method,
        "path": path,
        "scopes": _needed(request),
        "status": status,
    }


def _needed(request: Request) -> tuple[str, ...]:
    """The scopes that the route has asked for; none before it was found."""
    needed: tuple[str, ...] = getattr(request.state, "needed", ())
    return needed
