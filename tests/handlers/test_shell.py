"""The shell executor, with real processes: what they are given, and how they end.

Whether all processes of a command have ended is told by a named pipe that each of them
has open: it is at its end when the last of them is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    Cancelled,
    ConfigurationError,
    Fail,
    RetryPolicy,
    Scheduler,
    State,
)
from go_scheduler.events import Event, InstanceFinished, RunFailed, RunHung, hears
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.schema import Schema
from go_scheduler.handlers.shell import Command, CommandFailed, Limits, Shell
from go_scheduler.handlers.shell import _groups as groups
from tests.case_tables import json_table
from tests.conftest import instance, seconds
from tests.handlers.conftest import refused

if TYPE_CHECKING:
    from pathlib import Path

FAILED_AFTER = 120
TOO_LONG = timedelta(minutes=10)
# What they are told to by TERM these do not do, and have children.
DEAF = "trap '' TERM; exec 3>{fifo}; echo on >&3; sleep 60 & sleep 60; sleep 60"


def given(command: str, **arguments: object) -> Any:
    payload: Any = {"command": command, "arguments": arguments}
    return replace(instance(), payload=payload)


def shell_of(*arguments: str, grace: float = 0.1, **more: Any) -> Shell:
    return Shell(
        {"it": Command(arguments=arguments, **more)}, grace=timedelta(seconds=grace)
    )


def run(shell: Shell, **arguments: object) -> None:
    asyncio.run(shell(given("it", **arguments)))


def script(text: str, **more: Any) -> Shell:
    return shell_of("sh", "-c", text, **more)


def failed(shell: Shell, **arguments: object) -> str:
    with pytest.raises(CommandFailed) as failure:
        run(shell, **arguments)
    return str(failure.value)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


class Watched:
    """Reads what a command writes to a pipe that all its processes have open."""

    def __init__(self, fifo: Path) -> None:
        self.began, self.ended = threading.Event(), threading.Event()
        self._opened = threading.Event()
        self._fifo = fifo
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with self._fifo.open() as lines:
            self._opened.set()
            lines.readline()
            self.began.set()
            lines.read()
        self.ended.set()

    def is_over(self) -> bool:
        """Whether all of a command ends, which may have been before it had the pipe."""
        both_ends = os.open(self._fifo, os.O_RDWR)
        assert self._opened.wait(FAILED_AFTER)
        os.close(both_ends)
        return self.ended.wait(FAILED_AFTER)


class Ahead(asyncio.SelectorEventLoop):
    """An event loop whose time can be moved on."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def overdue(shell: Shell, watched: Watched) -> str:
    """What is said of a command whose timeout passes once it has begun."""

    # Of a run that was presumed hung in another test, one may be there yet.
    others = groups.copy()

    async def begin_and_wait() -> None:
        running = asyncio.create_task(shell(given("it")))
        assert await asyncio.to_thread(watched.began.wait, FAILED_AFTER)
        while groups <= others:
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Ahead)
        loop.ahead += TOO_LONG.total_seconds()
        await running

    with (
        asyncio.Runner(loop_factory=Ahead) as runner,
        pytest.raises(CommandFailed) as failure,
    ):
        runner.run(begin_and_wait())
    return str(failure.value)


@pytest.fixture
def watched(fifo: Path) -> Watched:
    return Watched(fifo)


