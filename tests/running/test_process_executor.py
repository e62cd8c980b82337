"""Processes that can be ended one by one, and die each for itself."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import ProcessExecutor
from go_scheduler.running.calling import process_executor
from go_scheduler.running.calling.child import ProcessError, described_there
from tests.patience import FAILED_AFTER
from tests.running import in_processes
from tests.running.in_processes import (
    MadeOfTwo,
    NoError,
    OfHere,
    Unpicklable,
    block,
    die,
    die_with_a_child,
    fail,
    make,
    make_function,
    process,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.chaos]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def executor() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as made:
        yield made


class Gate:
    """A pair of pipes: it tells that a call has begun, and lets it go on."""

    def __init__(self, folder: Path) -> None:
        self.called, self.go = str(folder / "called"), str(folder / "go")
        os.mkfifo(self.called)
        os.mkfifo(self.go)

    def wait(self) -> None:
        with open(self.called) as called:
            called.read()

    def open(self) -> None:
        with open(self.go, "w"):
            pass


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def error_of(future: Future[Any]) -> BaseException:
    error = future.exception(FAILED_AFTER)
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("kind", "args", "comes"),
    [
        (KeyError, ("nothing",), KeyError),
        (Unpicklable, (), ProcessError),
        (MadeOfTwo, ("a", "b"), ProcessError),
        (NoError, (), ProcessError),
    ],
)
def test_an_error_comes_with_how_it_looked_there_and_as_text_if_it_cannot_travel(
    executor: ProcessExecutor,
    kind: type[Exception],
    args: tuple[str, ...],
    comes: type[Exception],
) -> None:
    error = error_of(executor.submit(fail, kind, *args))
    assert type(error) is comes
    text = described_there(error) or ""
    assert text.startswith("Traceback")
    assert "in fail" in text
    assert kind.__name__ in text


def test_what_cannot_be_pickled_costs_no_process() -> None:
    with ProcessExecutor(1) as executor:
        first = executor.submit(process).result(FAILED_AFTER)
        for future in (
            executor.submit(lambda: None),
            executor.submit(make_function),
            executor.submit(make, OfHere),
        ):
            error_of(future)
        assert executor.submit(process).result(FAILED_AFTER) == first


def test_a_process_that_died_while_it_was_idle_costs_nothing(
    executor: ProcessExecutor,
) -> None:
    first = executor.submit(process).result(FAILED_AFTER)
    [only] = process_executor._PROCESSES
    assert only._child is not None
    os.kill(first, signal.SIGKILL)
    only._child.process.join(FAILED_AFTER)
    assert executor.submit(process).result(FAILED_AFTER) != first


def test_one_that_dies_as_it_is_sent_something_costs_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of two, the other might be sent it.
    with ProcessExecutor(1) as executor:
        executor.submit(process).result(FAILED_AFTER)
        [only] = process_executor._PROCESSES
        assert only._child is not None
        child = only._child
        monkeypatch.setattr(child.process, "is_alive", lambda: True)
        child.process.kill()
        child.process.join(FAILED_AFTER)
        error = error_of(executor.submit(process))
        assert str(error) == "its process died: killed by SIGKILL"


def test_one_that_dies_and_has_left_its_pipes_to_another_is_noticed(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    file = tmp_path / "process"
    error = error_of(executor.submit(die_with_a_child, str(file)))
    assert str(error) == "its process died: exit code 4"
    os.kill(int(file.read_text()), signal.SIGKILL)


def test_what_is_not_to_begin_is_not_called(executor: ProcessExecutor) -> None:
    future = executor.submit_if(lambda: False, process)
    with pytest.raises(CancelledError):
        future.result(FAILED_AFTER)
    assert executor.submit_if(lambda: True, process).result(FAILED_AFTER)


def test_what_is_cancelled_before_it_has_a_process_is_not_asked_whether_it_begins(
    gate: Gate,
) -> None:
    asked: list[bool] = []

    def begin() -> bool:
        asked.append(True)
        return True

    with ProcessExecutor(1) as executor:
        first = executor.submit(block, gate.called, gate.go)
        gate.wait()
        second = executor.submit_if(begin, process)
        assert second.cancel()
        gate.open()
        assert first.result(FAILED_AFTER)
    assert asked == []


def test_once_shut_down_it_takes_nothing_more_and_its_processes_have_ended(
    gate: Gate,
) -> None:
    executor = ProcessExecutor(1)
    first = executor.submit(block, gate.called, gate.go)
    second = executor.submit(process)
    third = executor.submit(process)
    assert third.cancel()
    gate.wait()
    executor.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    with pytest.raises(RuntimeError, match="has been shut down"):
        executor.submit(process)
    gate.open()
    assert first.result(FAILED_AFTER)
    executor.shutdown()
    assert not process_executor._PROCESSES


def test_what_was_let_go_ends_and_the_next_call_starts_another_process(
    executor: ProcessExecutor, gate: Gate
) -> None:
    future = executor.submit(block, gate.called, gate.go)
    gate.wait()
    crew = executor._crew
    executor.let_go()
    other = executor.submit(process).result(FAILED_AFTER)
    gate.open()
    assert future.result(FAILED_AFTER) != other
    crew.join()
    assert len(process_executor._PROCESSES) == 1


@pytest.mark.parametrize("how", ["does not start", "dies at its start"])
def test_where_no_process_comes_up_it_is_broken_until_one_does(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    executor = ProcessExecutor(1)

    def refuse(*_: object) -> None:
        raise OSError("too many")

    with monkeypatch.context() as patched:
        if how == "does not start":
            patched.setattr(process_executor, "_started", refuse)
            text = "no process can be started: OSError"
        else:
            patched.setattr(process_executor, "serve", in_processes.die_at_start)
            # However long a busy machine takes for its end, it is not killed.
            patched.setattr(process_executor, "_LOOKS", 10_000)
            text = "a process did not come up: exit code 5"
        begun: list[bool] = []

        def begin() -> bool:
            begun.append(True)
            return True

        future = executor.submit_if(begin, process)
        error = error_of(future)
        assert isinstance(error, BrokenExecutor)
        assert text in str(error)
        assert begun == []
        with pytest.raises(BrokenExecutor, match=text):
            executor.submit(process)
    # It has tried again since, and does so at each refusal.
    with suppress(BrokenExecutor):
        executor.submit(process)
    while executor._crew.broken is not None:
        pass
    assert executor.submit(process).result(FAILED_AFTER)
    executor.shutdown()


def test_what_was_cancelled_as_no_process_came_up_stays_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trying, go = threading.Event(), threading.Event()

    def refuse(*_: object) -> None:
        trying.set()
        assert go.wait(FAILED_AFTER)
        raise OSError("too many")

    monkeypatch.setattr(process_executor, "_started", refuse)
    with ProcessExecutor(1) as executor:
        future = executor.submit(process)
        assert trying.wait(FAILED_AFTER)
        assert future.cancel()
        go.set()


def test_a_process_that_cannot_be_started_leaves_nothing_open(
    executor: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("too many")

    make, made = SpawnContext.Pipe, list[Any]()

    def note(self: SpawnContext) -> object:
        made.extend(ends := make(self))
        return ends

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", refuse)
    monkeypatch.setattr(SpawnContext, "Pipe", note)
    assert isinstance(error_of(executor.submit(process)), BrokenExecutor)
    assert [each.closed for each in made] == [True, True]


def test_a_process_that_has_ended_leaves_nothing_open(
    executor: ProcessExecutor,
) -> None:
    def die_once() -> int:
        assert isinstance(error_of(executor.submit(die, "exit")), ProcessError)
        return len(os.listdir("/dev/fd"))

    die_once()
    # What is collected now and then does not count.
    gc.disable()
    try:
        before = die_once()
        assert [die_once() for _ in range(3)] == [before] * 3
    finally:
        gc.enable()


def test_there_are_as_many_as_the_machine_has_processors() -> None:
    assert ProcessExecutor().max_workers == os.cpu_count()


def test_processes_may_come_from_a_server_that_forks() -> None:
    with ProcessExecutor(1, context="forkserver") as executor:
        assert executor.submit(process).result(FAILED_AFTER) != os.getpid()
        error = error_of(executor.submit(die, "kill"))
        assert type(error) is ProcessError


_PROGRAM = """
import sys
from go_scheduler import ProcessExecutor
from tests.running.in_processes import keep_open, keep_open_and_block

