"""The workers in other languages do what the protocol asks of a worker."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler import State
from go_scheduler.policies import RetryPolicy
from go_scheduler.stores.memory.store import MemoryStore
from tests.http.work.house import Server, server, wait_until
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskInstance

EXAMPLES = Path(__file__).parents[3] / "examples"
SHORT = timedelta(seconds=1)
# How each language is asked for its version, and which it has to be.
LANGUAGES = {"node": ("--version", (18, 0)), "go": ("version", (1, 23))}

pytestmark = [pytest.mark.slow, pytest.mark.documentation]


@pytest.fixture(scope="session", params=LANGUAGES)
def command(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """What starts the worker in a language that is installed here."""
    program, (ask, needed) = shutil.which(request.param), LANGUAGES[request.param]
    told = "" if program is None else subprocess.check_output([program, ask], text=True)
    found = re.search(r"(\d+)\.(\d+)", told)
    if program is None or found is None or (int(found[1]), int(found[2])) < needed:
        pytest.skip(f"needs {request.param} {needed[0]}.{needed[1]} or later: {told}")
    if request.param == "node":
        return [program, str(EXAMPLES / "http_worker.mjs")]
    built = str(tmp_path_factory.mktemp("go") / "worker")
    source = str(EXAMPLES / "http_worker.go")
    # It asks nobody for another version of Go.
    env = os.environ | {"GOTOOLCHAIN": "local"}
    subprocess.run([program, "build", "-o", built, source], check=True, env=env)
    return [built]


@pytest.fixture
def one() -> Iterator[Server]:
    retry = RetryPolicy(max_attempts=1)
    with server(MemoryStore(), retry=retry, lease=SHORT, work_lease=SHORT) as found:
        yield found


@contextmanager
def working(command: list[str], one: Server) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*command, one.url, "default,other"],
        env=os.environ | {"GO_SCHEDULER_TOKEN": "none"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            one.wait_for_waiting("default,other", 1)
            yield process
        finally:
            process.kill()


def ended(one: Server, made: TaskInstance) -> TaskInstance:
    wait_until(lambda: one.scheduler.get_instance(made.id).completed_at is not None)
    return one.scheduler.get_instance(made.id)


def begun(one: Server, **payload: float) -> TaskInstance:
    """A run that has said how far it has come."""
    made = one.scheduler.run_now(one.task(name="x").id, payload=payload)
    wait_until(lambda: one.scheduler.get_instance(made.id).progress is not None)
    return one.scheduler.get_instance(made.id)


def test_it_runs_work_and_says_how_far_it_has_come_and_what_came_of_it(
    command: list[str], one: Server
) -> None:
    with working(command, one) as process:
        task = one.task(name="count", queue="other")
        good = ended(one, one.scheduler.run_now(task.id, payload={"steps": 2}))
        assert good.result == {"type": "count", "steps": 2}
        assert good.progress == {"done": 2, "of": 2}
        assert good.worker is not None
        assert good.worker.endswith(f" {process.pid}")
        bad = ended(one, one.scheduler.run_now(task.id, payload={"steps": -1}))
        assert bad.state is State.FAILED
        assert "steps must be above zero: -1" in (bad.error or "")


def test_it_keeps_what_takes_long_and_ends_what_is_cancelled(
    command: list[str], one: Server
) -> None:
    with working(command, one):
        long = one.scheduler.run_now(one.task().id, payload={"seconds": 3})
        stopped = begun(one, steps=10**6, seconds=0.1, extend=600)
        assert stopped.expires_at is not None
        assert stopped.expires_at - one.now() > timedelta(minutes=9)
        one.scheduler.cancel(stopped.id)
        cancelled = ended(one, stopped)
        assert cancelled.state is State.CANCELLED
        # It has ended by itself, and was not given up.
        assert re.search("abort|cancel", cancelled.error or "")
        # Three times its lease, without a word of its handler.
        kept = ended(one, long)
        assert (kept.state, kept.attempt) == (State.COMPLETED, 1)


def test_at_a_signal_it_takes_no_more_and_ends_what_runs(
    command: list[str], one: Server
) -> None:
    with working(command, one) as process:
        last = begun(one, steps=5, seconds=0.2)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: one.waiting("default,other") == 0)
        never = one.scheduler.run_now(one.task().id)
        assert process.wait(FAILED_AFTER) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert one.scheduler.get_instance(last.id).state is State.COMPLETED
    assert one.scheduler.get_instance(never.id).state is State.PENDING
