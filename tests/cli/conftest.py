"""A shell on a store of each kind that processes can share."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from go_scheduler import Scheduler
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.work.crews import Crews
from go_scheduler.stores import open_store
from tests.cli.shell import Shell
from tests.http.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave nothing of the machine's that a command would find."""
    for name in os.environ:
        if name.startswith("GO_SCHEDULER_") and not name.startswith(
            "GO_SCHEDULER_TEST_"
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shell(
    sqlite_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """On an empty file of SQLite."""
    return Shell(f"sqlite:///{shutil.copy(sqlite_file, tmp_path / 'cli.db')}", capsys)


@pytest.fixture
def server(shell: Shell) -> Iterator[str]:
    """A server on the store of the shell, which runs nothing and hands out work."""
    with closing(open_store(shell.url)) as store:
        scheduler = Scheduler(None, store)
        work = Crews(scheduler)
        with served(create_app(Client(store), work=work)) as (host, port):
            yield f"http://{host}:{port}"


@pytest.fixture
def far(server: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The same shell, by the server."""
    return Shell(server, capsys, option="--server")