def main(idle, busy):
    executor = ProcessExecutor(2)
    executor.submit(keep_open_and_block, busy)
    executor.submit(keep_open, idle).result()
    print("ready", flush=True)
    if sys.stdin.readline():
        return
    executor.shutdown()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.parametrize("end", ["it is killed", "it ends"])
def test_no_process_outlives_the_program(tmp_path: Path, end: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    pipes = [tmp_path / "idle", tmp_path / "busy"]
    for pipe in pipes:
        os.mkfifo(pipe)
    # Opened so as not to wait for those who write; read to its end below.
    ends = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
    with subprocess.Popen(
        [sys.executable, str(program), *map(str, pipes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        if end == "it is killed":
            started.kill()
        else:
            started.stdin.write("end\n")
            started.stdin.flush()
        started.wait(FAILED_AFTER)
        for each in ends:
            os.set_blocking(each, True)
            # It comes to an end once nobody has it open any more.
            assert os.read(each, 1) == b""
            os.close(each)


def test_a_main_module_that_starts_all_over_when_imported_is_told_so(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from go_scheduler import ProcessExecutor\n"
        "from tests.running.in_processes import process\n"
        "print(ProcessExecutor(1).submit(process).exception())\n"
    )
    ended = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=FAILED_AFTER,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.stdout == (
        "a process did not come up: exit code 1; is what your main module does below if"
        " __name__ == '__main__'?\n"
    )
    assert "if __name__ == '__main__':" in ended.stderr


def test_a_fork_of_this_process_ends_none_of_its_processes(
    executor: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = executor.submit(process).result(FAILED_AFTER)
    with monkeypatch.context() as patched:
        patched.setattr(process_executor, "_THIS_PROCESS", 0)
        process_executor._kill_all()
    [only] = process_executor._PROCESSES
    assert only._child is not None
    assert only._child.process.is_alive()
    process_executor._kill_all()
    only._child.process.join(FAILED_AFTER)
    assert executor.submit(process).result(FAILED_AFTER) != first


def test_how_a_process_ended_may_have_been_told_to_somebody_else() -> None:
    """Each thread that starts a process awaits all that have ended."""
    one = process_executor.WorkerProcess(SpawnContext())
    child = one._ready()
    child.process.kill()
    os.waitpid(child.process.pid or 0, 0)
    assert one._bury(child) == "somebody else was told how"
    assert one._child is None
