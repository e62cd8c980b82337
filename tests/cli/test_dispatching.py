"""The command `dispatch-worker`: handlers of one's own, for schedulers on a bus."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.dispatch import DispatchWorker
from tests.cli.shell import Shell, clean_environment
from tests.dispatch.working.bench import bench
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from tests.rabbitmq_servers import RabbitMQServer

MODULE = """
import sys
from go_scheduler import HandlerRegistry

registry = HandlerRegistry()

@registry.task("send")
def send(order: int) -> int:
    return order + 1

@registry.task("wait")
def wait() -> None:
    sys.stdin.read()
"""
TASKS = ("bus_jobs:registry",)


@pytest.fixture
def shell(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    (tmp_path / "bus_jobs.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "bus_jobs", raising=False)
    return Shell("", capsys)


def test_its_options_are_those_of_the_worker(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DispatchWorker] = []
    monkeypatch.setattr(DispatchWorker, "run", lambda self: made.append(self))
    words = [*TASKS, "--bus", "memory://x", "--queues", "a, b", "--max-workers", "3"]
    words += ("--limit", "send=2", "--limit", "wait=1", "--topic-per-task", "send")
    words += ("--namespace", "mine", "--name", "N")
    assert "for the queues a, b\n" in shell("dispatch-worker", *words, where=False)
    assert "none of the tasks send, wait is in 'b', but in default" in shell.errors
    monkeypatch.setenv("GO_SCHEDULER_BUS", "memory://y")
    shell("dispatch-worker", *TASKS, "--topic-per-task", "all", where=False)
    told = shell("dispatch-worker", *TASKS, where=False)
    assert "for the queue default, as --queues names no other\n" in told
    assert "none of the tasks" not in shell.errors
    monkeypatch.delenv("GO_SCHEDULER_BUS")
    section = "{url: memory://z, namespace: kept, topic_per_task: true}"
    Path("go_scheduler.yaml").write_text(f"dispatch: {section}")
    shell("dispatch-worker", *TASKS, where=False)
    words = ["--namespace", "mine", "--topic-per-task", "send"]
    shell("dispatch-worker", *TASKS, *words, where=False)
    first, second, third, fourth, fifth = [each._new_life()._settings for each in made]  # type: ignore[attr-defined]
    assert (first.max_workers, first.name) == (3, "N")
    assert first.limits == {"send": 2, "wait": 1}
    assert first.served == {
        f"mine.run.{queue}{own}": task
        for queue in ("a", "b")
        for own, task in (("", None), (".send", "send"))
    }
    default = "go_scheduler.run.default"
    registered = ("send", "wait")
    assert second.served == {f"{default}.{task}": task for task in registered}
    assert third.served == {default: None}
    assert set(fourth.served) == {f"kept.run.default.{task}" for task in registered}
    assert set(fifth.served) == {"mine.run.default", "mine.run.default.send"}
    assert third.max_workers == 32
    assert " " not in third.name


@pytest.mark.parametrize(
    ("bus", "is_told"), [("memory://x", True), ("amqp://127.0.0.1:1", False)]
)
def test_a_bus_that_no_scheduler_elsewhere_has_is_told_of(
    bus: str, is_told: bool, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DispatchWorker, "run", lambda self: None)
    told = shell("dispatch-worker", *TASKS, "--bus", bus, where=False)
    assert told.startswith("runs " if is_told else "once the bus is there, runs ")
    assert ("is within this process" in shell.errors) is is_told


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "say which bus: --bus URL, GO_SCHEDULER_BUS, or dispatch.url in the"),
        (("--bus", "what"), "a bus's URL begins with a scheme"),
        (("--bus", "memory://", "--limit", "send"), "such as resize=2: 'send'"),
        (("--bus", "memory://", "--limit", "send=x"), "such as resize=2: 'send=x'"),
        (("--bus", "memory://", "--limit", "x=1"), "no handler is registered as 'x'"),
    ],
)
def test_what_is_wrong_is_told(shell: Shell, words: tuple[str, ...], text: str) -> None:
    assert text in shell.refusal("dispatch-worker", *TASKS, *words, where=False)


def test_whoever_a_broker_does_not_let_in_is_told_and_runs_nothing(
    shell: Shell, rabbitmq_server: RabbitMQServer
) -> None:
    url = rabbitmq_server.url.replace("guest:guest@", "nobody:secret@")
    assert "nobody" in url
    words = ("dispatch-worker", *TASKS, "--bus", url)
    told = shell.refusal(*words, code=3, where=False)
    assert "the bus at amqp://nobody:***@" in told
    assert "ACCESS_REFUSED" in told


@pytest.mark.slow
def test_workers_share_what_is_on_a_bus_and_leave_it_when_they_end_at_once(
    shell: Shell, rabbitmq_server: RabbitMQServer
) -> None:
    namespace = f"tests-{uuid4()}"
    environment = clean_environment() | {"GO_SCHEDULER_BUS": rabbitmq_server.url}

    def started(name: str) -> subprocess.Popen[str]:
        words = ("--namespace", namespace, "--name", name, "--max-workers", "1")
        return subprocess.Popen(
            [sys.executable, "-m", "go_scheduler", "dispatch-worker", *TASKS, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    with (
        bench(rabbitmq_server.url, namespace) as one,
        started("first") as first,
    ):
        held = one.publish(task="wait")
        one.until(held, "started")
        # The first has no place for it.
        other = one.publish(payload={"order": 6})
        with started("second") as second:
            assert one.end_of(other).result == 7
            assert one.end_of(other).worker == "second"
            first.kill()
            assert first.wait(FAILED_AFTER)
            again = one.publish(payload={"order": 7})
            assert one.end_of(again).worker == "second"
            assert one.of(held) == ["accepted", "started"]
            left = one.publish(task="wait")
            one.until(left, "started")
            second.send_signal(signal.SIGTERM)
            second.send_signal(signal.SIGINT)
            assert second.wait(FAILED_AFTER) == 0
            assert one.of(left) == ["accepted", "started"]
