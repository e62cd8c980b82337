"""Nodes as processes: started, told, waited for, frozen and killed by a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.builders import all_pages
from tests.audits import check_audit
from tests.conftest import SHARED
from tests.patience import FAILED_AFTER
from tests.traces import check_traces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from tests.processes.node import Role

ROOT = Path(__file__).parents[2]
ON_SHARED_STORES = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.parametrize("engine", SHARED),
]
"""The ``pytestmark`` of tests of processes that share a store."""


class Process:
    """A process that is a node.

    Args:
        url: The URL of its store.
        file: What it did is written here.
        role: What it does.
        news: Notified of each line that it writes.
    """

    def __init__(
        self, url: str, file: Path, role: Role, *, news: threading.Condition
    ) -> None:
        self.file = file
        self._news = news
        self._told: Counter[str] = Counter()
        self._errors = file.with_suffix(".errors").open("w+")
        program = str(Path(__file__).with_name("node.py"))
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
            word, *rest = line.split()
            with self._news:
                self._told[word] += int(rest[0]) if word == "created" else 1
                self._news.notify_all()

    def told(self, word: str) -> int:
        """How often it has said this; of "created": how many in all."""
        return self._told[word]

    def wait_until(self, word: str, count: int = 1) -> None:
        """Wait until it has said this so often."""
        wait_until([self], word, count, news=self._news)

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

    def ask_to_stop(self) -> None:
        """Let it stop by itself, and do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> None:
        """Let it stop by itself, and wait for it."""
        self.ask_to_stop()
        assert self._wait() == 0, self.errors()

    def called(self) -> list[tuple[str, int]]:
        """The ids and attempts of the instances whose handlers it called."""
        words = (line.split() for line in self.file.read_text().splitlines())
        return [(each[1], int(each[2])) for each in words if each[0] == "called"]

    def errors(self) -> str:
        """What it has written to standard error."""
        return Path(self._errors.name).read_text()

    def _wait(self) -> int:
        code = self._process.wait(FAILED_AFTER)
        self._reader.join(FAILED_AFTER)
        return code

    def close(self) -> None:
        """Leave nothing of it behind."""
        self._process.kill()
        self._wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()


class Processes:
    """Starts nodes on one store, each with a file of its own in a folder."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._url = url
        self._folder = folder
        self._stack = stack
        self._news = threading.Condition()
        self._count = 0

    def start(self, role: Role) -> Process:
        """Start one, which is ready when this returns."""
        [process] = self.start_many(1, role)
        process.wait_until("ready")
        return process

    def start_many(self, count: int, role: Role) -> Sequence[Process]:
        """Start several, and do not wait for them."""
        return [self._start(role) for _ in range(count)]

    def wait_until(self, given: Sequence[Process], word: str, count: int) -> None:
        """Wait until these, taken together, have said this so often."""
        wait_until(given, word, count, news=self._news)

    def _start(self, role: Role) -> Process:
        self._count += 1
        file = self._folder / f"node-{self._count}.txt"
        process = Process(self._url, file, role, news=self._news)
        self._stack.callback(process.close)
        return process


def wait_until(
    given: Sequence[Process], word: str, count: int, *, news: threading.Condition
) -> None:
    """Wait until processes, taken together, have said something so often."""

    def told() -> int:
        return sum(each.told(word) for each in given)

    with news:
        if not news.wait_for(lambda: told() >= count, FAILED_AFTER):
            errors = "\n".join(each.errors() for each in given)
            raise AssertionError(f"{word}: {told()} of {count}\n{errors}")


def stop_all(started: Sequence[Process]) -> None:
    """Let all stop at once, and wait for them."""
    for node in started:
        node.ask_to_stop()
    for node in started:
        node.stop()


def all_instances(store: Store) -> Sequence[TaskInstance]:
    """All that nodes have left in a store, in the order of ``execute_at``."""
    return all_pages(store.select, limit=1000)


@contextmanager
def processes(
    url: str, folder: Path, *, audited: Store | None = None
) -> Iterator[Processes]:
    """What starts nodes on a store; none of them outlives this.

    Args:
        url: The store.
        folder: Where they write what they tell.
        audited: The same store: what was due meanwhile is audited at the end, and what
            it answered is checked.
    """
    since = None if audited is None else audited.now()
    with ExitStack() as stack:
        yield Processes(url, folder, stack)
    if audited is not None:
        check_audit(audited, since)
        check_traces(folder)
