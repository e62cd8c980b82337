"""The worker script of the documentation works."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.stores.memory.store import MemoryStore
from tests.http.work.house import Server, server, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs/workers.md"
NEEDED = ("bash", "curl", "jq")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"
    ),
]


def shown() -> str:
    found = re.search(
        r'```bash title="worker.sh"\n(.*?)^```$', PAGE.read_text(), re.S | re.M
    )
    assert found is not None
    return found[1]


@contextmanager
def worker(at: Server, folder: Path, program: str) -> Iterator[None]:
    script = folder / "worker.sh"
    script.write_text(program)
    process = subprocess.Popen(
        ["bash", script, at.url],
        env=os.environ | {"GO_SCHEDULER_TOKEN": "none"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_it_has_some_fifteen_lines() -> None:
    assert len(shown().splitlines()) <= 17


def test_it_does_what_it_is_handed(tmp_path: Path) -> None:
    with server(MemoryStore()) as one, worker(one, tmp_path, shown()):
        task = one.task(name="greet")
        made = [
            one.scheduler.run_now(task.id, payload={"order": each}) for each in range(3)
        ]
        for each in made:
            wait_until(
                lambda id=each.id: (
                    one.scheduler.get_instance(id).state  # type: ignore[misc]
                    is State.COMPLETED
                )
            )


def test_it_says_what_went_wrong(tmp_path: Path) -> None:
    program = re.sub(r"^handle.*$", "handle() { cat /nowhere; }", shown(), flags=re.M)
    with server(MemoryStore()) as one, worker(one, tmp_path, program):
        made = one.scheduler.run_now(one.task().id)
        wait_until(
            lambda: "/nowhere" in (one.scheduler.get_instance(made.id).error or "")
        )


def test_it_keeps_what_takes_long(tmp_path: Path) -> None:
    slow = 'handle() { until [ -e "$0.go" ]; do sleep 0.05; done; }'
    program = re.sub(r"^handle.*$", slow, shown(), flags=re.M)
    program = program.replace("sleep 10", "sleep 0.2")
    with server(MemoryStore()) as one, worker(one, tmp_path, program):
        made = one.scheduler.run_now(one.task().id)

        def kept_until() -> object:
            return one.scheduler.get_instance(made.id).expires_at

        wait_until(lambda: kept_until() is not None)
        before = kept_until()
        wait_until(lambda: kept_until() != before)
        between = kept_until()
        wait_until(lambda: kept_until() != between)
        (tmp_path / "worker.sh.go").touch()
        wait_until(lambda: one.scheduler.get_instance(made.id).state is State.COMPLETED)
