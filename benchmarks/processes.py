"""The processes that measure, each one thing once."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.experiment import Call

HERE = Path(__file__).parents[1]
LIMIT = 600
LIMIT_OF_FILLING = 7_200
"""Seconds after which a process is ended; one that fills tables may take long."""

# The package is imported first and of the tree that is measured, these modules of the
# tree that they are in. A peer's interpreter may not have the package at all.
_BOOT = """
import sys
here, tree = sys.argv[1:3]
if tree:
    sys.path.insert(0, tree)
    import go_scheduler
sys.path.insert(0, here)
from benchmarks.child import main
main(*sys.argv[3:])
"""


class Failed(Exception):
    """A process ended without an answer; the text says why."""


class ForkServers:
    """Has functions called, each in a new process.

    For each checkout and interpreter there is a process that has imported what they
    need. A process that measures is a fork of it: to import takes longer than most of
    what is measured.
    """

    def __init__(self) -> None:
        self._servers: dict[tuple[Path | None, str], subprocess.Popen[str]] = {}

    def __enter__(self) -> ForkServers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for tree, python in list(self._servers):
            self._end(tree, python)

    def answer(
        self,
        call: Call,
        url: str,
        *,
        tree: Path | None,
        python: str = sys.executable,
        limit: int = LIMIT,
    ) -> dict[str, float]:
        """What a function answers that a new process calls.

        Args:
            call: The function.
            url: Of the database that it is given.
            tree: The checkout whose package is measured; None: none is.
            python: The interpreter.
            limit: The most seconds that it may take.

        Raises:
            Failed: It raised, or took too long.
        """
        server = self._server(tree, python)
        assert server.stdin is not None
        assert server.stdout is not None
        with suppress(BrokenPipeError):
            print(_spec(call, url), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], limit)[0]:
            self._end(tree, python)
            raise Failed(f"took longer than {limit} s")
        if not (said := server.stdout.readline()):
            raise Failed(self._end(tree, python))
        answered: dict[str, float] = json.loads(said)
        if "failed" in answered:
            raise Failed(answered["failed"])
        return answered

    def _server(self, tree: Path | None, python: str) -> subprocess.Popen[str]:
        if (tree, python) not in self._servers:
            self._servers[tree, python] = _popen(tree, python, session=True)
        return self._servers[tree, python]

    def _end(self, tree: Path | None, python: str) -> str:
        """Kill it, its forks, and what they have started; the last that it said."""
        server = self._servers.pop((tree, python))
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        _, complaint = server.communicate()
        return (complaint.strip().splitlines() or ["no word"])[-1]


def start(
    call: Call, url: str, *, tree: Path | None, python: str = sys.executable
) -> subprocess.Popen[str]:
    """Begin a process that calls a function, with pipes to and from it."""
    return _popen(tree, python, _spec(call, url))


def _popen(
    tree: Path | None, python: str, *spec: str, session: bool = False
) -> subprocess.Popen[str]:
    where = [str(HERE), "" if tree is None else str(tree)]
    return subprocess.Popen(
        [python, "-c", _BOOT, *where, *spec],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        start_new_session=session,
    )


def _spec(call: Call, url: str) -> str:
    return json.dumps(
        {"function": call.function, "url": url, "arguments": dict(call.arguments)}
    )
