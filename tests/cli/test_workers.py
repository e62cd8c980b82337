"""The commands `worker` and `dispatch-worker`: handlers of one's own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import Scheduler
from go_scheduler.dispatch import DispatchWorker
from tests.cli.shell import Process, Shell
from tests.dispatch.working.bench import bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rabbitmq_servers import RabbitMQServer

MODULE = """
import sys
from go_scheduler import HandlerRegistry

registry = HandlerRegistry()
not_callable = 5

@registry.task("send")
def send(order: int) -> int:
    print("sent", order, flush=True)
    return order + 1

@registry.task("wait")
def wait() -> None:
    print("waits", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def module(importable: Callable[[str], str]) -> str:
    return importable(MODULE)


@pytest.fixture
def registry(module: str) -> str:
    return f"{module}:registry"


@pytest.mark.slow
@pytest.mark.chaos
def test_a_worker_runs_jobs_until_a_signal(
    either: Shell, near: Shell, registry: str
) -> None:
    is_far = either is not near
    near("add", "send", "--on-demand", "--key", "task send")
    worker = Process("worker", registry, either.option, either.url)
    worker.until(f"for the queues default{f', of {either.url}' if is_far else ''}")
    either("run", "send", "--payload", '{"order": 7}')
    worker.until("sent 7")
    while is_far and not near.json("stats")[0]["instances"]["completed"]:
        pass
    assert worker.end(signal.SIGTERM) == 0
    assert near.json("stats")[0]["instances"]["completed"] == 1


@pytest.mark.slow
@pytest.mark.chaos
def test_another_worker_runs_what_a_killed_one_had_and_two_signals_leave_it(
    shell: Shell, registry: str
) -> None:
    Path("go_scheduler.yaml").write_text("scheduler: {lease: 1s, expire_after: 2s}")
    shell("add", "wait", "--on-demand", "--key", "task wait")
    shell("run", "wait")
    words = ("worker", registry, "--store", shell.url)
    for signals, code in (
        ((signal.SIGKILL,), -9),
        ((signal.SIGINT, signal.SIGTERM), 0),
    ):
        worker = Process(*words)
        worker.until("waits")
        assert worker.end(*signals) == code
    assert shell.json("stats")[0]["instances"]["completed"] == 0


def test_settings_are_those_of_the_configuration_and_of_options(
    shell: Shell, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Scheduler] = []
    monkeypatch.setattr(Scheduler, "run", lambda self: made.append(self))
    text = f"store: {shell.url}\nscheduler: {{queues: [a], max_workers: 2}}\n"
    Path("go_scheduler.yaml").write_text(text)
    assert shell("worker", registry, where=False) == (
        f"runs {registry} for the queues a\n"
    )
    words = ("worker", registry, "--queues", "b, c", "--max-workers", "3")
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
        (f"{module}:not_callable", ":not_callable is neither a handler nor a registry"),
    ):
        assert text in shell.refusal("worker", named)


def test_the_options_of_a_worker_on_a_bus_are_those_of_the_class(
    shell: Shell, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DispatchWorker] = []
    monkeypatch.setattr(DispatchWorker, "run", lambda self: made.append(self))
    words = [
        registry,
        "--bus",
        "memory://x",
        "--queues",
        "a, b",
        "--max-workers",
        "3",
    ]
    words += ("--limit", "send=2", "--limit", "wait=1", "--topic-per-task", "send")
    words += ("--namespace", "mine", "--name", "N")
    assert "for the queues a, b\n" in shell("dispatch-worker", *words, where=False)
    assert "none of the tasks send, wait is in 'b', but in default" in shell.errors
    monkeypatch.setenv("GO_SCHEDULER_BUS", "memory://y")
    shell("dispatch-worker", registry, "--topic-per-task", "all", where=False)
    told = shell("dispatch-worker", registry, where=False)
    assert "for the queue default, as --queues names no other\n" in told
    assert "none of the tasks" not in shell.errors
    monkeypatch.delenv("GO_SCHEDULER_BUS")
    section = "{url: memory://z, namespace: kept, topic_per_task: true}"
    Path("go_scheduler.yaml").write_text(f"dispatch: {section}")
    shell("dispatch-worker", registry, where=False)
    words = ["--namespace", "mine", "--topic-per-task", "send"]
    shell("dispatch-worker", registry, *words, where=False)
    transports: list[Any] = [each._new_loop()._transport for each in made]
    first, second, third, fourth, fifth = transports
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
    bus: str,
    is_told: bool,
    shell: Shell,
    registry: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DispatchWorker, "run", lambda self: None)
    told = shell("dispatch-worker", registry, "--bus", bus, where=False)
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
def test_what_is_wrong_with_a_bus_is_told(
    shell: Shell, registry: str, words: tuple[str, ...], text: str
) -> None:
    words = ("dispatch-worker", registry, *words)
    assert text in shell.refusal(*words, where=False)


def test_whoever_a_broker_does_not_let_in_is_told_and_runs_nothing(
    shell: Shell, registry: str, rabbitmq_server: RabbitMQServer
) -> None:
    url = rabbitmq_server.url.replace("guest:guest@", "nobody:secret@")
    assert "nobody" in url
    words = ("dispatch-worker", registry, "--bus", url)
    told = shell.refusal(*words, code=3, where=False)
    assert "the bus at amqp://nobody:***@" in told
    assert "ACCESS_REFUSED" in told


@pytest.mark.slow
def test_workers_share_what_is_on_a_bus_and_leave_it_when_they_end_at_once(
    registry: str, rabbitmq_server: RabbitMQServer
) -> None:
    namespace = f"tests-{uuid4()}"

    def started(name: str) -> Process:
        words = ("--namespace", namespace, "--name", name, "--max-workers", "1")
        url = rabbitmq_server.url
        return Process("dispatch-worker", registry, *words, GO_SCHEDULER_BUS=url)

    with bench(rabbitmq_server.url, namespace) as one:
        first = started("first")
        held = one.publish(task="wait")
        one.until(held, "started")
        # The first has no place for it.
        other = one.publish(payload={"order": 6})
        second = started("second")
        assert one.end_of(other).result == 7
        assert one.end_of(other).worker == "second"
        assert first.end(signal.SIGKILL)
        assert one.end_of(one.publish(payload={"order": 7})).worker == "second"
        assert one.of(held) == ["accepted", "started"]
        left = one.publish(task="wait")
        one.until(left, "started")
        assert second.end(signal.SIGTERM, signal.SIGINT) == 0
        assert one.of(left) == ["accepted", "started"]
