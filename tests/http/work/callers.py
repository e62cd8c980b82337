"""Callers who say themselves who they are, as in these tests everybody is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.http.access.caller import SCOPES, Caller

if TYPE_CHECKING:
    from fastapi import Request


class Believing:
    """Believes the headers X-Name, X-Queues, X-Owners and X-Scopes."""

    origins = ()

    async def authenticate(self, request: Request) -> Caller:
        given = request.headers
        return Caller(
            subject=given.get("x-name", "somebody"),
            scopes=frozenset(given.get("x-scopes", " ".join(SCOPES)).split()),
            queues=_some(given.get("x-queues")),
            owners=_some(given.get("x-owners")),
        )


def _some(given: str | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given.split(","))
