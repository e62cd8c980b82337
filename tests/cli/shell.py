"""Commands as a user types them, in this process or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from go_scheduler.cli import main
from go_scheduler.client import Client
from go_scheduler.stores import open_store
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    import pytest

ROOT = Path(__file__).parents[2]


class Shell:
    """Runs commands in this process, on one store.

    Args:
        url: Of the store, or of a server.
        capture: What catches what they print.
        store: The URL of the store of that server; None: there is no server.
    """

    def __init__(
        self,
        url: str,
        capture: pytest.CaptureFixture[str],
        *,
        store: str | None = None,
    ) -> None:
        self.url = url
        self.store = url if store is None else store
        self.option = "--store" if store is None else "--server"
        self.errors = ""
        self._capture = capture

    def at(self, url: str) -> Shell:
        """A shell on another store."""
        return Shell(url, self._capture)

    def __call__(self, *words: str, code: int = 0, where: bool = True) -> str:
        """What a command prints, which ends with this code."""
        given = [*words, self.option, self.url] if where else [*words]
        ended = main(given)
        output, self.errors = self._capture.readouterr()
        assert ended == code, output + self.errors
        return output

    def json(self, *words: str, code: int = 0) -> list[Any]:
        """The objects that a command prints."""
        output = self(*words, "--json", code=code)
        return [json.loads(each) for each in output.splitlines()]

    def refusal(self, *words: str, code: int = 2, where: bool = True) -> str:
        """The one sentence with which a command ends."""
        assert self(*words, code=code, where=where) == ""
        assert "Traceback" not in self.errors
        return self.errors

    def call(self, use: Callable[[Client], Any]) -> Any:
        """What a client of the same store answers."""
        with closing(open_store(self.store)) as store:
            return use(Client(store))


class Process:
    """A command in a process of its own, which goes on until it is ended.

    Args:
        words: The command.
        cwd: Where it is started.
        environment: What it finds in its environment besides.
    """

    def __init__(
        self, *words: str, cwd: Path | None = None, **environment: str
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "go_scheduler", *words],
            cwd=cwd,
            env=clean_environment() | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def until(self, text: str) -> str:
        """Wait until it prints a line with this text; the line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            if text in line:
                return line
        raise AssertionError(f"it has ended without {text!r}: {self.said}")

    def listening(self) -> str:
        """Wait until it serves; its URL."""
        return self.until("listens on").split()[3].rstrip(",")

    def end(self, *signals: signal.Signals) -> int:
        """Its exit code after these signals."""
        with self._process as process:
            for each in signals:
                process.send_signal(each)
            return process.wait(FAILED_AFTER)


def clean_environment() -> dict[str, str]:
    """What a process is given that knows of this checkout and of no settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("GO_SCHEDULER_", "FORCE_COLOR", "NO_COLOR", "PYTHONUNBUFFERED")
        )
    }
    return kept | {"PYTHONPATH": str(ROOT)}
