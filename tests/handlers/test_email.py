"""The email executor, with real servers: what they get, and what follows."""

from __future__ import annotations

import base64
import email
import email.policy
import socket
from dataclasses import replace
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import Fail
from go_scheduler.handlers.email import Email, EmailFailed, MailServer
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START
from tests.case_tables import json_table
from tests.conftest import instance, seconds
from tests.handlers.conftest import refused
from tests.handlers.mail_servers import Mails, mail_server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from go_scheduler.models import TaskInstance

ADA = {"to": "ada@example.org", "subject": "Hello", "text": "Hello Ada"}


@pytest.fixture
def mails(context: ssl.SSLContext) -> Iterator[Mails]:
    with mail_server(starttls=context) as mails:
        yield mails


@pytest.fixture
def plain() -> Iterator[Mails]:
    with mail_server() as mails:
        yield mails


def made(mails: Mails, security: str = "none", **more: Any) -> Email:
    of_server = {"host", "user", "password", "ca_file", "timeout"}
    server: Any = {"host": "localhost", "port": mails.port, "security": security}
    rest: Any = {"sender": "Shop <shop@shop.example>", "clock": ManualClock()}
    for name, value in more.items():
        (server if name in of_server else rest)[name] = value
    return Email(MailServer(**server), **rest)


def send(executor: Email, **payload: Any) -> TaskInstance:
    given: Any = replace(instance(), payload={**ADA, **payload})
    executor(given)
    return given  # type: ignore[no-any-return]


def only(mails: Mails) -> tuple[Any, EmailMessage]:
    [(_, envelope)] = mails.received
    message: Any = email.message_from_bytes(
        envelope.content, policy=email.policy.default
    )
    return envelope, message


