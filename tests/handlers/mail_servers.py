"""A mail server for tests: a real one, in plain, with STARTTLS, or with TLS."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import SMTP, AuthResult

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator


class Mails:
    """What has been received; whom it refuses and why.

    Attributes:
        refusals: Of recipients, the replies to them.
        reply: To the whole mail.
    """

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.refusals: dict[str, str] = {}
        self.reply = "250 kept"
        self.port = 0

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 known"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.reply == "":
            server.transport.abort()
        elif self.reply.startswith("250"):
            self.received.append((session, envelope))
        return self.reply

    def authenticate(
        self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any
    ) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"s3cret", handled=False)


@contextmanager
def mail_server(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Mails]:
    """A server that is there."""
    mails = Mails()
    loop = asyncio.new_event_loop()

    def protocol() -> SMTP:
        return SMTP(
            mails,
            hostname="mail.example",
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=mails.authenticate,
            auth_require_tls=tls is None,
            loop=loop,
        )

    server = loop.run_until_complete(
        loop.create_server(protocol, "127.0.0.1", 0, ssl=tls)
    )
    mails.port = server.sockets[0].getsockname()[1]
    serving = threading.Thread(target=loop.run_forever)
    serving.start()
    try:
        yield mails
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
