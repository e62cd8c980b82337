"""How the server is, as it says itself."""

from __future__ import annotations

import asyncio

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.http import create_app
from tests.http.serving import called


def test_a_process_that_lives_says_so() -> None:
    async def asked() -> None:
        async with called(create_app(Client(MemoryStore()))) as client:
            answer = await client.get("/healthz")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    asyncio.run(asked())
