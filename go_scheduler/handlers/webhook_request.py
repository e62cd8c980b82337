"""Requests of webhooks: what a payload asks for, and what of it is allowed."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import httpx

from go_scheduler.checks import check_name, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.addresses import UNKNOWN, networks_of, refusal_of
from go_scheduler.handlers.webhook_settings import Secret, WebhookSettings, is_among
from go_scheduler.raised import Fail
from go_scheduler.shown import a, shown

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
    """A request as it is sent, or sent on."""

    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes
    secret: Secret | None
    authorization: Secret | None = field(repr=False)
    timeout: timedelta

    @property
    def host(self) -> str:
        """To whom it goes, as names are written in DNS."""
        return self.url.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """To which port."""
        return self.url.port or _PORTS[self.url.scheme]

    @property
    def where(self) -> str:
        """Where it goes, without what may be secret in a path."""
        return f"{self.method} {self.url.scheme}://{self.url.netloc.decode('ascii')}"


class Outgoing:
    """Makes requests of payloads, and refuses what they may not do.

    Args:
        secrets: The keys of signatures, by their names.
        authorizations: The values of a header, by their names.
        settings: What webhooks may do.

    Raises:
        ConfigurationError: A secret is none, or has no name.
    """

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        authorizations: Mapping[str, Secret],
        settings: WebhookSettings,
    ) -> None:
        for name, secret in (*secrets.items(), *authorizations.items()):
            check_name("the name of a secret", name)
            check_type(f"secret {name!r}", secret, Secret)
        self._secrets = dict(secrets)
        self._authorizations = dict(authorizations)
        self._settings = settings
        self._networks = networks_of(settings.networks)

    def request(
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
            ConfigurationError: It is none, or not allowed.
        """
        if json is not None and body is not None:
            raise ConfigurationError("json: give either json or body, not both")
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
            timeout=self._timeout(timeout),
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

    def _timeout(self, seconds: float | None) -> timedelta:
        most = self._settings.timeout
        if seconds is None:
            return most
        if not 0 < seconds <= most.total_seconds():
            raise ConfigurationError(
                "timeout: it must be above zero and at most"
                f" {most.total_seconds():g} seconds: {seconds}"
            )
        return timedelta(seconds=seconds)

    def _check(self, request: WebhookRequest) -> None:
        """Refuse what goes where nothing may go."""
        hosts = self._settings.hosts
        if hosts is not None and not is_among(request.host, hosts):
            raise ConfigurationError(f"url: the host {request.host} is not allowed")
        if request.port not in self._settings.ports:
            raise ConfigurationError(f"url: the port {request.port} is not allowed")
        # A number is known for what it is before it is resolved.
        if ":" in request.host or request.host.replace(".", "").isdigit():
            kind = self.refusal_of(request.host)
            if kind not in (None, UNKNOWN):
                raise ConfigurationError(
                    f"url: {request.host} is {a(kind)} address, which is not allowed"
                )

    def refusal_of(self, address: str) -> str | None:
        """Of what kind an address is that may not be connected to; None: it may."""
        return refusal_of(address, self._networks)

    def redirected(
        self, request: WebhookRequest, status: int, location: str
    ) -> WebhookRequest:
        """The request that an answer asks for instead.

        Raises:
            Fail: It is not allowed.
        """
        try:
            new = replace(request, url=_url(str(request.url.join(location))))
            self._check(new)
        # Of one that is none, urllib's.
        except (ValueError, httpx.InvalidURL) as error:
            raise Fail(f"{request.where} answered {status}: {error}") from None
        # To another port, or without TLS, is another host.
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


def _url(text: str) -> httpx.URL:
    """A URL, if it is one to which anything goes.

    Raises:
        ConfigurationError: It is none.
    """
    if len(text) > _LONGEST_URL:
        raise ConfigurationError(f"url: it has more than {_LONGEST_URL} characters")
    try:
        url = httpx.URL(text)
        host = url.host
    # A name in punycode is only read when it is asked for.
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
