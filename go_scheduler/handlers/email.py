"""The email executor: it sends the mails of payloads by SMTP, with TLS."""

from __future__ import annotations

import base64
import re
import smtplib
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from go_scheduler.checks import check_name, check_number, check_positive, check_type
from go_scheduler.clock import Clock, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.payload import ParameterOrders
from go_scheduler.handlers.webhook_settings import is_among
from go_scheduler.run import Fail

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance

_SPEC = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,188}"
_BARE = re.compile(rf"(?P<name>)(?P<spec>{_SPEC})")
_NAMED = re.compile(rf"(?P<name>[^<>]{{0,200}}?) ?<(?P<spec>{_SPEC})>")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,76}")
_OURS = re.compile(
    r"from|sender|to|cc|bcc|subject|date|message-id|mime-version|return-path|received"
    r"|dkim-signature|resent-.*|content-.*|arc-.*",
    re.IGNORECASE,
)
_KIND = re.compile(r"(?!multipart/|message/)[a-z0-9-]{1,60}/[a-z0-9.+-]{1,100}")
_LONGEST_HEADER = 900
_MOST_HEADERS = 50
_MOST_ATTACHMENTS = 20
_OF_AN_ATTACHMENT = {"name", "content", "type"}


def address_of(name: str, text: str) -> Address:
    """An address, as in ``ada@example.org`` or ``Ada <ada@example.org>``.

    Raises:
        ConfigurationError: It is no address, or not plain ASCII.
    """
    line = line_of(name, text)
    found = _BARE.fullmatch(line) or _NAMED.fullmatch(line)
    if found is None:
        raise ConfigurationError(
            f"{name}: {shown(text)} is no address, as ada@example.org is, or"
            " Ada <ada@example.org>"
        )
    user, _, domain = found["spec"].rpartition("@")
    return Address(found["name"].strip().strip('"'), user, domain)


def addresses_of(
    name: str, texts: str | Sequence[str], allowed: Collection[str] | None
) -> Sequence[Address]:
    """Addresses, if mail may go to each of them.

    Raises:
        ConfigurationError: One is no address, or not allowed.
    """
    given = [texts] if isinstance(texts, str) else texts
    found = [address_of(name, each) for each in given]
    for each in found:
        if allowed is not None and not _may_get(each, allowed):
            raise ConfigurationError(f"{name}: {each.addr_spec} is not allowed")
    return found


def line_of(name: str, text: str) -> str:
    """Check a text that is to be one line of a header.

    Raises:
        ConfigurationError: It is longer, or has a line's end or another control
            character in it.
    """
    if not text.isprintable():
        raise ConfigurationError(f"{name}: it holds a control character: {shown(text)}")
    if len(text) > _LONGEST_HEADER:
        raise ConfigurationError(
            f"{name}: it has more than {_LONGEST_HEADER} characters"
        )
    return text


def headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Check headers: a payload may not set all of them.

    Raises:
        ConfigurationError: One is not allowed.
    """
    if len(headers) > _MOST_HEADERS:
        raise ConfigurationError(f"headers: there are more than {_MOST_HEADERS}")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise ConfigurationError(f"headers: {shown(name)} is no name of a header")
        if _OURS.fullmatch(name):
            raise ConfigurationError(f"headers.{name}: it is not the payload's to set")
        line_of(f"headers.{name}", value)
    if len({name.lower() for name in headers}) < len(headers):
        raise ConfigurationError("headers: one is there twice, in another case")
    return dict(headers)


def attach(message: EmailMessage, where: str, given: Mapping[str, str]) -> None:
    """Add the file of ``{"name": …, "content": …, "type": …}``, in base64, to a mail.

    Raises:
        ConfigurationError: It is no such file.
    """
    if unknown := given.keys() - _OF_AN_ATTACHMENT:
        raise ConfigurationError(f"{where}: it has no {shown(min(unknown))}")
    for name in ("name", "content"):
        if name not in given:
            raise ConfigurationError(f"{where}.{name}: it is missing")
    name = line_of(f"{where}.name", given["name"])
    if not name or re.search(r'[/\\"]', name):
        raise ConfigurationError(f"{where}.name: {shown(name)} is no name of a file")
    kind = given.get("type", "application/octet-stream")
    if not _KIND.fullmatch(kind):
        raise ConfigurationError(
            f"{where}.type: {shown(kind)} is no type, as image/png is"
        )
    try:
        content = base64.b64decode(given["content"], validate=True)
    except ValueError as error:
        raise ConfigurationError(f"{where}.content: it is no base64: {error}") from None
    main, sub = kind.split("/")
    message.add_attachment(content, maintype=main, subtype=sub, filename=name)


def _may_get(address: Address, allowed: Collection[str]) -> bool:
    addresses = {each.lower() for each in allowed if "@" in each}
    domains = [each.lower() for each in allowed if "@" not in each]
    return address.addr_spec.lower() in addresses or is_among(address.domain, domains)


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
        host: Its name, which its certificate must be for.
        port: Its port; commonly 587 for STARTTLS and 465 for TLS from the beginning.
        security: ``"starttls"``, ``"tls"``, or ``"none"``, which allows no login.
        user: Who logs in; None: nobody.
        password: The password of ``user``; it is not shown.
        timeout: How long each step may take.
        ca_file: The certificates, as PEM, to verify it by; None: the system's.
        hello: The name given in the SMTP greeting; None: the domain of the sender.

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
        check_number("max_recipients", max_recipients, 1, _MOST_RECIPIENTS)
        self._server = server
        self._sender = address_of("sender", sender)
        self._allowed = None if recipients is None else tuple(recipients)
        self._most = max_recipients
        self._clock = clock or SystemClock()
        self.payload: ParameterOrders[tuple[EmailMessage, Sequence[str]]] = (
            ParameterOrders("email", self._mail)
        )

    def __call__(self, instance: TaskInstance) -> None:
        """Send the mail of an instance.

        Raises:
            Fail: Its payload does not fit, or the server refuses it for good, or for
                some of the recipients.
            EmailFailed: It was not sent, and may be tried again.
        """
        message, recipients = self.payload.of(instance)
        message["Date"] = format_datetime(self._clock.now())
        message["Message-ID"] = f"<{instance.id}@{self._sender.domain}>"
        try:
            refused = self._send(message, recipients)
        except smtplib.SMTPRecipientsRefused as error:
            text = f"nobody gets it: {_refusals(error.recipients)}"
            if all(code >= 500 for code, _ in error.recipients.values()):
                raise Fail(text) from None
            raise EmailFailed(text) from None
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
    ) -> tuple[EmailMessage, Sequence[str]]:
        """The mail that a payload asks for, and its recipients, each once."""
        if text is None and html is None:
            raise ConfigurationError("text: give text, html or both")
        message = EmailMessage(SMTP)
        message["From"] = self._sender
        message["To"] = named = addresses_of("to", to, self._allowed)
        if not named:
            raise ConfigurationError("to: name a recipient")
        copied = addresses_of("cc", cc or [], self._allowed)
        if copied:
            message["Cc"] = copied
        everybody = [*named, *copied, *addresses_of("bcc", bcc or [], self._allowed)]
        recipients = list(dict.fromkeys(each.addr_spec for each in everybody))
        if len(recipients) > self._most:
            raise ConfigurationError(
                f"to: it has more than {self._most} recipients, with cc and bcc"
            )
        message["Subject"] = line_of("subject", subject)
        for name, value in headers_of(headers or {}).items():
            message[name] = value
        if text is not None:
            message.set_content(text)
        if html is not None:
            add = message.set_content if text is None else message.add_alternative
            add(html, subtype="html")
        files = attachments or []
        if len(files) > _MOST_ATTACHMENTS:
            raise ConfigurationError(
                f"attachments: there are more than {_MOST_ATTACHMENTS}"
            )
        for number, file in enumerate(files):
            attach(message, f"attachments[{number}]", file)
        return message, recipients

    def _send(self, message: EmailMessage, recipients: Sequence[str]) -> _Refused:
        """Send it, and return who was refused."""
        client = self._connected()
        try:
            if self._server.security == "starttls":
                client.starttls(context=self._tls())
            if self._server.user is not None:
                assert self._server.password is not None
                client.login(self._server.user, self._server.password)
            refused = client.send_message(message, self._sender.addr_spec, recipients)
            # The mail is sent, even if closing the connection fails.
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


def _refusals(refused: _Refused) -> str:
    return "; ".join(f"{who}: {_reply(*reply)}" for who, reply in refused.items())


def _reply(code: int, text: bytes | str) -> str:
    """What a server replied."""
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {said[:_LONGEST_REPLY]}"
