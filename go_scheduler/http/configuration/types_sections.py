"""The section on types of jobs: what the server itself runs."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.command import Command, Limits
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.shell import Shell
from go_scheduler.http.configuration.executor_sections import (
    EmailSection,
    WebhookSection,
)
from go_scheduler.http.configuration.imported import imported
from go_scheduler.http.configuration.section import Duration, Section, Texts
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping


class CommandLimitsSection(Section):
    """How much of the machine a command may take; see ``Limits``."""

    cpu_seconds: int | None = None
    memory: int | None = None
    open_files: int | None = None


class CommandSection(Section):
    """A command that may be run; see ``Command``.

    Attributes:
        environment: All that it finds in its environment; None: a ``PATH`` and a
            ``LANG``.
    """

    arguments: tuple[str, ...]
    options: Texts = ()
    environment: dict[str, SecretStr] | None = None
    folder: Path = Path("/")
    timeout: Duration = timedelta(minutes=5)
    final_codes: tuple[int, ...] = ()
    limits: CommandLimitsSection = CommandLimitsSection()

    def command(self) -> Command:
        """The command.

        Raises:
            ConfigurationError: There is no such program or folder, or a value is wrong.
        """
        found = {name: getattr(self, name) for name in type(self).model_fields}
        found["limits"] = Limits(**dict(self.limits))
        if self.environment is None:
            del found["environment"]
        else:
            found["environment"] = _open(self.environment)
        return Command(**found)


class ShellSection(Section):
    """The type ``shell``: commands, by their names.

    Attributes:
        commands: Those that may be run.
        grace: How long a command that is ended has until it is killed.
    """

    commands: dict[str, CommandSection]
    grace: Duration = timedelta(seconds=2)

    def executor(self) -> Shell:
        """What runs them.

        Raises:
            ConfigurationError: A command is wrong.
        """
        commands = {}
        for name, each in self.commands.items():
            try:
                commands[name] = each.command()
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"types.shell.commands.{name}: {error}"
                ) from None
        return Shell(commands, grace=self.grace)


class TypesSection(Section):
    """The types of jobs that the server itself runs.

    Attributes:
        queue: The queue of those that are named here.
        module: A ``JobTypes`` of your own, such as ``myapp.jobs:types``.
        announced: Whether those are added that installed packages announce.
        webhook: Requests to URLs; None: there is no type ``webhook``.
        email: Mails; None: there is no type ``email``.
        shell: Commands; None: there is no type ``shell``.
    """

    queue: str = "server"
    module: str | None = None
    announced: bool = True
    webhook: WebhookSection | None = None
    email: EmailSection | None = None
    shell: ShellSection | None = None

    def job_types(self) -> JobTypes:
        """The types, perhaps none: a registry of its own each time.

        Raises:
            ConfigurationError: One cannot be had.
        """
        types = JobTypes() if self.module is None else copy(_types_of(self.module))
        if self.announced:
            types.load_announced()
        for name in ("webhook", "email", "shell"):
            if (section := getattr(self, name)) is not None:
                types.add(name, section.executor(), queue=self.queue)
        return types

    def queues(self, types: JobTypes) -> tuple[str, ...]:
        """The queues in which the server looks for what it runs."""
        return tuple(dict.fromkeys(each.definition.queue for each in types.types))


def _types_of(module: str) -> JobTypes:
    found = imported(module)
    if not isinstance(found, JobTypes):
        raise ConfigurationError(
            f"types.module, {module}, must be a JobTypes, not {shown(found)}"
        )
    return found


def _open(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: each.get_secret_value() for name, each in secrets.items()}
