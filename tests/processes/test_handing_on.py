"""What one process has handed on, another one keeps and ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.testing.builders import definition
from tests.conftest import SHARED
from tests.patience import FAILED_AFTER
from tests.processes.node import Role
from tests.processes.process import ROOT, processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.parametrize("engine", SHARED),
]

KEPT = 2.0
"""Seconds for which the nodes keep what is handed on."""


class Worker:
    """The process that has the work."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, name: str, id: str, attempt: int, *seconds: float) -> str:
        """Let it call a method of its client, and answer what that returned."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, id, attempt, *seconds]) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def worker(url: str) -> Iterator[Worker]:
    """One that ends with this."""
    program = str(Path(__file__).with_name("worker.py"))
    with subprocess.Popen(
        [sys.executable, program, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield Worker(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(FAILED_AFTER) == 0
        finally:
            process.kill()


def test_what_is_kept_outlives_its_node_and_what_is_not_runs_again(
    own_time_store: Store, store_url: str, tmp_path: Path
) -> None:
    store = own_time_store
    store.put_definitions([definition(store.now()) for _ in range(2)])
    role = Role(lease=1, runner_window=0.2, keeps=KEPT)
    with processes(store_url, tmp_path) as nodes, worker(store_url) as outside:
        one = nodes.start(role)
        one.wait_until("called", 2)
        kept, left = one.called()
        # Its last claim is recorded: from here on nobody but the worker has them.
        one.stop()
        assert outside.call("extend", *kept, 10 * FAILED_AFTER) == "go on"
        assert store.counts()[State.RUNNING] == 2
        two = nodes.start(Role(lease=1, runner_window=0.2))
        two.wait_until("called")
        assert outside.call("complete", *kept) == "True"
        assert outside.call("complete", *kept) == "True"
        two.stop()
        assert two.called() == [(left[0], 2)]
        assert outside.call("complete", *left) == "False"
        assert outside.call("extend", *left, KEPT) == "lost"
    found = {str(each.id): each for each in store.list_instances()}
    assert [found[id].ended_attempt for id, _ in (kept, left)] == [1, 2]
    assert store.counts()[State.COMPLETED] == 2
    assert found[left[0]].runs == 2
    started_at, again = found[kept[0]].started_at, found[left[0]].started_at
    assert started_at is not None
    assert again is not None
    assert again > started_at + timedelta(seconds=KEPT)
