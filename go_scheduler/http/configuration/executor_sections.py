"""The sections on webhooks and mails: types of jobs that the server itself runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.webhook import Webhook
from go_scheduler.handlers.webhook_settings import Secret, WebhookSettings
from go_scheduler.http.configuration.section import Duration, Section, Texts


class SecretSection(Section):
    """A secret, and to which hosts it goes; see ``Secret``."""

    value: SecretStr
    hosts: Texts

    def secret(self, place: str) -> Secret:
        """The secret, which the configuration has at this place.

        Raises:
            ConfigurationError: It is none, or a host is.
        """
        try:
            return Secret(value=self.value.get_secret_value(), hosts=self.hosts)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from None


class WebhookSection(Section):
    """The type ``webhook``; see ``WebhookSettings`` for what each means.

    Attributes:
        secrets: The keys of signatures, by name.
        authorizations: What is sent as ``Authorization``, by name.
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
        """What sends them.

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
        try:
            return Webhook(
                secrets=secrets,
                authorizations=authorizations,
                settings=WebhookSettings(**given),
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"types.webhook: {error}") from None


class EmailSection(Section):
    """The type ``email``; see ``MailServer`` and ``Email`` for what each means."""

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
        """What sends them.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        given = dict(self)
        mail = {
            name: given.pop(name) for name in ("sender", "recipients", "max_recipients")
        }
        if self.password is not None:
            given["password"] = self.password.get_secret_value()
        try:
            return Email(MailServer(**given), **mail)
        except ConfigurationError as error:
            raise ConfigurationError(f"types.email: {error}") from None
