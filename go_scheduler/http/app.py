"""The application that answers requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from go_scheduler.clock import SystemClock
from go_scheduler.http.access.entrance import Entrance
from go_scheduler.http.access.guard import OpenAccess
from go_scheduler.http.context import Context
from go_scheduler.http.limits import Limits
from go_scheduler.http.problems import answer_problems
from go_scheduler.http.routes import system
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.handlers.registry import HandlerRegistry
    from go_scheduler.http.access.guard import Access


def create_app(
    scheduler: Client,
    *,
    access: Access | None = None,
    work: object = None,
    types: HandlerRegistry | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> FastAPI:
    """An application that offers a scheduler over HTTP.

    It neither starts nor stops the scheduler.

    ```python
    with Scheduler(handlers, store) as scheduler:
        uvicorn.run(create_app(scheduler))
    ```

    Args:
        scheduler: What it offers; a ``Client`` is enough for one that runs nothing.
        access: Tells who calls, and what they may do; None: everybody on this machine
            may do everything, and nobody else anything.
        work: Hands work to workers elsewhere; None: none is handed out.
        types: The types of jobs that the server runs itself; None: it runs none.
        limits: What a request may take; None: ``Limits()``.
        clock: Measures time; None: the system's.
    """
    limits = limits or Limits()
    app = FastAPI(
        title="go_scheduler",
        version=__version__,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
    )
    context = app.state.context = Context(
        client=scheduler,
        access=access or OpenAccess(),
        clock=clock or SystemClock(),
        limits=limits,
        work=work,
        types=types,
    )
    app.add_middleware(Entrance, context)
    answer_problems(app)
    for each in (system,):
        app.include_router(each.router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Have calls that wait for the store wait on threads of their own."""
    context: Context = app.state.context
    threads = ThreadPoolExecutor(context.limits.threads, "go_scheduler http")
    asyncio.get_running_loop().set_default_executor(threads)
    yield
