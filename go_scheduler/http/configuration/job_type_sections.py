"""The section on types of jobs: webhooks, mails, and commands."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.shell import Command, Limits, Shell
from go_scheduler.handlers.webhook import Webhook
from go_scheduler.handlers.webhook_settings import Secret, WebhookSettings
from go_scheduler.http.configuration.imported import imported
from go_scheduler.http.configuration.section import Duration, Section, Texts, errors_at


class SecretSection(Section):
    """A secret, and the hosts that may receive it; see ``Secret``."""

    value: SecretStr
    hosts: Texts

    def secret(self, place: str) -> Secret:
        """The secret at this path of the configuration.

        Raises:
            ConfigurationError: The value or a host is wrong.
        """
        with errors_at(place):
            return Secret(value=self.value.get_secret_value(), hosts=self.hosts)


class WebhookSection(Section):
    """The type ``webhook``; see ``WebhookSettings``.

    Attributes:
        secrets: The keys of signatures, by name.
        authorizations: Values of ``Authorization``, by name.
    """

    hosts: Texts | None = None
    ports: tuple[int, ...] = (80, 443)
    networks: Texts = ()
    redirects: int = 0
    other_hosts: bool = False
    connect_timeout: Duration = timedelta(seconds=10)
    read_timeout: Duration = timedelta(seconds=30)
    timeout: Duration = timedelta(seconds=60)
    max_answer: int = 64 * 1024
    max_retry_after: Duration = timedelta(hours=1)
    ca_file: Path | None = None
    secrets: dict[str, SecretSection] = Field(default_factory=dict)
    authorizations: dict[str, SecretSection] = Field(default_factory=dict)

    def executor(self) -> Webhook:
        """The handler of the type.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        given = dict(self)
        secrets, authorizations = (
            {
                name: each.secret(f"types.webhook.{of}.{name}")
                for name, each in given.pop(of).items()
            }
            for of in ("secrets", "authorizations")
        )
        with errors_at("types.webhook"):
            return Webhook(
                secrets=secrets,
                authorizations=authorizations,
                settings=WebhookSettings(**given),
            )


class EmailSection(Section):
    """The type ``email``; see ``MailServer`` and ``Email``."""

    host: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: SecretStr | None = None
    timeout: Duration = timedelta(seconds=30)
    ca_file: Path | None = None
    hello: str | None = None
    sender: str
    recipients: Texts | None = None
    max_recipients: int = 50

    def executor(self) -> Email:
        """The handler of the type.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        given = dict(self)
        mail = {
            name: given.pop(name) for name in ("sender", "recipients", "max_recipients")
        }
        if self.password is not None:
            given["password"] = self.password.get_secret_value()
        with errors_at("types.email"):
            return Email(MailServer(**given), **mail)


class CommandLimitsSection(Section):
    """The limits of a command's process; see ``Limits``."""

    cpu_seconds: int | None = None
    memory: int | None = None
    open_files: int | None = None


class CommandSection(Section):
    """A command that may be run; see ``Command``.

    Attributes:
        environment: Its whole environment; None: a ``PATH`` and a ``LANG``.
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
        found = dict(self) | {"limits": Limits(**dict(self.limits))}
        if self.environment is None:
            del found["environment"]
        else:
            found["environment"] = {
                name: each.get_secret_value() for name, each in self.environment.items()
            }
        return Command(**found)


class ShellSection(Section):
    """The type ``shell``: commands, by their names.

    Attributes:
        commands: The commands that may be run.
        grace: The time between SIGTERM and SIGKILL for a command.
    """

    commands: dict[str, CommandSection]
    grace: Duration = timedelta(seconds=2)

    def executor(self) -> Shell:
        """The handler of the type.

        Raises:
            ConfigurationError: A command is wrong.
        """
        commands = {}
        for name, each in self.commands.items():
            with errors_at(f"types.shell.commands.{name}"):
                commands[name] = each.command()
        return Shell(commands, grace=self.grace)


class TypesSection(Section):
    """The types of jobs that the server itself runs.

    Attributes:
        queue: The queue of the types in this section.
        module: A ``JobTypes`` of your own, such as ``myapp.jobs:types``.
        announced: Whether to add the types that installed packages announce.
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
        """A new registry of the types, which may be empty.

        Raises:
            ConfigurationError: A type is wrong.
        """
        types = JobTypes() if self.module is None else copy(_types_of(self.module))
        if self.announced:
            types.load_announced()
        for name in ("webhook", "email", "shell"):
            if (section := getattr(self, name)) is not None:
                types.add(name, section.executor(), queue=self.queue)
        return types

    def queues(self, types: JobTypes) -> tuple[str, ...]:
        """The queues of the types that the server runs."""
        return tuple(dict.fromkeys(each.definition.queue for each in types.types))


def _types_of(module: str) -> JobTypes:
    found = imported(module)
    if not isinstance(found, JobTypes):
        raise ConfigurationError(
            f"types.module, {module}, must be a JobTypes, not {shown(found)}"
        )
    return found