class TestWhatItIsGiven:
    def test_a_value_is_one_argument_whatever_is_in_it(self, tmp_path: Path) -> None:
        write = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
        path = tmp_path / "written"
        shell = shell_of(
            sys.executable, "-c", write, str(path), "{a}", "--b={b}", "{a}{c}", "{ }"
        )
        hostile = "x y; rm -rf / $(id) `id` * \n'\""
        run(shell, a=hostile, b="", c=7.5)
        assert json.loads(path.read_text()) == [hostile, "--b=", f"{hostile}7.5", "{ }"]

    def test_what_was_put_in_is_not_looked_at_again(self) -> None:
        command = Command(arguments=["echo", "{a}{b}"])
        assert command.filled({"a": "{b}", "b": "x"})[1:] == ["{b}x"]

    def test_its_environment_folder_and_input_are_fixed(self, tmp_path: Path) -> None:
        shell = script(
            "env | sort; pwd; wc -c; exit 1",
            environment={"PATH": "/usr/bin:/bin", "COLOUR": "red"},
            folder=tmp_path,
        )
        of = replace(instance(attempt=7), payload={"command": "it"})
        with pytest.raises(CommandFailed) as failure:
            asyncio.run(shell(of))
        *wrote, folder, count = str(failure.value).splitlines()[1:]
        assert {*wrote} - {f"PWD={tmp_path}", "SHLVL=0", "_=/usr/bin/env"} == {
            "COLOUR=red",
            "GO_SCHEDULER_ATTEMPT=7",
            f"GO_SCHEDULER_INSTANCE_ID={of.id}",
            "PATH=/usr/bin:/bin",
        }
        assert (folder, count) == (str(tmp_path), "0")

    def test_its_limits_are_set(self) -> None:
        limits = Limits(cpu_seconds=7, memory=2**30, open_files=64)
        text = failed(
            script("ulimit -t; ulimit -v; ulimit -n; ulimit -c; exit 1", limits=limits)
        )
        assert text.splitlines()[1:] == ["7", str(2**20), "64", "0"]

    @pytest.mark.slow
    def test_a_limit_that_is_met_ends_it(self) -> None:
        shell = script("while :; do :; done", limits=Limits(cpu_seconds=1))
        assert "was ended by signal" in failed(shell)

    def test_a_limit_above_that_of_the_server_is_the_servers(self) -> None:
        limits = Limits(open_files=2**31 - 1)
        assert "cannot" not in failed(script("ulimit -n; exit 1", limits=limits))

    def test_it_is_the_first_on_the_path_and_by_then_fixed(self) -> None:
        command = Command(arguments=["sh", "-c", "true"])
        assert command.arguments[0].endswith("/bin/sh")

    def test_a_program_that_is_gone_by_then_is_an_error(self, tmp_path: Path) -> None:
        program = tmp_path / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        plain = shell_of(str(program))
        limited = shell_of(str(program), limits=Limits(cpu_seconds=7))
        program.unlink()
        with pytest.raises(FileNotFoundError):
            run(plain)
        assert f"{program} cannot be run: No such file" in failed(limited)


