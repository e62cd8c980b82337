"""A web application: FastAPI, and async handlers that use its asyncpg pool.

The scheduler is entered by ``async with`` where the application starts, so its
handlers are called on the application's event loop, and no request waits for the store.
When the application stops, so does the scheduler, while the handlers come to their
ends. With ``fastapi``, ``uvicorn`` and ``asyncpg``, and any number of workers::

    DATABASE_URL=postgresql://... uvicorn --workers 4 web_application:app

Here it is its own client, with ``httpx``, on the database whose URL is on the command
line. It prints::

    201 water the plants
    on the application's event loop: True
    done: ['water the plants']
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

import asyncpg  # type: ignore[import-untyped]
import httpx
from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel

from go_scheduler import ExecuteOnceTrigger, Scheduler, TaskDefinition, TaskInstance
from go_scheduler.stores import open_store

_TABLE = "CREATE TABLE IF NOT EXISTS example_done (text TEXT NOT NULL)"
# What PostgreSQL says to one of two that make the table at the same time.
_MADE_MEANWHILE = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateTableError,
)


class Reminder(BaseModel):
    text: str
    seconds: float


class Reminders:
    """What the handlers and the requests share."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool
        self.loop = asyncio.get_running_loop()
        self.reminded = asyncio.Event()
        self.here = False

    async def remind(self, instance: TaskInstance) -> None:
        text = instance.metadata["text"]
        await self.pool.execute("INSERT INTO example_done VALUES ($1)", text)
        self.here = asyncio.get_running_loop() is self.loop
        self.reminded.set()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    url = os.environ["DATABASE_URL"]
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as pool:
        with suppress(*_MADE_MEANWHILE):  # by a worker that starts as well
            await pool.execute(_TABLE)
        app.state.reminders = reminders = Reminders(pool)
        async with Scheduler(reminders.remind, open_store(url)) as scheduler:
            app.state.scheduler = scheduler
            yield


def get_scheduler(request: Request) -> Scheduler:
    scheduler: Scheduler = request.app.state.scheduler
    return scheduler


def get_reminders(request: Request) -> Reminders:
    reminders: Reminders = request.app.state.reminders
    return reminders


app = FastAPI(lifespan=lifespan)


@app.post("/reminders", status_code=201)
async def remind(
    reminder: Reminder, scheduler: Annotated[Scheduler, Depends(get_scheduler)]
) -> str:
    at = datetime.now(UTC) + timedelta(seconds=reminder.seconds)
    await scheduler.aschedule(
        TaskDefinition(trigger=ExecuteOnceTrigger(at), metadata={"text": reminder.text})
    )
    return reminder.text


@app.get("/done")
async def done(
    reminders: Annotated[Reminders, Depends(get_reminders)],
) -> list[str]:
    rows = await reminders.pool.fetch("SELECT text FROM example_done")
    return [row["text"] for row in rows]


async def main(url: str) -> None:
    os.environ["DATABASE_URL"] = url
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://here") as client,
    ):
        body = {"text": "water the plants", "seconds": 0.2}
        answer = await client.post("/reminders", json=body)
        print(answer.status_code, answer.json(), flush=True)
        reminders = app.state.reminders
        await reminders.reminded.wait()
        print(f"on the application's event loop: {reminders.here}", flush=True)
        print("done:", (await client.get("/done")).json(), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(
            "usage: python web_application.py postgresql://user:password@host/name"
        )
    asyncio.run(main(sys.argv[1]))
