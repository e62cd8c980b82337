"""Imports of many thousand lines into stores that run them meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from go_scheduler import Scheduler
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.stores.memory.store import MemoryStore
from tests.conftest import SHARED
from tests.http.jobs.conftest import SEND
from tests.http.serving import LINES, client_of, lines
from tests.patience import FAILED_AFTER
from tests.servers import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskInstance

COUNT = 4_000
LONG = 20 * FAILED_AFTER
PATH = "/v1/jobs/import"
ROOT = Path(__file__).parents[3]


@contextmanager
def server(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves a store, and its URL; it is killed at the end."""
    program = str(Path(__file__).with_name("serve.py"))
    process = subprocess.Popen(
        [sys.executable, program, url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def body(until: threading.Event, *, after: int) -> Iterator[bytes]:
    """The lines; after some of them it waits for an event."""
    for begin in range(0, COUNT, 500):
        if begin == after:
            assert until.wait(LONG)
        yield lines(
            {"type": "send", "payload": {"order": number}}
            for number in range(begin, begin + 500)
        )


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", SHARED)
def test_an_import_that_broke_off_and_is_repeated_makes_each_line_once(
    store_url: str,
) -> None:
    ran: Counter[int] = Counter()
    news = threading.Condition()

    def note(instance: TaskInstance) -> None:
        assert instance.payload is not None
        with news:
            ran[int(str(instance.payload["order"]))] += 1
            news.notify_all()

    asked = {"import": "may"}
    with (
        opened(store_url, has_tables=True) as store,
        Scheduler(note, store, max_workers=8) as scheduler,
    ):
        scheduler.schedule(SEND)
        half = threading.Event()
        with server(store_url) as (process, url):

            def kill() -> None:
                with news:
                    assert news.wait_for(lambda: len(ran) > 1000, LONG)
                process.kill()
                half.set()

            killer = threading.Thread(target=kill)
            killer.start()
            with pytest.raises(httpx.TransportError):
                httpx.post(
                    url + PATH,
                    content=body(half, after=COUNT // 2),
                    headers=LINES,
                    params=asked,
                    timeout=LONG,
                )
            killer.join()
        with server(store_url) as (_, url):
            answer = httpx.post(
                url + PATH,
                content=body(half, after=0),
                headers=LINES,
                params=asked,
                timeout=LONG,
            )
        last = json.loads(answer.text.splitlines()[-1])
        assert (last["event"], last["read"], last["refused"]) == ("done", COUNT, 0)
        assert last["known"] > 1000
        assert last["made"] > 0
        assert last["made"] + last["known"] == COUNT
        with news:
            assert news.wait_for(lambda: len(ran) == COUNT, LONG)
        ended = sum(scheduler.counts().values())
    assert ended == COUNT
    assert ran == Counter(range(COUNT))


class Forgetful(Client):
    """Forgets its jobs, so that only the import itself can take memory."""

    async def aenqueue_all(self, name: str, given: Any, /, **options: Any) -> Any:
        made = self.enqueue_all(name, given, **options)
        self._store = MemoryStore()
        self._store.put_definitions([SEND])
        return made


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_memory_of_an_import_is_bounded_however_long_it_is() -> None:
    client = Forgetful(MemoryStore())
    client.schedule(SEND)
    line = lines([{"type": "send", "payload": {"text": "x" * 10_000}}])
    peaks = []

    def endless() -> Iterator[bytes]:
        for number in range(20):
            yield line * 100
            _, peak = tracemalloc.get_traced_memory()
            peaks.append(peak)
            if number == 9:
                tracemalloc.reset_peak()

    with client_of(create_app(client)) as http:
        tracemalloc.start()
        try:
            answer = http.post(PATH, content=endless(), headers=LINES)
        finally:
            tracemalloc.stop()
    last = json.loads(answer.text.splitlines()[-1])
    assert (last["event"], last["made"]) == ("done", 2000)
    assert peaks[-1] < 20_000_000
