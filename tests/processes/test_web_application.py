"""The example of a web application, as workers that a server starts and ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler.client import Client
from go_scheduler.models import TaskDefinition
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests.conftest import SHARED
from tests.patience import FAILED_AFTER
from tests.processes.process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler.stores.base import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.parametrize("engine", SHARED[1:2]),
]

WORKER = """
import asyncio, signal
from web_application import app

async def serve():
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    async with app.router.lifespan_context(app):
        print("up", flush=True)
        await asked.wait()

asyncio.run(serve())
"""
STEP = 0.05


class Worker:
    """A process that lives through the application's lifespan, as one of a server."""

    def __init__(self, url: str, errors: Path) -> None:
        self._errors = errors
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", WORKER],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={"DATABASE_URL": url, "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"},
            )

    def wait_until_up(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n", self._errors.read_text()

    def end(self) -> None:
        """Ask it to end, as a server does that stops, or reloads."""
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate(timeout=FAILED_AFTER)
        assert self._process.returncode == 0, self._errors.read_text()
        assert "False" not in output
        assert self._errors.read_text() == ""

    def close(self) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(FAILED_AFTER)
        self._process.stdout.close()


class Site:
    """The workers of an application, and what its handlers have done."""

    def __init__(self, url: str, store: Store, folder: Path, stack: ExitStack) -> None:
        self._url = url
        self._store = store
        self._folder = folder
        self._stack = stack
        self._started = 0
        self._sent = 0
        libpq = make_url(url).set(drivername="postgresql")
        self._database = stack.enter_context(
            psycopg.connect(
                libpq.render_as_string(hide_password=False), autocommit=True
            )
        )
        stack.callback(self._database.execute, "DROP TABLE IF EXISTS example_done")

    def start(self, count: int) -> list[Worker]:
        """Start workers, all at once, and wait until they are up."""
        workers = []
        for _ in range(count):
            self._started += 1
            errors = self._folder / f"worker-{self._started}.txt"
            workers.append(Worker(self._url, errors))
            self._stack.callback(workers[-1].close)
        for worker in workers:
            worker.wait_until_up()
        return workers

    def remind(self, count: int, *, within: timedelta) -> None:
        """Schedule reminders, evenly over a while from now on."""
        client, now = Client(self._store), self._store.now()
        for number in range(count):
            at = now + within * number / count
            text = {"text": f"reminder {self._sent}"}
            self._sent += 1
            client.schedule(
                TaskDefinition(trigger=ExecuteOnceTrigger(at), metadata=text)
            )

    def wait_until_done(self) -> None:
        """Wait until each reminder has run, and see that each ran once."""
        for _ in range(int(FAILED_AFTER / STEP)):
            rows = self._database.execute("SELECT text FROM example_done").fetchall()
            if len(rows) >= self._sent:
                break
            threading.Event().wait(STEP)
        expected = {f"reminder {number}": 1 for number in range(self._sent)}
        assert Counter(text for (text,) in rows) == expected


@pytest.fixture
def site(own_time_store: Store, store_url: str, tmp_path: Path) -> Iterator[Site]:
    for package in ("asyncpg", "fastapi", "httpx"):
        pytest.importorskip(package)
    with ExitStack() as stack:
        yield Site(store_url, own_time_store, tmp_path, stack)


def test_workers_share_the_work_while_some_end_and_while_the_last_is_reloaded(
    site: Site,
) -> None:
    *workers, last = site.start(4)
    site.remind(60, within=timedelta(seconds=2))
    for worker in workers:
        worker.end()
    site.wait_until_done()
    site.remind(20, within=timedelta(seconds=1))
    last.end()
    site.remind(20, within=timedelta(seconds=1))
    [reloaded] = site.start(1)
    site.wait_until_done()
    reloaded.end()
