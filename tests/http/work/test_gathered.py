"""Concurrent requests are written together, and each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from go_scheduler.http.work.crews import GatheredWrites
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Writes:
    """Doubles numbers, many in one write; the writes wait for an event."""

    def __init__(self) -> None:
        self.batches: list[Sequence[int]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.error: Exception | None = None
        self.threads = ThreadPoolExecutor(1)
        self.gathered = GatheredWrites(self._write, self.threads)

    def _write(self, asked: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(asked)
        self.begun.set()
        assert self.go_on.wait(FAILED_AFTER)
        if self.error is not None:
            raise self.error
        return [ValueError(each) if each < 0 else 2 * each for each in asked]

    async def ask(self, *numbers: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.gathered.ask(each)) for each in numbers]
        await asyncio.to_thread(self.begun.wait, FAILED_AFTER)
        return tasks


@pytest.fixture
def writes() -> Iterator[Writes]:
    writes = Writes()
    yield writes
    writes.threads.shutdown()


def test_what_comes_while_one_is_written_is_written_together_in_batches(
    writes: Writes,
) -> None:
    async def test() -> None:
        first = await writes.ask(1)
        others = await writes.ask(*range(600))
        writes.go_on.set()
        found = await asyncio.gather(*first, *others)
        assert found == [2, *(2 * each for each in range(600))]
        assert [len(each) for each in writes.batches] == [1, 500, 100]

    asyncio.run(test())


def test_one_that_is_wrong_fails_alone_and_a_write_that_fails_fails_all_of_it(
    writes: Writes,
) -> None:
    async def test() -> None:
        writes.go_on.set()
        good, bad, also_good = await writes.ask(1, -1, 2)
        assert await good + await also_good == 6
        with pytest.raises(ValueError, match="-1"):
            await bad
        writes.error = OSError("away")
        for each in await writes.ask(1, 2):
            with pytest.raises(OSError, match="away"):
                await each
        writes.error = None
        [again] = await writes.ask(3)
        assert await again == 6

    asyncio.run(test())


def test_what_nobody_waits_for_any_more_is_written_all_the_same(
    writes: Writes,
) -> None:
    async def test() -> None:
        [first] = await writes.ask(1)
        gone, other = await writes.ask(2, 3)
        gone.cancel()
        closing = asyncio.create_task(writes.gathered.close())
        writes.go_on.set()
        assert await first + await other == 8
        await closing
        assert writes.batches == [[1], [2, 3]]
        await writes.gathered.close()

    asyncio.run(test())
