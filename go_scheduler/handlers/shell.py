"""The shell executor: runs commands that the configuration names, and no others."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name, check_number, check_positive, check_type
from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.formatting import shown
from go_scheduler.handlers import launcher
from go_scheduler.handlers.payload import ParameterOrders
from go_scheduler.run import Fail, current_run

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

__all__ = ["Command", "CommandFailed", "Limits", "Shell"]

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the machine each process of a command may use.

    Attributes:
        cpu_seconds: Processor time; None: unlimited.
        memory: Bytes of address space; None: unlimited.
        open_files: Files open at once; None: as many as the server may have.

    Raises:
        ConfigurationError: A limit is no whole number above zero.
    """

    cpu_seconds: int | None = None
    memory: int | None = None
    open_files: int | None = None

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "memory", "open_files"):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, 1)

    @property
    def text(self) -> str:
        """The limits as the launcher reads them; empty if there are none."""
        named = {"CPU": self.cpu_seconds, "AS": self.memory, "NOFILE": self.open_files}
        return ",".join(f"{name}={each}" for name, each in named.items() if each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that may be run, with places for what a payload gives.

    ```python
    Command(arguments=["pg_dump", "--file=/backups/{name}.sql", "{database}"])
    ```

    Attributes:
        arguments: The program, by its path or its name on the ``PATH`` of
            ``environment``, and its arguments. In these, but not in the program,
            ``{name}`` is the value that the payload has by that name; what is put there
            never becomes several arguments.
        options: The names whose values may begin with ``-``, which makes a program take
            them as options.
        environment: Its whole environment, besides
            ``GO_SCHEDULER_INSTANCE_ID`` and ``GO_SCHEDULER_ATTEMPT``. It may hold
            secrets, and is not shown.
        folder: The folder in which it runs.
        timeout: How long it may take. The definition's ``expire_after`` has to be
            longer, or it is ended by that.
        final_codes: The exit codes after which it is not tried again.
        limits: How much of the machine it may take.

    Raises:
        ConfigurationError: There is no such program or folder, or a value is wrong.
    """

    arguments: Sequence[str]
    options: Collection[str] = ()
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": _PATH, "LANG": "C.UTF-8"}, repr=False
    )
    folder: Path | str = "/"
    timeout: timedelta = timedelta(minutes=5)
    final_codes: Collection[int] = ()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)
        for name, value in self.environment.items():
            if "\0" in f"{name}{value}" or "=" in name or not name:
                raise ConfigurationError(
                    f"environment has {shown(name)}, which no environment can hold"
                )
        check_positive("timeout", self.timeout)
        if unknown := {*self.options} - {*self.names}:
            raise ConfigurationError(
                f"options names {shown(min(unknown))}, and no argument has"
                f" {{{min(unknown)}}}"
            )
        if not Path(self.folder).is_dir():
            raise ConfigurationError(f"there is no folder {self.folder}")
        program = shutil.which(
            self.arguments[0], path=self.environment.get("PATH", _PATH)
        )
        if program is None:
            raise ConfigurationError(
                f"there is no program {shown(self.arguments[0])} that can be run: give"
                " its path, or a PATH in environment"
            )
        resolved = (str(Path(program).absolute()), *self.arguments[1:])
        object.__setattr__(self, "arguments", resolved)

    @property
    def names(self) -> Sequence[str]:
        """The names that a payload must give, each once."""
        found = (name for each in self.arguments for name in _PLACEHOLDER.findall(each))
        return tuple(dict.fromkeys(found))

    def filled(self, values: Mapping[str, object]) -> list[str]:
        """The arguments with these values filled in.

        Raises:
            ConfigurationError: A value is missing, was not asked for, or would be taken
                for an option.
        """
        for name in values.keys() - {*self.names}:
            raise ConfigurationError(
                f"arguments: there is no {shown(name)}; known:"
                f" {', '.join(self.names) or 'none'}"
            )
        texts = {name: self._text(name, values) for name in self.names}
        program, *rest = self.arguments
        filled = [program]
        for each in rest:
            made = _PLACEHOLDER.sub(lambda found: texts[found[1]], each)
            named = {*_PLACEHOLDER.findall(each)}
            if made[:1] == "-" != each[:1] and named.isdisjoint(self.options):
                raise ConfigurationError(
                    f"arguments: what is put into {shown(each)} begins with -"
                )
            filled.append(made)
        return filled

    def _text(self, name: str, values: Mapping[str, object]) -> str:
        if name not in values:
            raise ConfigurationError(f"arguments.{name}: it is missing")
        text = str(values[name])
        if "\0" in text:
            raise ConfigurationError(f"arguments.{name}: it holds a NUL")
        if text.startswith("-") and name not in self.options:
            raise ConfigurationError(
                f"arguments.{name}: it begins with -, as options do: {shown(text)}"
            )
        return text


def _check_arguments(arguments: object) -> None:
    check_type("arguments", arguments, Sequence)
    assert isinstance(arguments, Sequence)
    if isinstance(arguments, str) or not arguments:
        raise ConfigurationError(
            "arguments must be a list, the program first, as in ['tar', '-cf',"
            f" '{{file}}']: {shown(arguments)}"
        )
    for each in arguments:
        if not isinstance(each, str) or "\0" in each:
            raise ConfigurationError(
                f"arguments must be texts without NUL, not {shown(each)}"
            )
    if _PLACEHOLDER.search(arguments[0]):
        raise ConfigurationError(
            f"a payload gives arguments, never the program: {shown(arguments[0])}"
        )


_LOOK_EVERY = 0.2
_DRAINED_WITHIN = 1.0

_groups: set[int] = set()
"""The process groups that run, each by the id of its first process."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command that a payload names, with its arguments filled in."""

    name: str
    command: Command
    arguments: Sequence[str]


class Output(asyncio.Protocol):
    """Reads a pipe to its end, and keeps the beginning and the end of the output.

    Args:
        kept: How many bytes of each are kept.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._first = bytearray()
        self._last = bytearray()
        self._dropped = 0
        self._transport: asyncio.BaseTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to close it later."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Add what was written next."""
        room = self._kept - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        if (excess := len(self._last) - self._kept) > 0:
            del self._last[:excess]
            self._dropped += excess

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the output."""
        self.ended.set_result(None)

    def close(self) -> None:
        """Stop reading."""
        assert self._transport is not None
        self._transport.close()

    @property
    def text(self) -> str:
        """The output that was kept."""
        between = b""
        if self._dropped:
            between = f"\n[… {self._dropped} bytes …]\n".encode()
        return (self._first + between + self._last).decode(errors="replace").strip()


async def run_command(
    call: Call, environment: Mapping[str, str], *, grace: timedelta, kept: int
) -> tuple[int, str, str | None]:
    """Run a command to its end, and leave no process of its group.

    If this is cancelled, the command is ended too.

    Args:
        call: The command, and its arguments.
        environment: Its whole environment.
        grace: How long it has to end once it is told to.
        kept: How many bytes of its output are kept, of the first and of the last.

    Returns:
        Its exit code, negative if a signal ended it; its output, shortened in the
        middle; and why it was ended, or None if it ended by itself.

    Raises:
        OSError: It could not be started.
    """
    readable, writable = os.pipe()
    _, output = await asyncio.get_running_loop().connect_read_pipe(
        lambda: Output(kept), os.fdopen(readable, "rb", buffering=0)
    )
    try:
        try:
            process, cancelled = await _started(call, environment, writable)
        finally:
            os.close(writable)
        _groups.add(process.pid)
        try:
            if cancelled is not None:
                raise cancelled
            why = await _wait(process, call.command.timeout)
        finally:
            await _end(process, grace)
            _groups.discard(process.pid)
        # A process that left the group may keep the pipe open for ever.
        await asyncio.wait([output.ended], timeout=_DRAINED_WITHIN)
    finally:
        output.close()
    assert process.returncode is not None
    return process.returncode, output.text, why


async def _started(
    call: Call, environment: Mapping[str, str], writable: int
) -> tuple[Process, asyncio.CancelledError | None]:
    """Start a command; return a cancellation that came meanwhile.

    If cancelled, the event loop itself would only end the group's first process.
    """
    arguments = call.arguments
    if limits := call.command.limits.text:
        launched = (sys.executable, "-I", "-S", launcher.__file__, limits)
        arguments = (*launched, *arguments)
    cancelled = None
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writable,
            stderr=writable,
            env=environment,
            cwd=call.command.folder,
            start_new_session=True,
        )
    )
    while not starting.done():
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError as error:
            cancelled = error
    return starting.result(), cancelled


async def _wait(process: Process, timeout: timedelta) -> str | None:
    """Wait for its end; return the reason if it must be ended."""
    ended = asyncio.ensure_future(process.wait())
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while not (await asyncio.wait([ended], timeout=_LOOK_EVERY))[0]:
                if (why := _unwanted()) is not None:
                    return why
    except TimeoutError:
        return f"it took longer than {timeout}"
    finally:
        ended.cancel()
    return None


async def _end(process: Process, grace: timedelta) -> None:
    try:
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace.total_seconds()):
                    await process.wait()
    finally:
        # The whole group: processes that it started may outlive it.
        _signal(process.pid, signal.SIGKILL)
        await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


@atexit.register
def _end_all() -> None:
    """End what a stop left behind, as it may soon run elsewhere."""
    for group in tuple(_groups):
        _signal(group, signal.SIGKILL)


_KEPT = 1024
_KEPT_AT_MOST = 64 * 1024


class CommandFailed(Exception):
    """A command did not succeed, and may be tried again; the text has its output."""


class Shell:
    """Runs one of some commands: ``{"command": "backup", "arguments": {…}}``.

    No shell is involved. The command has a process group of its own, which is
    ended, by ``SIGTERM`` and then by ``SIGKILL``, when it takes too long, or when its
    run is cancelled or lost; what is left of it when the command has ended is ended
    too. Its standard input is empty. Exit code 0 is success; after one of
    ``final_codes`` the instance has *failed*, after any other the policy decides. The
    error has the first and the last KiB of what it wrote.

    Args:
        commands: By their names.
        grace: How long a group has to end before it is killed.
        kept: How many bytes of the output are kept, of the first and of the last.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    description = "Runs a command that the server's configuration names."

    def __init__(
        self,
        commands: Mapping[str, Command],
        *,
        grace: timedelta = timedelta(seconds=2),
        kept: int = _KEPT,
    ) -> None:
        for name, command in commands.items():
            check_name("the name of a command", name)
            check_type(f"command {name!r}", command, Command)
        check_positive("grace", grace)
        check_number("kept", kept, 1, _KEPT_AT_MOST)
        self._commands = dict(commands)
        self._grace = grace
        self._kept = kept
        self.payload: ParameterOrders[Call] = ParameterOrders(
            "shell", self._call, self._schema
        )

    async def __call__(self, instance: TaskInstance) -> None:
        """Run the command of an instance.

        Raises:
            Fail: Its payload does not fit, or the exit code is a final one.
            CommandFailed: It did not succeed, or was ended.
            OSError: It could not be started.
        """
        call = self.payload.of(instance)
        environment = {
            **call.command.environment,
            "GO_SCHEDULER_INSTANCE_ID": str(instance.id),
            "GO_SCHEDULER_ATTEMPT": str(instance.attempt),
        }
        code, output, why = await run_command(
            call, environment, grace=self._grace, kept=self._kept
        )
        if why is None and code == 0:
            return
        how = f"ended with code {code}"
        if why is not None:
            how = f"was ended, as {why}"
        elif code < 0:
            how = f"was ended by signal {-code}"
        wrote = f":\n{output}" if output else ", and wrote nothing"
        text = f"command {call.name!r} {how}{wrote}"
        if why is None and code in call.command.final_codes:
            raise Fail(text)
        raise CommandFailed(text)

    def _call(
        self, command: str, arguments: dict[str, str | int | float] | None = None
    ) -> Call:
        if command not in self._commands:
            known = ", ".join(sorted(self._commands)) or "none"
            raise ConfigurationError(
                f"command: there is no {shown(command)}; known: {known}"
            )
        found = self._commands[command]
        return Call(command, found, found.filled(arguments or {}))

    def _schema(self) -> dict[str, JSON]:
        """The schema of a payload: one alternative for each command."""
        commands = sorted(self._commands.items())
        return {
            "type": "object",
            "properties": {"command": {"enum": sorted(self._commands)}},
            "required": ["command"],
            "oneOf": [_schema_of(name, each) for name, each in commands],
        }


def _schema_of(name: str, command: Command) -> dict[str, JSON]:
    value: JSON = {"type": ["string", "number"]}
    return {
        "properties": {
            "command": {"const": name},
            "arguments": {
                "type": "object",
                "properties": dict.fromkeys(command.names, value),
                "required": list(command.names),
                "additionalProperties": False,
            },
        },
        "required": ["arguments"] if command.names else [],
        "additionalProperties": False,
    }


def _unwanted() -> str | None:
    """Why the current run must be ended; None: it may go on."""
    try:
        run = current_run()
    except SchedulerStateError:
        # In a worker process there is no run; that process is ended as a whole.
        return None
    if run.lost:
        return "its run has been lost"
    return "its run was cancelled" if run.cancelled else None
