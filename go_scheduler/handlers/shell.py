"""The shell executor: runs commands that the configuration names, and no others."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name, check_positive, check_type
from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.handlers import launcher
from go_scheduler.handlers.command import Command, Limits
from go_scheduler.handlers.orders import Orders
from go_scheduler.handlers.process_group import Ended, Program, run_program
from go_scheduler.raised import Fail
from go_scheduler.run import current_run
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

__all__ = ["Command", "CommandFailed", "Limits", "Shell"]

_KEPT = 1024
_KEPT_AT_MOST = 64 * 1024


class CommandFailed(Exception):
    """A command did not succeed, and may be tried again; the text has its output."""


class Shell:
    """Runs one of some commands: ``{"command": "backup", "arguments": {…}}``.

    No shell has a part in it. The command has a process group of its own, which is
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
        check_type("kept", kept, int)
        if not 1 <= kept <= _KEPT_AT_MOST:
            raise ConfigurationError(
                f"kept must be from 1 to {_KEPT_AT_MOST} bytes: {kept}"
            )
        self._commands = dict(commands)
        self._grace = grace
        self._kept = kept
        self.payload: Orders[_Call] = Orders("shell", self._call, self._schema)

    async def __call__(self, instance: TaskInstance) -> None:
        """Run the command of an instance.

        Raises:
            Fail: Its payload does not fit, or the exit code is a final one.
            CommandFailed: It did not succeed, or was ended.
            OSError: It could not be started.
        """
        call = self.payload.of(instance)
        command = call.command
        program = Program(
            arguments=_launched(call),
            environment={
                **command.environment,
                "GO_SCHEDULER_INSTANCE_ID": str(instance.id),
                "GO_SCHEDULER_ATTEMPT": str(instance.attempt),
            },
            folder=Path(command.folder),
            timeout=command.timeout,
            grace=self._grace,
            kept=self._kept,
        )
        _judge(call, await run_program(program, _unwanted))

    def _call(
        self, command: str, arguments: dict[str, str | int | float] | None = None
    ) -> _Call:
        if command not in self._commands:
            known = ", ".join(sorted(self._commands)) or "none"
            raise ConfigurationError(
                f"command: there is no {shown(command)}; known: {known}"
            )
        found = self._commands[command]
        return _Call(command, found, found.filled(arguments or {}))

    def _schema(self) -> dict[str, JSON]:
        """A choice of what each command takes."""
        commands = sorted(self._commands.items())
        return {
            "type": "object",
            "properties": {"command": {"enum": sorted(self._commands)}},
            "required": ["command"],
            "oneOf": [_schema_of(*each) for each in commands],
        }


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    command: Command
    arguments: Sequence[str]


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


def _launched(call: _Call) -> Sequence[str]:
    """The arguments, behind what sets the limits if there are any."""
    if not (limits := call.command.limits.text):
        return call.arguments
    return (sys.executable, "-I", "-S", launcher.__file__, limits, *call.arguments)


def _unwanted() -> str | None:
    """Why the run in which this is called is to be ended; None: it is not."""
    try:
        run = current_run()
    except SchedulerStateError:
        # In a process of its own, which is ended as a whole.
        return None
    if run.lost:
        return "its run has been lost"
    return "its run was cancelled" if run.cancelled else None


def _judge(call: _Call, ended: Ended) -> None:
    """Raise what a command that did not succeed has to."""
    if ended.why is None and ended.code == 0:
        return
    how = f"was ended, as {ended.why}"
    if ended.why is None and ended.code < 0:
        how = f"was ended by signal {-ended.code}"
    elif ended.why is None:
        how = f"ended with code {ended.code}"
    wrote = f":\n{ended.output}" if ended.output else ", and wrote nothing"
    text = f"command {call.name!r} {how}{wrote}"
    if ended.why is None and ended.code in call.command.final_codes:
        raise Fail(text)
    raise CommandFailed(text)
