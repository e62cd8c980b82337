"""A program that is run in a process group of its own, and ended with all of it."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

_LOOK_EVERY = 0.2
_DRAINED_WITHIN = 1.0

_groups: set[int] = set()
"""Those that run, each by the id of its first process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of a program.

    Attributes:
        code: Its exit code; of one that a signal has ended, that signal's number below
            zero.
        output: What it wrote, in the middle shortened.
        why: Why it was ended; None: it ended by itself.
    """

    code: int
    output: str
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run, and how.

    Attributes:
        arguments: The path of the program, and what it is given.
        environment: All that it has.
        folder: Where it begins.
        timeout: How long it may take.
        grace: How long it has to end once it is told to.
        kept: How many bytes of its output are kept, of the first and of the last.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    timeout: timedelta
    grace: timedelta
    kept: int


class Output:
    """The first and the last of what a program writes.

    Args:
        kept: How many bytes of each.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._first = bytearray()
        self._last = bytearray()
        self._dropped = 0

    def add(self, more: bytes) -> None:
        """Take what was written next."""
        room = self._kept - len(self._first)
        self._first += more[:room]
        self._last += more[room:]
        if (excess := len(self._last) - self._kept) > 0:
            del self._last[:excess]
            self._dropped += excess

    @property
    def text(self) -> str:
        """What is kept."""
        between = b""
        if self._dropped:
            between = f"\n[… {self._dropped} bytes …]\n".encode()
        return (self._first + between + self._last).decode(errors="replace").strip()


async def run_program(program: Program, unwanted: Callable[[], str | None]) -> Ended:
    """Run a program to its end; no process of its group is left.

    If this is cancelled, it is ended too.

    Args:
        program: The program.
        unwanted: Asked a few times a second why it is to be ended; None: it is not.

    Raises:
        OSError: It could not be started.
    """
    output = Output(program.kept)
    readable, writable = os.pipe()
    reading = await _read(readable, output)
    try:
        try:
            process, cancelled = await _started(program, writable)
        finally:
            os.close(writable)
        _groups.add(process.pid)
        try:
            if cancelled is not None:
                raise cancelled
            why = await _wait(process, program.timeout, unwanted)
        finally:
            await _end(process, program.grace)
            _groups.discard(process.pid)
        # What has left the group may keep the pipe open for ever.
        await asyncio.wait([reading.ended], timeout=_DRAINED_WITHIN)
    finally:
        reading.close()
    assert process.returncode is not None
    return Ended(code=process.returncode, output=output.text, why=why)


async def _started(
    program: Program, writable: int
) -> tuple[Process, asyncio.CancelledError | None]:
    """Start a program, even if this is cancelled meanwhile, which is answered.

    The event loop itself would end the first process of the group alone.
    """
    cancelled = None
    starting = asyncio.ensure_future(_start(program, writable))
    while not starting.done():
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError as error:
            cancelled = error
    return starting.result(), cancelled


async def _start(program: Program, writable: int) -> Process:
    return await asyncio.create_subprocess_exec(
        *program.arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=writable,
        stderr=writable,
        env=program.environment,
        cwd=program.folder,
        start_new_session=True,
    )


async def _wait(
    process: Process, timeout: timedelta, unwanted: Callable[[], str | None]
) -> str | None:
    """Wait for its end, and answer why that is to be brought about."""
    ended = asyncio.ensure_future(process.wait())
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while not (await asyncio.wait([ended], timeout=_LOOK_EVERY))[0]:
                if (why := unwanted()) is not None:
                    return why
    except TimeoutError:
        return f"it took longer than {timeout}"
    finally:
        ended.cancel()
    return None


async def _end(process: Process, grace: timedelta) -> None:
    try:
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace.total_seconds()):
                    await process.wait()
    finally:
        # Those too that it has started, which may outlive it.
        _signal(process.pid, signal.SIGKILL)
        await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


@atexit.register
def _end_all() -> None:
    """End what a stop has left behind: it may run elsewhere soon."""
    for group in tuple(_groups):
        _signal(group, signal.SIGKILL)


class _Reading(asyncio.Protocol):
    """Reads a pipe until its end."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._transport: asyncio.BaseTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._output.add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)

    def close(self) -> None:
        """Read no more."""
        assert self._transport is not None
        self._transport.close()


async def _read(readable: int, output: Output) -> _Reading:
    loop = asyncio.get_running_loop()
    _, reading = await loop.connect_read_pipe(
        lambda: _Reading(output), os.fdopen(readable, "rb", buffering=0)
    )
    return reading
