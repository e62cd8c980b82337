"""The command `worker`: handlers of one's own, on a store."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler import Scheduler
from tests.cli.shell import Shell, clean_environment
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = """
import sys
from go_scheduler import HandlerRegistry

registry = HandlerRegistry()
not_callable = 5

@registry.task("send")
def send(order: int) -> None:
    print("sent", order, flush=True)

@registry.task("wait")
def wait() -> None:
    print("waits", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"jobs_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


class Worker:
    """`go_scheduler worker` in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "go_scheduler", "worker", *words],
            cwd=folder,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self._lines = self.process.stdout

    def until(self, text: str) -> None:
        for line in self._lines:
            if text in line:
                return
        raise AssertionError(f"it has ended without {text!r}")

    def end(self) -> int:
        code = self.process.wait(FAILED_AFTER)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._lines.close()
        return code


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("is_remote", [False, True], ids=["store", "server"])
def test_a_worker_runs_jobs_until_a_signal(
    shell: Shell, far: Shell, module: str, tmp_path: Path, is_remote: bool
) -> None:
    used, option = (far, "--server") if is_remote else (shell, "--store")
    shell("add", "send", "--on-demand", "--key", "task send")
    worker = Worker(tmp_path, f"{module}:registry", option, used.url)
    of = f", of {far.url}" if is_remote else ""
    worker.until(f"for the queues default{of}")
    used("run", "send", "--payload", '{"order": 7}')
    worker.until("sent 7")
    while is_remote and not far.json("stats")[0]["instances"]["completed"]:
        pass
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 0
    assert shell.json("stats")[0]["instances"]["completed"] == 1


@pytest.mark.slow
@pytest.mark.chaos
def test_another_worker_runs_what_a_killed_one_had_and_two_signals_leave_it(
    shell: Shell, module: str, tmp_path: Path
) -> None:
    Path("go_scheduler.yaml").write_text("scheduler: {lease: 1s, expire_after: 2s}")
    shell("add", "wait", "--on-demand", "--key", "task wait")
    shell("run", "wait")
    words = (f"{module}:registry", "--store", shell.url)
    killed = Worker(tmp_path, *words)
    killed.until("waits")
    killed.process.kill()
    assert killed.end() == -9
    other = Worker(tmp_path, *words)
    other.until("waits")
    for number in (signal.SIGINT, signal.SIGTERM):
        other.process.send_signal(number)
    assert other.end() == 0
    assert shell.json("stats")[0]["instances"]["completed"] == 0


def test_settings_are_those_of_the_configuration_and_of_options(
    shell: Shell, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Scheduler] = []
    monkeypatch.setattr(Scheduler, "run", lambda self: made.append(self))
    text = f"store: {shell.url}\nscheduler: {{queues: [a], max_workers: 2}}\n"
    Path("go_scheduler.yaml").write_text(text)
    assert shell("worker", f"{module}:registry", where=False) == (
        f"runs {module}:registry for the queues a\n"
    )
    words = ("worker", f"{module}:registry", "--queues", "b, c", "--max-workers", "3")
    assert "queues b, c" in shell(*words, where=False)
    settings = [each._settings for each in made]
    assert [each.queues for each in settings] == [("a",), ("b", "c")]
    assert [each.max_workers for each in settings] == [2, 3]
    assert "DEFINITION" in shell("list", where=False)
    Path("go_scheduler.yaml").write_text("server: {}")
    assert "say where" in shell.refusal("list", where=False)


def test_what_cannot_be_imported_is_told(shell: Shell, module: str) -> None:
    Path("broken_jobs.py").write_text("1 / 0")
    for named, text in (
        ("jobs", "must be a module and a name in it, such as myapp.jobs:registry"),
        ("no_such_module:registry", "there is no module no_such_module, neither"),
        ("broken_jobs:registry", "cannot be imported: ZeroDivisionError: division"),
        (f"{module}:nothing", f"{module} has no nothing"),
        (f"{module}:registri", f"{module} has no registri: did you mean registry?"),
        (f"{module}:not_callable", "the handler cannot be called: 5"),
    ):
        assert text in shell.refusal("worker", named)
