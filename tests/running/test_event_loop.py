"""The event loop of a node's own: it ends once nothing is to run on it any more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

import pytest

from go_scheduler.running.calling.workers import OwnEventLoop
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from tests.conftest import instance
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Generator


class Never:
    """What is awaited by nobody."""

    def __await__(self) -> Generator[None]:
        yield pytest.fail("it began")


def test_it_ends_though_what_it_expected_was_cancelled_before_it_began() -> None:
    run = HeldRun(instance(), Defaults())
    own = OwnEventLoop(expects=True)
    found: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []
    over = threading.Event()

    async def look(_: HeldRun) -> None:
        found.append((asyncio.get_running_loop(), threading.current_thread()))
        over.set()

    own.submit(look, run, dropped=lambda _: None)
    assert over.wait(FAILED_AFTER)
    over.clear()
    [(loop, thread)] = found

    def cancel_all() -> None:
        """Cancel each task before its first step."""
        for each in asyncio.all_tasks(loop):
            each.cancel()
        if not over.is_set():
            loop.call_soon(cancel_all)

    assert own.expect()
    loop.call_soon_threadsafe(cancel_all)
    with pytest.raises(CancelledError):
        own.wait_for(Never(), run)
    over.set()
    own.stop()
    thread.join(FAILED_AFTER)
    assert not thread.is_alive()
