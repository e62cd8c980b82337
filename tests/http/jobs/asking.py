"""What tests of jobs over HTTP ask by, and as whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from go_scheduler.http.access.authentication import OpenAccess
from go_scheduler.http.access.caller import SCOPES, Caller

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import httpx
    from fastapi import Request

LINES = {"Content-Type": "application/x-ndjson"}


class As(OpenAccess):
    """Has everybody be one caller, who may be changed.

    Args:
        queues: What they are restricted to; None: to nothing.
        owners: Likewise.
        scopes: What they may do.
    """

    def __init__(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        scopes: Collection[str] = tuple(SCOPES),
    ) -> None:
        super().__init__()
        self.caller = Caller(
            subject="ann",
            scopes=frozenset(scopes),
            queues=None if queues is None else frozenset(queues),
            owners=None if owners is None else frozenset(owners),
        )

    async def authenticate(self, request: Request) -> Caller:
        return self.caller


def lines(jobs: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in jobs)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(each) for each in answer.text.splitlines()]


def field_of(answer: httpx.Response) -> str:
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    return str(error["field"])