class TestWhatIsSent:
    def test_all_of_it_arrives(self, plain: Mails) -> None:
        sent = send(
            made(plain),
            to=["Ada Lovelace <ada@example.org>", "bob@example.org"],
            cc="eve@example.org",
            bcc=["mallory@example.org", "ada@example.org"],
            subject="Grüße ✓",
            text="Hello ü\n" + "x" * 2000,
            html="<b>Hello</b>",
            headers={"Reply-To": "help@shop.example", "X-Order": "7"},
            attachments=[
                {
                    "name": "Rechnung ü.png",
                    "content": base64.b64encode(b"\0\xff").decode(),
                    "type": "image/png",
                },
                {"name": "a", "content": ""},
            ],
        )
        envelope, message = only(plain)
        assert envelope.mail_from == "shop@shop.example"
        assert envelope.rcpt_tos == [
            "ada@example.org",
            "bob@example.org",
            "eve@example.org",
            "mallory@example.org",
        ]
        assert message["From"] == "Shop <shop@shop.example>"
        assert message["To"] == "Ada Lovelace <ada@example.org>, bob@example.org"
        assert message["Cc"] == "eve@example.org"
        assert message["Bcc"] is None
        assert "mallory" not in envelope.content.decode()
        assert message["Subject"] == "Grüße ✓"
        assert message["Message-ID"] == f"<{sent.id}@shop.example>"
        assert message["Date"] == format_datetime(START)
        assert (message["Reply-To"], message["X-Order"]) == ("help@shop.example", "7")
        text: Any = message.get_body(("plain",))
        html: Any = message.get_body(("html",))
        assert text.get_content().startswith("Hello ü\r\n" + "x" * 2000)
        assert html.get_content().strip() == "<b>Hello</b>"
        picture, other = message.iter_attachments()
        assert picture.get_content() == b"\0\xff"
        assert (picture.get_filename(), picture.get_content_type()) == (
            "Rechnung ü.png",
            "image/png",
        )
        assert other.get_content_type() == "application/octet-stream"

    def test_it_may_be_html_alone(self, plain: Mails) -> None:
        send(made(plain), text=None, html="<b>Hello</b>")
        _, message = only(plain)
        assert message.get_content_type() == "text/html"

    @pytest.mark.parametrize("security", ["starttls", "tls"])
    def test_with_tls_the_server_is_verified_and_logged_in_to(
        self,
        security: str,
        context: ssl.SSLContext,
        ca_file: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with mail_server(**{security: context}) as mails:
            login = {"user": "shop", "password": "s3cret"}
            send(made(mails, security, ca_file=ca_file, **login))
            assert mails.logins == [(b"shop", b"s3cret")]
            with pytest.raises(EmailFailed, match="certificate"):
                send(made(mails, security, **login))
            with pytest.raises(EmailFailed, match="certificate"):
                send(made(mails, security, ca_file=ca_file, host="127.0.0.1"))
            wrong = login | {"password": "hunter2"}
            with pytest.raises(Fail, match=r"535 5\.7\.8") as refusal:
                send(made(mails, security, ca_file=ca_file, **wrong))
            assert len(mails.received) == 1
        assert "hunter2" not in str(refusal.value) + caplog.text

    def test_without_starttls_nothing_is_sent(self, plain: Mails) -> None:
        with pytest.raises(Fail, match="STARTTLS extension not supported"):
            send(made(plain, "starttls"))
        assert plain.received == []

    def test_a_server_that_wants_it_is_not_sent_to_without(self, mails: Mails) -> None:
        with pytest.raises(Fail, match="530 Must issue a STARTTLS"):
            send(made(mails))


class TestWhatFollows:
    @pytest.mark.parametrize(
        ("reply", "kind", "told"),
        [
            ("451 later", EmailFailed, "localhost: 451 later"),
            ("554 no", Fail, "localhost: 554 no"),
            ("", EmailFailed, "SMTPServerDisconnected"),
        ],
        ids=["later", "no", "hangs up"],
    )
    def test_a_reply_to_the_mail_says_whether_it_is_tried_again(
        self, plain: Mails, reply: str, kind: type[Exception], told: str
    ) -> None:
        plain.reply = reply
        with pytest.raises(kind, match=told):
            send(made(plain))

    @pytest.mark.parametrize(
        ("others", "kind"), [("450 later", EmailFailed), ("550 no", Fail)]
    )
    def test_so_do_those_to_all_recipients(
        self, plain: Mails, others: str, kind: type[Exception]
    ) -> None:
        plain.refusals = {"ada@example.org": "550 unknown", "bob@example.org": others}
        with pytest.raises(kind) as failure:
            send(made(plain), to=["ada@example.org", "bob@example.org"])
        assert str(failure.value) == (
            f"nobody gets it: ada@example.org: 550 unknown; bob@example.org: {others}"
        )

    def test_who_does_not_get_it_is_told_and_nobody_gets_it_twice(
        self, plain: Mails
    ) -> None:
        plain.refusals = {"bob@example.org": f"450 {'later ' * 80}"}
        with pytest.raises(Fail) as failure:
            send(made(plain), cc="bob@example.org")
        assert str(failure.value).startswith(
            "it was sent, but not to all: bob@example.org: 450 later later"
        )
        assert len(plain.received) == 1

    def test_a_server_that_is_not_there_is_tried_again(self, plain: Mails) -> None:
        with socket.socket() as there:
            there.bind(("127.0.0.1", 0))
            plain.port = there.getsockname()[1]
            with pytest.raises(EmailFailed, match="ConnectionRefusedError"):
                send(made(plain))
            # From here on it is there, and says nothing.
            there.listen()
            with pytest.raises(EmailFailed, match="timed out"):
                send(made(plain, timeout=seconds(0.05)))


FILE = {"name": "a", "content": "YQ=="}


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        *json_table("handlers/email_payloads"),
        (
            {"to": [f"a{n}@example.org" for n in range(6)]},
            "to: it has more than 5 recipients, with cc and bcc",
        ),
        ({"subject": "a" * 901}, "subject: it has more than 900 characters"),
        ({"headers": {str(n): "" for n in range(51)}}, "headers: there are more than"),
        ({"attachments": [FILE] * 21}, "attachments: there are more than 20"),
    ],
)
def test_a_payload_that_it_does_not_send_is_refused(payload: Any, answer: str) -> None:
    types = JobTypes()
    executor = Email(
        MailServer(host="localhost"),
        sender="shop@shop.example",
        recipients=["Example.org", "Help@Shop.example"],
        max_recipients=5,
    )
    types.add("email", executor)
    types.check("email", ADA | {"cc": ["help@shop.example"]})
    assert refused(types.check, "email", ADA | payload).startswith(answer)


SERVER: Any = {"host": "localhost"}
EXECUTOR: Any = {"server": MailServer(**SERVER), "sender": "shop@shop.example"}


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        *json_table("handlers/email_settings"),
        ({"timeout": seconds(0)}, "timeout must be longer than zero"),
    ],
)
def test_what_cannot_be_configured_is_refused(wrong: Any, answer: str) -> None:
    of_executor = {"sender", "recipients", "max_recipients", "server"}
    kind: Any = Email if wrong.keys() & of_executor else MailServer
    given = EXECUTOR if kind is Email else SERVER
    assert refused(kind, **(given | wrong)).startswith(answer)


def test_a_password_is_not_shown() -> None:
    assert "s3cret" not in repr(MailServer(host="a", user="b", password="s3cret"))
