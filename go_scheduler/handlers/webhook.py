"""The webhook executor: a request to a URL, signed, to public addresses alone."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "webhooks need the extra 'webhook' of go_scheduler, which brings httpx",
        name=error.name,
    ) from error

from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.orders import Orders
from go_scheduler.handlers.signatures import ATTEMPT, INSTANCE, signature_headers
from go_scheduler.handlers.webhook_request import Outgoing, WebhookRequest
from go_scheduler.handlers.webhook_settings import Secret, WebhookSettings
from go_scheduler.raised import Fail, RetryAfter
from go_scheduler.shown import a
from go_scheduler.version import __version__

if TYPE_CHECKING:
    import ssl

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

__all__ = ["Secret", "Webhook", "WebhookFailed", "WebhookSettings"]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port."""

_Answer: TypeAlias = tuple[int, httpx.Headers, str]

_AGAIN = {408, 425, 429}
_REDIRECTS = {301, 302, 303, 307, 308}
_EXCERPT = 1024
_MOST_ADDRESSES = 8


class WebhookFailed(Exception):
    """A webhook that was not delivered, and may be tried again."""


class Webhook:
    """Sends a request: ``{"url": "https://…", "json": {…}, "secret": "shop"}``.

    An answer of 2xx is success. After one of 4xx the instance has *failed*, but for
    408, 425 and 429; after any other, and when there is none, the policy decides. A
    ``Retry-After`` is kept to, within bounds.

    A name is resolved once, all of its addresses have to be public, and the connection
    is made to one that was checked. There are no proxies, no cookies, and no redirects
    unless they are allowed.

    Args:
        secrets: The keys of signatures, by the names that payloads give as ``secret``.
        authorizations: What is sent as ``Authorization``, by the names that payloads
            give, over https alone.
        settings: What webhooks may do.
        resolve: Finds the addresses of a host; None: as the system does.
        clock: Tells the time of signatures.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    description = "Sends an HTTP request to a URL."

    def __init__(
        self,
        *,
        secrets: Mapping[str, Secret] | None = None,
        authorizations: Mapping[str, Secret] | None = None,
        settings: WebhookSettings | None = None,
        resolve: Resolve | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings or WebhookSettings()
        secrets, authorizations = secrets or {}, authorizations or {}
        self._outgoing = Outgoing(secrets, authorizations, self._settings)
        self._hidden = _hidden([*secrets.values(), *authorizations.values()])
        self._resolve = resolve or _resolve
        self._clock = clock or SystemClock()
        self.payload: Orders[WebhookRequest] = _Requests(
            "webhook", self._outgoing.request
        )

    async def __call__(self, instance: TaskInstance) -> None:
        """Send the request of an instance.

        Raises:
            Fail: Its payload does not fit, it goes where it may not go, or the answer
                is a final one.
            RetryAfter: The answer says when to try again.
            WebhookFailed: There was no answer, or one that does not say.
        """
        request = self.payload.of(instance)
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                await self._deliver(request, instance)
        except TimeoutError:
            raise WebhookFailed(
                f"{request.where}: no whole answer within {request.timeout}"
            ) from None
        except (httpx.TransportError, OSError) as error:
            raise WebhookFailed(
                f"{request.where}: {type(error).__name__}: {error}"
            ) from None

    async def _deliver(self, request: WebhookRequest, instance: TaskInstance) -> None:
        left = self._settings.redirects
        while True:
            status, headers, text = await self._exchange(request, instance)
            location = headers.get("location")
            if status not in _REDIRECTS or location is None:
                return self._judge(request, status, headers, text)
            if not left:
                raise Fail(
                    f"{request.where} answered {status}: redirects are followed"
                    f" {self._settings.redirects} times"
                )
            left -= 1
            request = self._outgoing.redirected(request, status, location)

    async def _exchange(
        self, request: WebhookRequest, instance: TaskInstance
    ) -> _Answer:
        """Send a request to the first of its addresses that takes it."""
        headers = self._headers(request, instance)
        *others, last = await self._addresses(request)
        ca_file = self._settings.ca_file
        context = _tls(None if ca_file is None else str(ca_file))
        async with httpx.AsyncHTTPTransport(verify=context, trust_env=False) as sender:
            for address in others:
                with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                    return await self._send(sender, request, headers, address)
            return await self._send(sender, request, headers, last)

    async def _send(
        self,
        sender: httpx.AsyncHTTPTransport,
        request: WebhookRequest,
        headers: Mapping[str, str],
        address: str,
    ) -> _Answer:
        """Send a request to an address, as to the name that it is for."""
        timeout = httpx.Timeout(
            self._settings.read_timeout.total_seconds(),
            connect=self._settings.connect_timeout.total_seconds(),
        )
        sent = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=headers,
            content=request.body,
            extensions={"timeout": timeout.as_dict(), "sni_hostname": request.host},
        )
        answer = await sender.handle_async_request(sent)
        try:
            return answer.status_code, answer.headers, await self._read(answer)
        finally:
            await answer.aclose()

    async def _read(self, answer: httpx.Response) -> str:
        """The beginning of an answer, as text without our secrets."""
        found = bytearray()
        async for part in answer.aiter_raw():
            found += part
            if len(found) >= self._settings.max_answer:
                break
        text = found.decode(errors="replace")
        for hidden in self._hidden:
            text = text.replace(hidden, "***")
        return text[:_EXCERPT].strip()

    async def _addresses(self, request: WebhookRequest) -> Sequence[str]:
        found = tuple(dict.fromkeys(await self._resolve(request.host, request.port)))
        for each in found:
            kind = self._outgoing.refusal_of(each)
            if kind is not None:
                raise Fail(
                    f"{request.where}: it has {a(kind)} address, which is not allowed"
                )
        if not found:
            raise WebhookFailed(f"{request.where}: it has no address")
        return found[:_MOST_ADDRESSES]

    def _headers(
        self, request: WebhookRequest, instance: TaskInstance
    ) -> dict[str, str]:
        headers = {
            "Host": request.url.netloc.decode("ascii"),
            "User-Agent": f"go_scheduler/{__version__}",
            "Accept": "*/*",
            **request.headers,
            # What is packed may become any size.
            "Accept-Encoding": "identity",
            "Idempotency-Key": str(instance.id),
            INSTANCE: str(instance.id),
            ATTEMPT: str(instance.attempt),
        }
        if request.authorization is not None:
            headers["Authorization"] = request.authorization.value
        if request.secret is not None:
            headers |= signature_headers(
                request.secret.value,
                request.body,
                instance_id=instance.id,
                attempt=instance.attempt,
                now=self._clock.now(),
            )
        return headers

    def _judge(
        self, request: WebhookRequest, status: int, headers: httpx.Headers, text: str
    ) -> None:
        """Raise what an answer that is no success has to."""
        if 200 <= status < 300:
            return
        why = f"{request.where} answered {status}{': ' if text else ''}{text}"
        if status < 500 and status not in _AGAIN:
            raise Fail(why)
        delay = self._delay(headers.get("retry-after", ""))
        if delay is None:
            raise WebhookFailed(why)
        raise RetryAfter(min(max(delay, ZERO), self._settings.max_retry_after), why)

    def _delay(self, text: str) -> timedelta | None:
        """How long an answer asks to wait; None: it does not."""
        if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
            return timedelta(seconds=int(text))
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        return at.replace(tzinfo=at.tzinfo or UTC) - self._clock.now()


class _Requests(Orders[WebhookRequest]):
    """The payloads of webhooks."""

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """As of any executor; what is to be sent as JSON is no body."""
        if isinstance(given, Mapping) and isinstance(given.get("body"), dict | list):
            raise ConfigurationError(
                "body: it must be a text; json takes any JSON value"
            )
        return super().write(given)


def _hidden(secrets: Sequence[Secret]) -> Sequence[str]:
    """What no answer may bring into an error: the longest first."""
    # As they stand, without the scheme before them, and as JSON has them.
    values = {part for each in secrets for part in (each.value, _token(each.value))}
    found = values | {json.dumps(each)[1:-1] for each in values}
    return sorted(found, key=len, reverse=True)


def _token(value: str) -> str:
    return value.split(" ")[-1] or value


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@cache
def _tls(ca_file: str | None) -> ssl.SSLContext:
    """What verifies receivers; it takes long to load."""
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    import ssl

    return ssl.create_default_context(cafile=ca_file)
