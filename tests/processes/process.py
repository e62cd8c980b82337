"""Nodes as processes: started, told, waited for, frozen and killed by a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.processes.node import Role

ROOT = Path(__file__).parents[2]
FAILED_AFTER = 90.0
"""Seconds that nothing takes unless it has failed."""


class Process:
    """A process that is a node.

    Args:
        url: The URL of its store.
        file: What it did is written here.
        role: What it does.
        lines: Where its lines go as well, those of several processes perhaps.
    """

    def __init__(
        self, url: str, file: Path, role: Role, *, lines: Queue[str] | None = None
    ) -> None:
        self.file = file
        self.lines: Queue[str] = Queue() if lines is None else lines
        program = str(Path(__file__).with_name("node.py"))
        self._errors = (file.with_suffix(".errors")).open("w+")
        self._process = subprocess.Popen(
            [sys.executable, program, url, str(file), json.dumps(asdict(role))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line.strip())

    def wait_for(self, beginning: str) -> str:
        """The next line that begins so; those before it are passed over."""
        while not (line := self.next_line()).startswith(beginning):
            pass
        return line

    def next_line(self) -> str:
        """The next line that it, or one that shares its lines, writes."""
        try:
            return self.lines.get(timeout=FAILED_AFTER)
        except Empty:
            raise AssertionError(f"no line came; errors:\n{self.errors()}") from None

    def errors(self) -> str:
        """What it has written to standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def go(self) -> None:
        """Let its handlers go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        """Stop it as a debugger or a suspended machine does."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """Let it go on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a chance to say goodbye."""
        self._process.kill()
        self._wait()

    def stop(self) -> None:
        """Let it stop by itself."""
        self.ask_to_stop()
        assert self._wait() == 0, self.errors()

    def ask_to_stop(self) -> None:
        """Do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def called(self) -> list[tuple[str, int]]:
        """The ids and attempts of the instances whose handlers it called."""
        words = (line.split() for line in self.file.read_text().splitlines())
        return [(each[1], int(each[2])) for each in words if each[0] == "called"]

    def created(self) -> int:
        """How many instances it created."""
        words = (line.split() for line in self.file.read_text().splitlines())
        return sum(int(each[1]) for each in words if each[0] == "created")

    def _wait(self) -> int:
        code = self._process.wait(FAILED_AFTER)
        self._reader.join(FAILED_AFTER)
        return code

    def close(self) -> None:
        """Leave nothing of it behind."""
        self._process.kill()
        self._wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()


class Processes:
    """Starts nodes on one store, each with a file of its own in a folder."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._url = url
        self._folder = folder
        self._stack = stack
        self._count = 0

    def start(self, role: Role) -> Process:
        """Start one, which is ready when this returns."""
        [process] = self.start_many(1, role)
        return process

    def start_many(self, count: int, role: Role) -> list[Process]:
        """Start several, whose lines come together."""
        lines: Queue[str] = Queue()
        made = [self._start(role, lines) for _ in range(count)]
        for process in made:
            process.wait_for("ready")
        return made

    def _start(self, role: Role, lines: Queue[str]) -> Process:
        self._count += 1
        file = self._folder / f"node-{self._count}.txt"
        process = Process(self._url, file, role, lines=lines)
        self._stack.callback(process.close)
        return process


@contextmanager
def processes(url: str, folder: Path) -> Iterator[Processes]:
    """What starts nodes on a store; none of them outlives this."""
    with ExitStack() as stack:
        yield Processes(url, folder, stack)
