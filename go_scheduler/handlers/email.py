"""The email executor: sends mails by SMTP, with TLS."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from go_scheduler.checks import check_name, check_positive, check_type
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.mail import (
    Mail,
    address_of,
    addresses_of,
    attachments_of,
    headers_of,
    line_of,
)
from go_scheduler.handlers.orders import Orders
from go_scheduler.raised import Fail
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from email.message import EmailMessage

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskInstance

_Security = Literal["starttls", "tls", "none"]
_Refused = Mapping[str, tuple[int, bytes]]

_MOST_RECIPIENTS = 1000
_LONGEST_REPLY = 500


class EmailFailed(Exception):
    """A mail that was not sent, as far as is known, and may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server that mails are handed to.

    Attributes:
        host: Its name, for which its certificate has to be.
        port: Its port; commonly 587 for STARTTLS and 465 for TLS from the beginning.
        security: ``"starttls"``, ``"tls"``, or ``"none"``, with which nobody logs in.
        user: Who logs in; None: nobody.
        password: With what; it is not shown.
        timeout: How long each step may take.
        ca_file: The certificates, as PEM, that it is verified by; None: the system's.
        hello: What it is greeted with; None: the domain of the sender.

    Raises:
        ConfigurationError: A value is wrong.
    """

    host: str
    port: int = 587
    security: str = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=30)
    ca_file: Path | str | None = None
    hello: str | None = None

    def __post_init__(self) -> None:
        check_name("host", self.host)
        check_type("port", self.port, int)
        if self.security not in get_args(_Security):
            raise ConfigurationError(
                f"security must be starttls, tls or none: {shown(self.security)}"
            )
        if (self.user is None) != (self.password is None):
            raise ConfigurationError("give a user and a password, or neither")
        if self.user is not None and self.security == "none":
            raise ConfigurationError("a password is not sent without TLS")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ConfigurationError(f"ca_file: there is no file {self.ca_file}")
        check_positive("timeout", self.timeout)


class Email:
    """Sends a mail: ``{"to": "ada@example.org", "subject": "…", "text": "…"}``.

    What the server refuses for good, by a reply of 5xx, has *failed*; after one of 4xx,
    or if there is none, the policy decides. When it takes the mail for some of the
    recipients only, the instance has failed as well, and its error says who did not get
    it: another run would send it to the others again. The ``Message-ID`` is the same
    for each run of an instance.

    Args:
        server: The server that mails are handed to.
        sender: Whom they are from.
        recipients: Who may get any: addresses, domains, and by ``.example.org`` all
            below one. None: anybody.
        max_recipients: How many may get one mail.
        clock: Tells the time of the ``Date``.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    description = "Sends a mail."

    def __init__(
        self,
        server: MailServer,
        *,
        sender: str,
        recipients: Collection[str] | None = None,
        max_recipients: int = 50,
        clock: Clock | None = None,
    ) -> None:
        check_type("server", server, MailServer)
        check_type("sender", sender, str)
        if isinstance(recipients, str):
            raise ConfigurationError(
                "recipients must be a list of addresses and domains, not a text"
            )
        check_type("max_recipients", max_recipients, int)
        if not 1 <= max_recipients <= _MOST_RECIPIENTS:
            raise ConfigurationError(
                f"max_recipients must be from 1 to {_MOST_RECIPIENTS}: {max_recipients}"
            )
        self._server = server
        self._sender = address_of("sender", sender)
        self._allowed = None if recipients is None else tuple(recipients)
        self._most = max_recipients
        self._clock = clock or SystemClock()
        self.payload: Orders[Mail] = Orders("email", self._mail)

    def __call__(self, instance: TaskInstance) -> None:
        """Send the mail of an instance.

        Raises:
            Fail: Its payload does not fit, or the server refuses it for good, or for
                some of the recipients.
            EmailFailed: It was not sent, and may be tried again.
        """
        mail = self.payload.of(instance)
        now = self._clock.now()
        message = mail.message(self._sender, id=instance.id, now=now)
        try:
            refused = self._send(message, mail)
        except smtplib.SMTPRecipientsRefused as error:
            _raise_refused("nobody gets it", error.recipients)
        except smtplib.SMTPNotSupportedError as error:
            raise Fail(f"{self._server.host}: {error}") from None
        except smtplib.SMTPResponseException as error:
            text = f"{self._server.host}: {_reply(error.smtp_code, error.smtp_error)}"
            if error.smtp_code >= 500:
                raise Fail(text) from None
            raise EmailFailed(text) from None
        except (smtplib.SMTPException, OSError) as error:
            text = f"{self._server.host}: {type(error).__name__}: {error}"
            raise EmailFailed(text) from None
        if refused:
            raise Fail(f"it was sent, but not to all: {_refusals(refused)}")

    def _mail(
        self,
        to: str | list[str],
        subject: str,
        text: str | None = None,
        html: str | None = None,
        cc: str | list[str] | None = None,
        bcc: str | list[str] | None = None,
        headers: dict[str, str] | None = None,
        attachments: list[dict[str, str]] | None = None,
    ) -> Mail:
        if text is None and html is None:
            raise ConfigurationError("text: give text, html or both")
        mail = Mail(
            to=addresses_of("to", to, self._allowed),
            cc=addresses_of("cc", cc or [], self._allowed),
            bcc=addresses_of("bcc", bcc or [], self._allowed),
            subject=line_of("subject", subject),
            text=text,
            html=html,
            headers=headers_of(headers or {}),
            attachments=attachments_of(attachments or []),
        )
        if not mail.to:
            raise ConfigurationError("to: name a recipient")
        if len(mail.recipients) > self._most:
            raise ConfigurationError(
                f"to: it has more than {self._most} recipients, with cc and bcc"
            )
        return mail

    def _send(self, message: EmailMessage, mail: Mail) -> _Refused:
        """Send it, and answer who does not get it."""
        client = self._connected()
        try:
            if self._server.security == "starttls":
                client.starttls(context=self._tls())
            if self._server.user is not None:
                assert self._server.password is not None
                client.login(self._server.user, self._server.password)
            refused = client.send_message(
                message, self._sender.addr_spec, mail.recipients
            )
            # It is sent, whatever the server has to say to a farewell.
            with suppress(smtplib.SMTPException, OSError):
                client.quit()
        finally:
            client.close()
        return refused

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        hello = server.hello or self._sender.domain
        seconds = server.timeout.total_seconds()
        if server.security == "tls":
            return smtplib.SMTP_SSL(
                server.host, server.port, hello, timeout=seconds, context=self._tls()
            )
        return smtplib.SMTP(server.host, server.port, hello, timeout=seconds)

    def _tls(self) -> ssl.SSLContext:
        ca_file = self._server.ca_file
        return ssl.create_default_context(
            cafile=None if ca_file is None else str(ca_file)
        )


def _raise_refused(what: str, refused: _Refused) -> None:
    text = f"{what}: {_refusals(refused)}"
    if all(code >= 500 for code, _ in refused.values()):
        raise Fail(text) from None
    raise EmailFailed(text) from None


def _refusals(refused: _Refused) -> str:
    return "; ".join(f"{who}: {_reply(*reply)}" for who, reply in refused.items())


def _reply(code: int, text: bytes | str) -> str:
    """What a server replied."""
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {said[:_LONGEST_REPLY]}"
