"""Processes: handlers in a ``ProcessExecutor`` or a process pool, and how they end."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    HandlerRegistry,
    OnDemandTrigger,
    ProcessExecutor,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.events import (
    ExecutorFailed,
    ExecutorRecovered,
    InstanceFinished,
    InstanceGivenBack,
    InstanceHandedOn,
    RunHung,
    RunTimedOut,
)
from tests.behaviour import in_processes
from tests.behaviour.house import HOUR, SECOND, Heard, Kind, seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from go_scheduler import TaskInstance
    from go_scheduler.handlers.registry import Handler

pytestmark = pytest.mark.slow

ONCE = RetryPolicy(max_attempts=1)


class Runs:
    """A scheduler on processes, what it has run, and how that ended.

    Several tests share one, as its processes end with it: each has names of its own.
    """

    def __init__(self, executor: Executor, handler: Handler, **settings: Any) -> None:
        self.heard = Heard()
        self.scheduler = Scheduler(
            handler,
            executor=executor,
            listeners=[self.heard],
            # However long a process takes to come up, nothing is given back.
            **{"lease": HOUR, "runner_window": HOUR / 60, "retry": ONCE, **settings},
        )

    def __enter__(self) -> Runs:
        self.scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.stop(timedelta(seconds=FAILED_AFTER))

    def run(self, *names: str, **options: Any) -> None:
        for name in names:
            task = TaskDefinition(trigger=OnDemandTrigger(), name=name, **options)
            self.scheduler.run_now(self.scheduler.schedule(task).id)

    def ended(self, *names: str) -> dict[str, tuple[str, str]]:
        """How each of these has ended, and why."""
        found: dict[str, tuple[str, str]] = {}
        count = 1
        while len(found) < len(names):
            for each in self.heard.wait(InstanceFinished, count):
                if each.name in names:
                    found[str(each.name)] = (each.outcome.value, each.error or "")
            count = len(self.heard.of(InstanceFinished)) + 1
        return found

    def found(self, name: str) -> TaskInstance:
        [instance] = self.scheduler.list_instances(name=name)
        return instance


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessExecutor]:
    """Two processes that are up already."""
    with ProcessExecutor(2) as executor:
        futures = [executor.submit(int) for _ in range(2)]
        assert [each.result(FAILED_AFTER) for each in futures] == [0, 0]
        yield executor


@pytest.fixture(scope="module")
def runs(processes: ProcessExecutor) -> Iterator[Runs]:
    """What the tests share."""
    with Runs(processes, in_processes.handler, runner_window=SECOND) as runs:
        yield runs


@pytest.mark.parametrize(
    ("do", "outcome", "error", "count"),
    [
        ("return", "completed", "", 1),
        ("async", "completed", "", 1),
        # What a handler returns need not be what can be pickled.
        ("lambda", "completed", "", 1),
        ("interrupt", "completed", "", 1),
        ("later", "completed", "", 2),
        ("give-back", "completed", "", 1),
        ("raise", "failed", "ValueError: in another process", 2),
        ("stops", "failed", "Unpicklable: 'lost and gone'", 1),
        ("stays", "failed", "NeverPickled: never seen", 2),
        ("fails", "failed", "Fail: for good", 1),
        ("ask", "failed", "only inside a handler, and not in the process", 2),
    ],
)
def test_what_becomes_of_a_handler_in_a_process_is_recorded(
    runs: Runs, do: str, outcome: str, error: str, count: int
) -> None:
    name = f"{do} recorded"
    retry = RetryPolicy(max_attempts=2, delay=seconds(0), stop_on=["KeyError"])
    runs.run(name, retry=retry)
    [(came, why)] = runs.ended(name).values()
    assert came == outcome
    assert error in why
    assert runs.found(name).runs == count
    if outcome == "failed":
        # Its traceback, as it was there.
        assert "in handler" in why
    given_back = runs.heard.of(InstanceGivenBack)
    # Nothing says which of the events is told first. The node may give it back as well.
    while do == "give-back" and name not in by_handler(given_back):
        given_back = runs.heard.wait(InstanceGivenBack, len(given_back) + 1)
    assert (name in by_handler(given_back)) is (do == "give-back")


def by_handler(given_back: list[InstanceGivenBack]) -> set[str | None]:
    return {each.name for each in given_back if each.by_handler}


@pytest.mark.parametrize("how", ["timeout", "expire_after"])
def test_a_process_is_ended_when_its_runs_time_is_over(runs: Runs, how: str) -> None:
    others = [f"return {how} {number}" for number in range(5)]
    runs.run(f"block {how}", **{how: SECOND / 2})
    runs.run(*others)
    ended = runs.ended(f"block {how}", *others)
    outcome, error = ended.pop(f"block {how}")
    assert outcome == "failed"
    if how == "timeout":
        assert error.startswith("timed out after 0:00:00.500000\n\n")
        assert "its process was ended" in error
        assert [each.ended for each in told_of(runs, RunTimedOut, f"block {how}")] == [
            True
        ]
    else:
        assert error == "no result within 0:00:00.500000: presumed hung"
        assert len(told_of(runs, RunHung, f"block {how}")) == 1
    assert {came for came, _ in ended.values()} == {"completed"}
    assert runs.scheduler.health().trouble is None


def told_of(runs: Runs, kind: type[Kind], name: str) -> list[Kind]:
    """What was told of an instance, or will be: that may follow its end."""
    found: list[Kind] = []
    count = 0
    while not found:
        told = runs.heard.wait(kind, count + 1)
        found = [each for each in told if getattr(each, "name", "") == name]
        count = len(told)
    return found


def test_one_that_does_not_end_is_killed_and_one_that_cleans_up_may(
    runs: Runs,
) -> None:
    runs.run("block-past-sigterm", "clean-up", timeout=3 * SECOND)
    ended = runs.ended("block-past-sigterm", "clean-up")
    assert ended["block-past-sigterm"][0] == "failed"
    assert "its process was ended" in ended["block-past-sigterm"][1]
    # It was told to end, has cleaned up, and has returned.
    assert ended["clean-up"] == ("completed", "")


def test_a_process_that_dies_costs_its_own_run_alone(runs: Runs) -> None:
    others = [f"return beside {number}" for number in range(20)]
    runs.run("die", "exit", *others)
    ended = runs.ended("die", "exit", *others)
    assert ended.pop("die") == ("failed", "its process died: killed by SIGKILL")
    assert ended.pop("exit") == ("failed", "its process died: exit code 3")
    assert {outcome for outcome, _ in ended.values()} == {"completed"}


def test_what_is_handed_on_in_a_process_goes_on_elsewhere(runs: Runs) -> None:
    runs.run("hand-on")
    [told] = runs.heard.wait(InstanceHandedOn)
    assert runs.found("hand-on").state is State.RUNNING
    assert runs.scheduler.complete(told.instance_id, told.attempt)


def test_sixty_runs_take_their_turns_in_two_processes(runs: Runs) -> None:
    names = [f"return crowd {number}" for number in range(60)]
    runs.run(*names)
    assert {*runs.ended(*names).values()} == {("completed", "")}


def test_processes_are_used_again_and_there_are_no_more_than_allowed() -> None:
    with ProcessExecutor(1) as executor:
        for _ in range(2):
            with Runs(executor, in_processes.pid, max_workers=8) as runs:
                runs.run(*(str(number) for number in range(10)))
                runs.heard.wait(InstanceHandedOn, 10)
                found = runs.scheduler.list_instances()
                [used] = {each.worker for each in found}
            # It ends with the scheduler, and the next one starts another.
            assert used is not None
            wait_for_the_end_of(int(used))


def wait_for_the_end_of(pid: int) -> None:
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(FAILED_AFTER * 100):
        try:
            os.kill(pid, 0)
            # Where no init process waits for orphans, one that has ended stays there.
            if stat.exists() and " Z " in stat.read_text():
                return
        except ProcessLookupError:
            return
        multiprocessing.Event().wait(0.01)
    raise AssertionError(f"process {pid} does not end")


def test_a_handler_that_cannot_be_sent_is_refused_by_its_name(
    processes: ProcessExecutor,
) -> None:
    handlers = HandlerRegistry()
    handlers.register("good")(in_processes.handler)
    scheduler = Scheduler(handlers, executor=processes)
    handlers.register("bad")(lambda _: None)
    expected = r"handler 'bad' \(.*<lambda>\) cannot be sent to a process: a ProcessEx"
    with pytest.raises(ConfigurationError, match=expected):
        scheduler.start()
    with pytest.raises(ConfigurationError, match=r"^the handler \(.*<lambda>\)"):
        Scheduler(lambda _: None, executor=processes)


def test_one_that_is_registered_later_and_cannot_be_sent_fails_at_once(
    processes: ProcessExecutor,
) -> None:
    handlers = HandlerRegistry()
    handlers.register("return")(in_processes.handler)
    with Runs(processes, handlers, retry=RetryPolicy(max_attempts=9)) as runs:
        handlers.register("later")(lambda _: None)
        runs.run("later", "return")
        ended = runs.ended("later", "return")
        assert runs.found("later").runs == 1
    assert ended["return"] == ("completed", "")
    assert ended["later"][0] == "failed"
    assert "takes functions of a module" in ended["later"][1]


def test_a_plain_process_pool_that_breaks_is_made_again() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        with Runs(executor, in_processes.handler) as runs:
            runs.run("die")
            ended = runs.ended("die")
            runs.heard.wait(ExecutorFailed)
            runs.heard.wait(ExecutorRecovered)
            runs.run("return", "hand-on")
            runs.ended("return")
            runs.heard.wait(InstanceHandedOn)
            assert runs.scheduler.health().trouble is None
        assert ended["die"][1].startswith("a process of the pool died while it ran th")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"max_workers": 0}, "max_workers"),
        ({"max_workers": "2"}, "max_workers"),
        ({"context": "fork"}, "context"),
    ],
)
def test_processes_that_cannot_work_are_refused(
    arguments: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigurationError, match=match):
        ProcessExecutor(**arguments)
