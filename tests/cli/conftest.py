"""A shell on a store of each kind that processes can share."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import Shell

if TYPE_CHECKING:
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
