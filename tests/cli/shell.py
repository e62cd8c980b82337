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
    from collections.abc import Callable

    import pytest

ROOT = Path(__file__).parents[2]


class Shell:
    """Runs commands in this process, on one store.

    Args:
        url: Of the store, or of the server.
        capture: What catches what they print.
        option: Which of them.
    """

    def __init__(
        self,
        url: str,
        capture: pytest.CaptureFixture[str],
        *,
        option: str = "--store",
    ) -> None:
        self.url = url
        self._option = option
        self.errors = ""
        self._capture = capture

    def __call__(self, *words: str, code: int = 0, where: bool = True) -> str:
        """What a command prints, which ends with this code."""
        given = [*words, self._option, self.url] if where else [*words]
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
        with closing(open_store(self.url)) as store:
            return use(Client(store))


def script(
    *words: str, cwd: Path, text: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "go_scheduler", *words],
        cwd=cwd,
        env=clean_environment() | environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=False,
    )


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
