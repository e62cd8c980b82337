"""The issuer as a command line asks it: where it is signed in, and what comes back."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx

from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.access.loopback import is_loopback, is_safe_url

_TIMEOUT = 10.0
_MOST_BYTES = 256 * 1024


class LoginError(GoSchedulerError):
    """Nobody was signed in, or is any more; the text says what to do."""


class ProviderAwayError(LoginError):
    """The issuer, or the server, cannot be reached; trying again may help."""


class RefusedError(LoginError):
    """The issuer has refused what it was asked.

    Attributes:
        code: Why, as RFC 6749 and 8628 name it.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What an issuer has given.

    Attributes:
        access: What is sent to the server.
        refresh: What another is had for; None: nothing is.
        lasts: For how long the first is good, from now; None: it does not say.
    """

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    lasts: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginProvider:
    """An issuer, and a client of it: a command line, which has no secret.

    Attributes:
        issuer: Its URL.
        client_id: As what people sign in.
        scope: What is asked for.
        endpoints: Where it is asked what, by the names of its discovery document.
        names_itself: Whether it says who it is where it sends a browser back to.
        tls: What it is trusted by; None: the certificates that httpx trusts.
    """

    issuer: str
    client_id: str
    scope: str
    endpoints: Mapping[str, str]
    names_itself: bool = False
    tls: ssl.SSLContext | None = None

    @classmethod
    def discover(
        cls,
        issuer: str,
        *,
        client_id: str,
        scope: str,
        tls: ssl.SSLContext | None = None,
    ) -> LoginProvider:
        """Ask an issuer where it is asked what.

        Raises:
            LoginError: It is none, or not to be trusted.
            ProviderAwayError: It cannot be reached.
        """
        if not is_safe_url(issuer):
            raise LoginError(
                f"the issuer must be an https URL, or one on this machine: {issuer!r}"
            )
        url = f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
        document = fetch(url, tls=tls)
        if document.get("issuer") != issuer:
            raise LoginError(f"what is at {url} is not about the issuer {issuer}")
        return cls(
            issuer=issuer,
            client_id=client_id,
            scope=scope,
            endpoints={
                name: url
                for name, url in document.items()
                if name.endswith("_endpoint") and is_safe_url(url)
            },
            names_itself=document.get("authorization_response_iss_parameter_supported")
            is True,
            tls=tls,
        )

    def endpoint(self, name: str) -> str:
        """Where it is asked for something.

        Raises:
            LoginError: It does not offer that.
        """
        url = self.endpoints.get(f"{name}_endpoint")
        if url is None:
            raise LoginError(f"{self.issuer} has no {name}_endpoint by https")
        return url

    def ask(self, name: str, **form: str) -> dict[str, Any]:
        """What an endpoint answers to a form.

        Raises:
            RefusedError: It has refused.
            ProviderAwayError: It cannot be reached.
            LoginError: It has answered something else.
        """
        form["client_id"] = self.client_id
        return fetch(self.endpoint(name), form, tls=self.tls)

    def tokens(self, **form: str) -> Tokens:
        """What its token endpoint gives for a grant.

        Raises:
            RefusedError: It has refused.
            ProviderAwayError: It cannot be reached.
            LoginError: It has answered something else.
        """
        given = self.ask("token", **form)
        access, refresh = given.get("access_token"), given.get("refresh_token")
        if not _is_token(access) or str(given.get("token_type")).lower() != "bearer":
            raise LoginError(f"{self.issuer} has given no bearer token")
        return Tokens(
            access=str(access),
            refresh=str(refresh) if _is_token(refresh) else None,
            lasts=_duration(given.get("expires_in")),
        )


def fetch(
    url: str,
    form: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> dict[str, Any]:
    """The JSON object that is found at a URL, or answered to a form.

    Raises:
        RefusedError: The answer is an error as OAuth has them.
        ProviderAwayError: There is no answer.
        LoginError: It is no such object, or too long.
    """
    is_local = is_loopback(urlsplit(url).hostname or "")
    try:
        with (
            httpx.Client(
                verify=True if tls is None else tls,
                timeout=_TIMEOUT,
                trust_env=not is_local,
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as client,
            client.stream("GET" if form is None else "POST", url, data=form) as answer,
        ):
            body = _read(answer)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderAwayError(f"{url} cannot be reached: {error}") from error
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if answer.is_server_error:
        raise ProviderAwayError(f"{url} answers {answer.status_code}")
    if not isinstance(found, dict):
        raise LoginError(f"{url} answers {answer.status_code} without a JSON object")
    if not answer.is_success:
        raise _refusal(url, answer.status_code, found)
    return found


def plain(value: object) -> str:
    """A text from elsewhere, without what a terminal would obey."""
    text = value if isinstance(value, str) else ""
    return "".join(each for each in text[:200] if each.isprintable())


def _read(answer: httpx.Response) -> bytes:
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise LoginError(f"{answer.url} answers more than {_MOST_BYTES} bytes")
    return bytes(body)


def _refusal(url: str, status: int, found: Mapping[str, Any]) -> RefusedError:
    code = plain(found.get("error")) or str(status)
    said = plain(found.get("error_description")) or code
    return RefusedError(code, f"{url} refuses: {said}")


def _is_token(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and value != ""
    )


def _duration(value: object) -> timedelta | None:
    if isinstance(value, int | float) and 0 <= value <= timedelta.max.total_seconds():
        return timedelta(seconds=min(value, 10**9))
    return None
