"""The webhook executor: a request to a URL, signed, to public addresses alone."""

from __future__ import annotations

import asyncio
import json as json_text
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from go_scheduler.lazy_imports import without_extra

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        without_extra("webhooks need", "webhook", error), name=error.name
    ) from error

from go_scheduler.checks import check_name, check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import a, shown
from go_scheduler.handlers.payload import ParameterOrders
from go_scheduler.handlers.signatures import ATTEMPT, INSTANCE, signature_headers
from go_scheduler.handlers.webhook_settings import (
    UNKNOWN,
    Secret,
    WebhookSettings,
    is_among,
    networks_of,
    refusal_of,
)
from go_scheduler.run import Fail, RetryAfter
from go_scheduler.version import __version__

if TYPE_CHECKING:
    import ssl

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

__all__ = ["Secret", "Webhook", "WebhookFailed", "WebhookSettings"]

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

_PORTS = {"http": 80, "https": 443}
_MOST_HEADERS = 50
_LONGEST_URL = 8 * 1024
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = re.compile(
    r"host|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade"
    r"|expect|accept-encoding|authorization|idempotency-key"
    r"|proxy-.*|go-scheduler-.*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A request as it is sent, first or after a redirect."""

    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes
    secret: Secret | None
    authorization: Secret | None = field(repr=False)
    timeout: timedelta

    @property
    def host(self) -> str:
        """The host, as written in DNS."""
        return self.url.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """The port."""
        return self.url.port or _PORTS[self.url.scheme]

    @property
    def where(self) -> str:
        """Where it goes, for messages: without the path, which may be secret."""
        return f"{self.method} {self.url.scheme}://{self.url.netloc.decode('ascii')}"


def _url(text: str) -> httpx.URL:
    """Read a URL that a request can be sent to.

    Raises:
        ConfigurationError: It is no such URL.
    """
    if len(text) > _LONGEST_URL:
        raise ConfigurationError(f"url: it has more than {_LONGEST_URL} characters")
    try:
        url = httpx.URL(text)
        host = url.host
    # httpx decodes punycode only when the host is read.
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ConfigurationError(f"url: {error}") from None
    if url.scheme not in _PORTS or not host:
        raise ConfigurationError("url: it must begin with http:// or https://")
    if url.userinfo:
        raise ConfigurationError(
            "url: it holds a user or a password; name an authorization instead"
        )
    return url.copy_with(fragment=None)


def _checked_headers(headers: Mapping[str, str], kind: str | None) -> dict[str, str]:
    if len(headers) > _MOST_HEADERS:
        raise ConfigurationError(f"headers: there are more than {_MOST_HEADERS}")
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {shown(name)} is no name of a header")
        if _OURS.fullmatch(name):
            by_name = "; authorization names one that is configured"
            instead = by_name if name.lower() == "authorization" else ""
            raise ConfigurationError(
                f"headers.{name}: it is not the payload's to set{instead}"
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"headers.{name}: it must be printable ASCII characters"
            )
    if kind is None or any(name.lower() == "content-type" for name in headers):
        return dict(headers)
    return {"Content-Type": kind, **headers}


def _named(known: Mapping[str, Secret], what: str, name: str | None) -> Secret | None:
    if name is not None and name not in known:
        raise ConfigurationError(f"{what}: none is configured as {shown(name)}")
    return None if name is None else known[name]


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a host, for a port."""

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
        self._secrets = dict(secrets or {})
        self._authorizations = dict(authorizations or {})
        given = (*self._secrets.items(), *self._authorizations.items())
        for name, secret in given:
            check_name("the name of a secret", name)
            check_type(f"secret {name!r}", secret, Secret)
        self._hidden = _hidden([secret for _, secret in given])
        self._networks = networks_of(self._settings.networks)
        self._resolve = resolve or _resolve
        self._clock = clock or SystemClock()
        self.payload: ParameterOrders[WebhookRequest] = _Requests(
            "webhook", self._request
        )

    async def __call__(self, instance: TaskInstance) -> None:
        """Send the request of an instance.

        Raises:
            Fail: Its payload does not fit, its address is not allowed, or the answer is
                final.
            RetryAfter: The answer says when to try again.
            WebhookFailed: There was no answer, or one that does not say when.
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

    def _request(
        self,
        url: str,
        method: Method = "POST",
        headers: dict[str, str] | None = None,
        json: Any = None,
        body: str | None = None,
        secret: str | None = None,
        authorization: str | None = None,
        timeout: float | None = None,
    ) -> WebhookRequest:
        """The request that a payload asks for.

        Raises:
            ConfigurationError: It is no such request, or not allowed.
        """
        if json is not None and body is not None:
            raise ConfigurationError("json: give either json or body, not both")
        most = self._settings.timeout
        if timeout is not None and not 0 < timeout <= most.total_seconds():
            raise ConfigurationError(
                "timeout: it must be above zero and at most"
                f" {most.total_seconds():g} seconds: {timeout}"
            )
        content, kind = b"", None
        if json is not None:
            text = json_text.dumps(json, ensure_ascii=False, separators=(",", ":"))
            content, kind = text.encode(), "application/json"
        elif body is not None:
            content, kind = body.encode(), "text/plain; charset=utf-8"
        request = WebhookRequest(
            method=method,
            url=_url(url),
            headers=_checked_headers(headers or {}, kind),
            body=content,
            secret=_named(self._secrets, "secret", secret),
            authorization=_named(self._authorizations, "authorization", authorization),
            timeout=most if timeout is None else timedelta(seconds=timeout),
        )
        self._check(request)
        for name, given in (
            ("secret", request.secret),
            ("authorization", request.authorization),
        ):
            if given is not None and not is_among(request.host, given.hosts):
                raise ConfigurationError(f"{name}: it does not go to {request.host}")
        if authorization is not None and request.url.scheme != "https":
            raise ConfigurationError("authorization: it goes over https alone")
        return request

    def _check(self, request: WebhookRequest) -> None:
        """Refuse a host, port or address that is not allowed."""
        hosts = self._settings.hosts
        if hosts is not None and not is_among(request.host, hosts):
            raise ConfigurationError(f"url: the host {request.host} is not allowed")
        if request.port not in self._settings.ports:
            raise ConfigurationError(f"url: the port {request.port} is not allowed")
        # A host given as an address is checked before it is resolved.
        if ":" in request.host or request.host.replace(".", "").isdigit():
            kind = refusal_of(request.host, self._networks)
            if kind not in (None, UNKNOWN):
                raise ConfigurationError(
                    f"url: {request.host} is {a(kind)} address, which is not allowed"
                )

    def _redirected(
        self, request: WebhookRequest, status: int, location: str
    ) -> WebhookRequest:
        """The request that an answer asks for instead.

        Raises:
            Fail: It is not allowed.
        """
        try:
            new = replace(request, url=_url(str(request.url.join(location))))
            self._check(new)
        # Raised by urllib if it is no URL.
        except (ValueError, httpx.InvalidURL) as error:
            raise Fail(f"{request.where} answered {status}: {error}") from None
        # Another port, or no TLS any more, counts as another host.
        upgraded = (new.url.scheme, new.port) == ("https", 443) and request.port == 80
        at_home = (new.url.scheme, new.port) == (request.url.scheme, request.port)
        if new.host != request.host or not (at_home or upgraded):
            if not self._settings.other_hosts:
                raise Fail(
                    f"{request.where} answered {status}: it leads to another host"
                )
            kept = {
                name: value
                for name, value in request.headers.items()
                if name.lower() == "content-type"
            }
            new = replace(new, headers=kept, secret=None, authorization=None)
        if status == 303 or (status in (301, 302) and request.method == "POST"):
            method = "HEAD" if request.method == "HEAD" else "GET"
            bare = {k: v for k, v in new.headers.items() if k.lower() != "content-type"}
            return replace(new, method=method, headers=bare, body=b"")
        return new

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
            request = self._redirected(request, status, location)

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
            kind = refusal_of(each, self._networks)
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
            # Compressed answers could unpack to any size.
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
        """Raise if an answer is no success."""
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
        """How long an answer asks to wait; None: it does not ask."""
        if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
            return timedelta(seconds=int(text))
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        return at.replace(tzinfo=at.tzinfo or UTC) - self._clock.now()


class _Requests(ParameterOrders[WebhookRequest]):
    """The payloads of webhooks."""

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """The payload as it is stored; JSON belongs in ``json``, not in ``body``."""
        if isinstance(given, Mapping) and isinstance(given.get("body"), dict | list):
            raise ConfigurationError(
                "body: it must be a text; json takes any JSON value"
            )
        return super().write(given)


def _hidden(secrets: Sequence[Secret]) -> Sequence[str]:
    """Secret texts to hide in errors, the longest first."""
    # As given, without the scheme in front, and as written in JSON.
    given = [each.value for each in secrets]
    values = {*given, *(each.split(" ")[-1] or each for each in given)}
    found = values | {json_text.dumps(each)[1:-1] for each in values}
    return sorted(found, key=len, reverse=True)


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@cache
def _tls(ca_file: str | None) -> ssl.SSLContext:
    """The TLS context; it takes long to load."""
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    import ssl

    return ssl.create_default_context(cafile=ca_file)