class TestHowItEnds:
    def test_any_other_is_tried_again_with_what_it_wrote(self) -> None:
        shell = script("echo out; echo err >&2; exit 3")
        assert failed(shell) == "command 'it' ended with code 3:\nout\nerr"
        assert failed(script("exit 3")) == (
            "command 'it' ended with code 3, and wrote nothing"
        )

    def test_some_codes_are_final(self) -> None:
        with pytest.raises(Fail, match="command 'it' ended with code 4, and wrote"):
            run(script("exit 4", final_codes={4, 5}))

    def test_a_signal_is_told(self) -> None:
        assert "was ended by signal 9" in failed(script("kill -9 $$"))

    def test_of_much_output_the_first_and_the_last_are_kept(self) -> None:
        text = failed(script("echo first; yes | head -c 1000000; echo last; exit 1"))
        assert text.splitlines()[1] == "first"
        assert text.splitlines()[-1] == "last"
        assert "[… 997963 bytes …]" in text
        assert len(text) < 2200

    def test_what_is_no_text_is_kept_all_the_same(self) -> None:
        assert failed(script(r"printf '\377a'; exit 1")).endswith(":\n\ufffda")

    def test_one_that_takes_too_long_is_told_to_end(
        self, fifo: Path, watched: Watched
    ) -> None:
        shell = script(
            f"trap 'echo bye; exit 0' TERM; echo on >{fifo}; sleep 60 & wait",
            timeout=TOO_LONG,
            grace=FAILED_AFTER,
        )
        assert overdue(shell, watched) == (
            "command 'it' was ended, as it took longer than 0:10:00:\nbye"
        )

    @pytest.mark.slow
    def test_one_that_is_deaf_is_killed_with_its_children(
        self, fifo: Path, watched: Watched
    ) -> None:
        shell = script(DEAF.format(fifo=fifo), timeout=TOO_LONG)
        assert "it took longer than" in overdue(shell, watched)
        assert watched.ended.wait(FAILED_AFTER)

    def test_what_it_leaves_behind_is_killed(
        self, fifo: Path, watched: Watched
    ) -> None:
        run(script(f"exec 3>{fifo}; echo on >&3; sleep 60 &"))
        assert watched.ended.wait(FAILED_AFTER)

    @pytest.mark.slow
    def test_one_that_has_left_the_group_is_not_waited_for(self, fifo: Path) -> None:
        left = f"setsid sh -c 'echo on >{fifo}; exec sleep {FAILED_AFTER}' &"
        # If it were, it would be killed as what takes too long.
        run(script(f"{left} read x <{fifo}", timeout=seconds(FAILED_AFTER - 2)))

    def test_one_whose_task_is_cancelled_as_it_starts_is_ended_as_a_whole(
        self, fifo: Path, watched: Watched
    ) -> None:
        shell = script(DEAF.format(fifo=fifo))

        async def cancelled() -> None:
            task = asyncio.create_task(shell(given("it")))
            # It gets so far as to start the program in another task.
            while len(asyncio.all_tasks()) < 3:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with fifo.open("w") as kept:
            asyncio.run(cancelled())
            print("on", file=kept)
        assert watched.ended.wait(FAILED_AFTER)

    @pytest.mark.parametrize("again", [False, True])
    def test_it_ends_with_the_task_that_has_it(
        self, fifo: Path, watched: Watched, again: bool
    ) -> None:
        # Once it is told again to end, it does not wait for the command.
        grace = FAILED_AFTER if again else 0.1
        shell = script(DEAF.format(fifo=fifo), grace=grace)

        async def cancelled() -> None:
            task = asyncio.create_task(shell(given("it")))
            assert await asyncio.to_thread(watched.began.wait, FAILED_AFTER)
            task.cancel()
            if again:
                await asyncio.wait([task], timeout=0.05)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert watched.ended.wait(FAILED_AFTER)


@pytest.mark.slow
class TestInAScheduler:
    """With a scheduler of its own, in real time."""

    def test_one_that_is_cancelled_is_ended(self, fifo: Path, watched: Watched) -> None:
        told = threading.Event()
        types = JobTypes()
        types.add("shell", script(DEAF.format(fifo=fifo)))
        hear = hears(InstanceFinished)(lambda _: told.set())
        with Scheduler(types, lease=seconds(2), listeners=[hear]) as scheduler:
            running = scheduler.enqueue("shell", command="it")
            assert watched.began.wait(FAILED_AFTER)
            assert scheduler.cancel(running.id) is Cancelled.REQUESTED
            assert watched.ended.wait(FAILED_AFTER)
            assert told.wait(FAILED_AFTER)
            assert scheduler.get_instance(running.id).state is State.CANCELLED

    @pytest.mark.parametrize(
        ("limit", "end"), [("expire_after", RunHung), ("timeout", RunFailed)]
    )
    def test_one_that_is_lost_or_takes_too_long_is_ended(
        self, fifo: Path, watched: Watched, limit: str, end: type[Event]
    ) -> None:
        told = threading.Event()
        types = JobTypes()
        bounds: Any = {limit: seconds(0.5), "retry": RetryPolicy(max_attempts=1)}
        types.add("shell", script(DEAF.format(fifo=fifo)), **bounds)
        hear = hears(end)(lambda _: told.set())
        with Scheduler(types, listeners=[hear]) as scheduler:
            scheduler.enqueue("shell", command="it")
            assert told.wait(FAILED_AFTER)
            assert watched.is_over()


