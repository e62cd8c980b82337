"""The context of routes, made once for an application, and its readiness."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request

from go_scheduler.client import Client
from go_scheduler.clock import Clock
from go_scheduler.http.access.authentication import Access
from go_scheduler.http.jobs import KnownTypes
from go_scheduler.http.limits import Limits, Threads
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.telemetry.figures import Gathering

_KEPT = timedelta(seconds=1)


class Readiness:
    """Checks that the store answers, at most once a second for all callers.

    Args:
        client: A client of the store.
        clock: Measures time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked_at = clock.elapsed()
        self._asking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Return if the store answers.

        Raises:
            StoreError: It does not answer, or did not within the last second.
        """
        asking = self._asking
        now = self._clock.elapsed()
        if asking is None or (asking.done() and now - self._asked_at >= _KEPT):
            self._asked_at = now
            asking = self._asking = asyncio.create_task(self._client.acheck())
        # Others may wait for the same check when one caller gives up.
        await asyncio.shield(asking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The objects that routes use.

    Attributes:
        client: A scheduler, or a client.
        access: Authenticates callers.
        clock: Measures time.
        limits: The limits of a request.
        threads: The threads on which calls wait for the store.
        readiness: Checks that the store answers.
        work: Hands work to workers elsewhere; None: none is handed out.
        job_types: The known types: of the server, and in the store.
        jobs: The defaults of jobs.
        metrics: The counts of the nodes of this process; None: they are not shown.
    """

    client: Client
    access: Access
    clock: Clock
    limits: Limits
    threads: Threads
    readiness: Readiness
    job_types: KnownTypes
    jobs: JobDefaults
    work: LongPoll | None = None
    metrics: Gathering | None = None


async def _context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(_context_of)]
"""Annotation of a route's parameter for the context: ``here: Here``."""
