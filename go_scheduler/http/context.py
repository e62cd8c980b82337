"""What routes need, made once for an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from go_scheduler.client import Client
from go_scheduler.clock import Clock
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.http.access.guard import Access
from go_scheduler.http.jobs.known_types import KnownTypes
from go_scheduler.http.jobs.spreading import JobDefaults
from go_scheduler.http.limits import Limits
from go_scheduler.http.readiness import Readiness
from go_scheduler.http.threads import Threads
from go_scheduler.http.work.crews import Crews
from go_scheduler.telemetry.gathering import Gathering


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What routes need.

    Attributes:
        client: What they call: a scheduler, or a client.
        access: Tells who calls.
        clock: Measures time.
        limits: What a request may take.
        threads: Where calls wait for the store.
        readiness: Tells whether that answers.
        work: Hands work to workers elsewhere; None: none is handed out.
        types: The types of jobs that the server runs itself; None: it runs none.
        job_types: What is known of types, these and those in the store.
        jobs: What holds for jobs that do not say it themselves.
        metrics: What the nodes of this process have counted; None: that is not shown.
    """

    client: Client
    access: Access
    clock: Clock
    limits: Limits
    threads: Threads
    readiness: Readiness
    job_types: KnownTypes
    jobs: JobDefaults
    work: Crews | None = None
    types: HandlerRegistry | None = None
    metrics: Gathering | None = None


async def _context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(_context_of)]
"""What a route takes to have the context: ``here: Here``."""
