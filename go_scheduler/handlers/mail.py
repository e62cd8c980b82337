"""Mails of payloads: whom they go to, what is in them, and what of it is allowed."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.webhook_settings import is_among
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file in a mail."""

    name: str
    content: bytes
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What is to be sent, checked.

    Attributes:
        to: Who is named as the recipients.
        cc: Who is named as copied to.
        bcc: Who gets it besides, and is not named.
        subject: Its subject.
        text: As plain text; None: there is none.
        html: As HTML; None: there is none.
        headers: What else is said of it.
        attachments: The files in it.
    """

    to: Sequence[Address]
    cc: Sequence[Address]
    bcc: Sequence[Address]
    subject: str
    text: str | None
    html: str | None
    headers: Mapping[str, str]
    attachments: Sequence[Attachment]

    @property
    def recipients(self) -> Sequence[str]:
        """Whoever gets it, each once."""
        everybody = (*self.to, *self.cc, *self.bcc)
        return list(dict.fromkeys(each.addr_spec for each in everybody))

    def message(self, sender: Address, *, id: UUID, now: datetime) -> EmailMessage:
        """The message that is sent.

        Args:
            sender: Whom it is from.
            id: Of the instance, of which the id of the message is made.
            now: When it is sent.
        """
        message = EmailMessage(SMTP)
        message["From"] = sender
        message["To"] = self.to
        if self.cc:
            message["Cc"] = self.cc
        message["Subject"] = self.subject
        message["Date"] = format_datetime(now)
        message["Message-ID"] = f"<{id}@{sender.domain}>"
        for name, value in self.headers.items():
            message[name] = value
        if self.text is not None:
            message.set_content(self.text)
        if self.html is not None:
            add = message.set_content if self.text is None else message.add_alternative
            add(self.html, subtype="html")
        for each in self.attachments:
            main, sub = each.kind.split("/")
            message.add_attachment(
                each.content, maintype=main, subtype=sub, filename=each.name
            )
        return message


def address_of(name: str, text: str) -> Address:
    """An address, as in ``ada@example.org`` or ``Ada <ada@example.org>``.

    Raises:
        ConfigurationError: It is none, or not one of ASCII characters.
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
        ConfigurationError: One is none, or not allowed.
    """
    given = [texts] if isinstance(texts, str) else texts
    found = [address_of(name, each) for each in given]
    for each in found:
        if allowed is not None and not _may_get(each, allowed):
            raise ConfigurationError(f"{name}: {each.addr_spec} is not allowed")
    return found


def line_of(name: str, text: str) -> str:
    """A text that is one line of a header.

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
    """Headers, if they are a payload's to set.

    Raises:
        ConfigurationError: One is not.
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


def attachments_of(attachments: Sequence[Mapping[str, str]]) -> Sequence[Attachment]:
    """The files of ``{"name": …, "content": …, "type": …}``, in base64.

    Raises:
        ConfigurationError: One is not.
    """
    if len(attachments) > _MOST_ATTACHMENTS:
        raise ConfigurationError(
            f"attachments: there are more than {_MOST_ATTACHMENTS}"
        )
    return [
        _attachment(f"attachments[{n}]", each) for n, each in enumerate(attachments)
    ]


def _attachment(where: str, given: Mapping[str, str]) -> Attachment:
    if unknown := given.keys() - _OF_AN_ATTACHMENT:
        raise ConfigurationError(f"{where}: there is no {shown(min(unknown))} of it")
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
    return Attachment(name=name, content=content, kind=kind)


def _may_get(address: Address, allowed: Collection[str]) -> bool:
    addresses = {each.lower() for each in allowed if "@" in each}
    domains = [each.lower() for each in allowed if "@" not in each]
    return address.addr_spec.lower() in addresses or is_among(address.domain, domains)
