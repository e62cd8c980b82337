"""What happens to requests over HTTP: who asked for what, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass

from go_scheduler.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(Event):
    """A request, of which no token and no body is told.

    Attributes:
        subject: Who sent it: of a token or key, or *anybody*; None: that is not known.
        address: From where, as far as that is known.
        method: Its method.
        path: Its path as it was sent, without a query, of 200 characters at most.
        scopes: What the caller had to be allowed to.
        status: That of the answer.
    """

    subject: str | None
    address: str | None
    method: str
    path: str
    scopes: tuple[str, ...]
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAllowed(RequestEvent):
    """A request was let in; its answer may still say that it is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(RequestEvent):
    """A request was refused to its caller, or as there were too many.

    Attributes:
        reason: Why.
    """

    reason: str
