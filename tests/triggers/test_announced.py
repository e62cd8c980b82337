"""Triggers that an installed package brings and announces."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
from dataclasses import dataclass
from datetime import datetime, timedelta
from go_scheduler import Trigger

@dataclass(frozen=True)
class TickTrigger(Trigger):
    kind = "tiny.tick"
    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + timedelta(milliseconds=50)
"""
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
ENTRY_POINTS = "[go_scheduler.triggers]\ntick = tiny:TickTrigger\n"
SCHEDULE = """
import sys
from go_scheduler import Scheduler, TaskDefinition
from go_scheduler.stores import open_store
from tiny import TickTrigger
store = open_store(sys.argv[1])
Scheduler(None, store).schedule(TaskDefinition(trigger=TickTrigger()))
store.close()
"""
RUN = """
import sys, threading
from go_scheduler import Scheduler
from go_scheduler.stores import open_store
assert "tiny" not in sys.modules
ran = threading.Semaphore(0)
with Scheduler(lambda instance: ran.release(), open_store(sys.argv[1])):
    assert all(ran.acquire(timeout=30) for _ in range(3))
print(sys.modules["tiny"].TickTrigger.kind)
"""


def install(path: Path) -> None:
    (path / "tiny.py").write_text(CODE, encoding="utf-8")
    info = path / "tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA, encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")


def python(program: str, path: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{path / 'tasks.db'}"],
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


def test_a_process_that_does_not_import_it_runs_it(tmp_path: Path) -> None:
    install(tmp_path)
    python(SCHEDULE, tmp_path)
    assert python(RUN, tmp_path) == "tiny.tick"
