"""Gathers what is to be written: many are written at once, and each has its answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Gathered(Generic[_Asked, _Answer]):
    """Writes at once while nothing is being written, else all that comes meanwhile.

    So one waits for no more than two writes, however many there are.

    Args:
        write: Writes many, and answers each in its order; an error in the place of an
            answer is raised for that one alone.
        fitting: How many of these, the first, are written at once; at least one.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_Asked]], Awaitable[Sequence[_Answer | Exception]]],
        fitting: Callable[[Sequence[_Asked]], int],
    ) -> None:
        self._write = write
        self._fitting = fitting
        self._asked: list[_Asked] = []
        self._futures: list[asyncio.Future[_Answer]] = []
        self._writing: asyncio.Task[None] | None = None

    async def ask(self, asked: _Asked) -> _Answer:
        """Have it written, with others; it is, even if this is cancelled.

        Raises:
            Exception: What became of it, or of the write as a whole.
        """
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._futures.append(future)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def close(self) -> None:
        """Wait until all is written."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        while self._asked:
            count = self._fitting(self._asked)
            asked, self._asked = self._asked[:count], self._asked[count:]
            futures, self._futures = self._futures[:count], self._futures[count:]
            answers: Sequence[_Answer | Exception]
            try:
                answers = await self._write(asked)
            except Exception as error:
                answers = [error] * len(asked)
            for future, answer in zip(futures, answers, strict=True):
                if future.done():
                    continue  # Whoever asked is gone.
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._writing = None
