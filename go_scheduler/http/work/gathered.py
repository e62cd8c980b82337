"""Gathered writes: what many ask for at once is written together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")

_BATCH = 500


class GatheredWrites(Generic[_Asked, _Answer]):
    """Writes at once while nothing is being written, else all that comes meanwhile.

    So one waits for no more than two writes, however many there are.

    Args:
        write: Writes many, in a thread, and answers each in its order; an error in the
            place of an answer is raised for that one alone.
        threads: Where it does.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_Asked]], Sequence[_Answer | Exception]],
        threads: Executor,
    ) -> None:
        self._write = write
        self._threads = threads
        self._asked: list[tuple[_Asked, asyncio.Future[_Answer]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def ask(self, asked: _Asked) -> _Answer:
        """Have it written, with others; it is, even if this is cancelled.

        Raises:
            Exception: What became of it, or of the write as a whole.
        """
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked.append((asked, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def close(self) -> None:
        """Wait until all is written."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            some, self._asked = self._asked[:_BATCH], self._asked[_BATCH:]
            try:
                answers: Sequence[_Answer | Exception] = await loop.run_in_executor(
                    self._threads, self._write, [asked for asked, _ in some]
                )
            except Exception as error:
                answers = [error] * len(some)
            for (_, future), answer in zip(some, answers, strict=True):
                _settle(future, answer)
        self._writing = None


def _settle(future: asyncio.Future[_Answer], answer: _Answer | Exception) -> None:
    # Whoever asked may be gone.
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