LEFT = """
import sys, threading
from datetime import timedelta
from go_scheduler import Scheduler
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.shell import Command, Shell

types = JobTypes()
types.add("shell", Shell({"it": Command(arguments=["sh", "-c", sys.argv[1]])}))
scheduler = Scheduler(types)
scheduler.start()
scheduler.enqueue("shell", command="it")
sys.stdin.readline()
assert not scheduler.stop(timedelta(seconds=0.1))
"""


@pytest.mark.slow
def test_what_a_stop_leaves_behind_ends_with_the_program(
    fifo: Path, watched: Watched
) -> None:
    command = [sys.executable, "-c", LEFT, DEAF.format(fifo=fifo)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as program:
        assert watched.began.wait(FAILED_AFTER)
        program.communicate("stop\n", timeout=FAILED_AFTER)
    assert program.returncode == 0
    assert watched.ended.wait(FAILED_AFTER)


BACKUP = Command(
    arguments=["tar", "-cf", "{file}", "--", "{folder}", "{level}", "{a}-x"],
    options={"level"},
)


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        *json_table("handlers/shell_payloads"),
        (
            {"command": "backup", "arguments": {"file": "a\0b"}},
            "arguments.file: it holds a NUL",
        ),
    ],
)
def test_a_payload_that_it_does_not_run_is_refused(payload: Any, answer: str) -> None:
    types = JobTypes()
    commands = {"backup": BACKUP, "plain": Command(arguments=["true"])}
    types.add("shell", Shell(commands))
    assert refused(types.check, "shell", payload).startswith(answer)
    with pytest.raises(Fail):
        asyncio.run(Shell(commands)(replace(instance(), payload=payload)))


def test_an_option_that_is_allowed_passes() -> None:
    values = {"file": "f", "folder": "d", "level": "-9", "a": "b"}
    assert BACKUP.filled(values)[1:] == ["-cf", "f", "--", "d", "-9", "b-x"]


def test_its_schema_says_what_each_command_takes() -> None:
    types = JobTypes()
    commands = {"backup": BACKUP, "plain": Command(arguments=["true"])}
    types.add("shell", Shell(commands))
    schema = Schema(types.described("shell").schema)
    schema.check({"command": "plain"})
    values = {"file": "f", "folder": "d", "level": 9, "a": "b"}
    schema.check({"command": "backup", "arguments": values})
    for wrong in (
        {"command": "backup"},
        {"command": "rm"},
        {"command": "plain", "x": 1},
    ):
        with pytest.raises(ConfigurationError):
            schema.check(wrong)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        *json_table("handlers/shell_commands"),
        ({"arguments": ["true", "\0"]}, "arguments must be texts without NUL"),
        (
            {"environment": {"A": "\0"}},
            "environment has 'A', which no environment can hold",
        ),
        ({"timeout": seconds(0)}, "timeout must be longer than zero"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(wrong: Any, answer: str) -> None:
    assert refused(Command, **{"arguments": ["true"], **wrong}).startswith(answer)


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: Limits(memory=0), "memory must be at least 1: 0"),
        (lambda: Limits(cpu_seconds=True), "cpu_seconds must be an int"),
        (lambda: Shell({"": BACKUP}), "the name of a command must have 1 to"),
        (lambda: Shell({"a": ["rm"]}), "command 'a' must be a Command"),  # type: ignore[dict-item]
        (lambda: Shell({}, grace=seconds(0)), "grace must be longer"),
        (lambda: Shell({}, kept=0), "kept must be from 1 to 65,536: 0"),
    ],
)
def test_what_is_wrong_with_the_others_is_refused(make: Any, answer: str) -> None:
    assert refused(make).startswith(answer)


def test_what_is_secret_in_an_environment_is_not_shown() -> None:
    command = Command(arguments=["true"], environment={"PATH": "/bin", "KEY": "s3cret"})
    assert "s3cret" not in repr(command)
