r"""Mails to whom they are allowed to go, and a server that takes them.

The server is one of this program's own, of aiosmtpd, in plain; yours wants
``security="starttls"``, which is the default, or ``"tls"``, and a user and a password.
It needs the extra ``types``. It prints::

    refused: to: eve@elsewhere.example is not allowed
    refused: subject: it holds a control character: 'Hello\nBcc: eve@elsewhere.example'
    to ['ada@shop.example']: Your order 7
    sent: completed
"""

import email
import socket
import threading

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from go_scheduler import ConfigurationError, RetryPolicy, Scheduler
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.job_types import JobTypes


class Inbox:
    async def handle_DATA(
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        message = email.message_from_bytes(envelope.content)
        print(f"to {envelope.rcpt_tos}: {message['Subject']}", flush=True)
        return "250 kept"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main() -> None:
    inbox = Controller(Inbox(), hostname="127.0.0.1", port=free_port())
    inbox.start()
    server = MailServer(host="127.0.0.1", port=inbox.port, security="none")
    sender = Email(
        server, sender="Shop <orders@shop.example>", recipients=["shop.example"]
    )
    types = JobTypes()
    types.add("email", sender, retry=RetryPolicy(max_attempts=5))
    finished = threading.Event()

    @hears(InstanceFinished)
    def hear(event: InstanceFinished) -> None:
        finished.set()

    mail = {
        "to": "Ada <ada@shop.example>",
        "subject": "Your order 7",
        "text": "It is on its way.",
    }
    with Scheduler(types, listeners=[hear]) as scheduler:
        for wrong in (
            {"to": "eve@elsewhere.example"},
            {"subject": "Hello\nBcc: eve@elsewhere.example"},
        ):
            try:
                scheduler.enqueue("email", payload=mail | wrong)
            except ConfigurationError as error:
                print("refused:", error, flush=True)
        sent = scheduler.enqueue("email", payload=mail, key="order 7")
        finished.wait()
        print("sent:", scheduler.get_instance(sent.id).state)
    inbox.stop()


if __name__ == "__main__":
    main()
