"""Workers and their server are killed again and again; no job is lost or runs twice.

``GO_SCHEDULER_CHAOS=full`` does it with 200 workers and 10,000 jobs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from go_scheduler.client import Client
from go_scheduler.models import TaskDefinition
from go_scheduler.stores import open_store
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests.audits import check_audit
from tests.cli.shell import clean_environment
from tests.ports import free_port
from tests.traces import check_traces

if TYPE_CHECKING:
    from collections.abc import Callable

FULL = os.environ.get("GO_SCHEDULER_CHAOS") == "full"
JOBS, WORKERS, PROCESSES = (10_000, 200, 8) if FULL else (400, 20, 4)
PATIENCE = 600
CONFIGURATION = "scheduler: {lease: 2s}\nwork: {lease: 3s}\n"
ROOT = str(Path(__file__).parents[3])
PROGRAM = str(Path(__file__).with_name("chaos_workers.py"))
TABLE = (
    "CREATE TABLE ran (id uuid, attempt bigint, valid boolean, at timestamptz,"
    " until timestamptz)"
)
ENDED = "SELECT count(*) FROM task_instances WHERE outcome = 'completed'"
TWICE = "SELECT count(*) FROM ran GROUP BY id, attempt HAVING count(*) > 1"
# Each later run begins after the end of the earlier claim.
WITHIN = (
    "SELECT count(*) FROM ran a JOIN ran b ON a.id = b.id AND a.attempt < b.attempt"
    " AND a.valid AND b.at < a.until"
)
AGAIN = "SELECT count(*) FROM (SELECT id FROM ran GROUP BY id HAVING count(*) > 1) x"
NEVER = (
    "SELECT count(*) FROM task_instances WHERE NOT EXISTS"
    " (SELECT FROM ran WHERE ran.id = task_instances.id)"
)

_LOG = logging.getLogger(__name__)

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


class Chaos:
    """A server and its workers, as processes that are killed and started again."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._port = free_port()
        self._server = self._serve()
        self._workers = [self._work() for _ in range(PROCESSES)]

    def kill_server(self) -> None:
        _kill(self._server)
        self._server = self._serve()

    def kill_workers(self) -> None:
        """Kill the workers of one process, and start others."""
        _kill(self._workers.pop(0))
        self._workers.append(self._work())

    def close(self) -> None:
        for each in (*self._workers, self._server):
            _kill(each)

    def _serve(self) -> subprocess.Popen[bytes]:
        words = ("--store", self._url, "--port", str(self._port))
        calls = str(self._folder / "server.calls")
        return self._started("-m", "tests.traces", calls, "serve", *words)

    def _work(self) -> subprocess.Popen[bytes]:
        server = f"http://127.0.0.1:{self._port}"
        return self._started(PROGRAM, server, self._url, str(WORKERS // PROCESSES))

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self._folder,
            env={**clean_environment(), "PYTHONPATH": ROOT},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture
def url(empty_database_url: Callable[[], str]) -> str:
    """A database with jobs, and a table of runs."""
    url = empty_database_url()
    with closing(open_store(url)) as store:
        store.initialize()
        client = Client(store)
        client.schedule_all(
            TaskDefinition(name="job", trigger=ExecuteOnceTrigger(store.now()))
            for _ in range(JOBS)
        )
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TABLE)
    return url


def test_nothing_is_lost_or_doubled_however_many_are_killed(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "go_scheduler.yaml").write_text(CONFIGURATION)
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        chaos = stack.enter_context(closing(Chaos(tmp_path, url)))

        def count(statement: str) -> int:
            row = connection.execute(statement.encode()).fetchone()
            return 0 if row is None else int(row[0])

        def until(share: float) -> None:
            async def wait() -> None:
                async with asyncio.timeout(PATIENCE):
                    while count(ENDED) < share * JOBS:
                        await asyncio.sleep(0.05)

            asyncio.run(wait())

        until(0.15)
        chaos.kill_workers()
        until(0.3)
        chaos.kill_server()
        until(0.45)
        chaos.kill_workers()
        until(0.6)
        chaos.kill_server()
        until(0.75)
        chaos.kill_workers()
        until(1)
        found = [count(each) for each in (ENDED, NEVER, TWICE, WITHIN)]
        _LOG.info("%d of %d jobs ran more than once", count(AGAIN), JOBS)
    assert found == [JOBS, 0, 0, 0]
    with closing(open_store(url)) as store:
        check_audit(store)
    assert check_traces(tmp_path) > 2 * JOBS


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
