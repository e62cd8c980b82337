"""The keys of an issuer: found by discovery, kept, and fetched as they rotate."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from go_scheduler.events.hub import LOG_ALONE
from go_scheduler.events.node_events import NoticeGiven
from go_scheduler.http.access.loopback import is_loopback, is_safe_url
from go_scheduler.http.access.refusals import provider_away

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.events.hub import Teller

_RENEWED = timedelta(minutes=10)
_PAUSE = timedelta(minutes=1)
_SHORT_PAUSE = timedelta(seconds=5)
_MOST_BYTES = 256 * 1024
_MOST_KEYS = 100
_TIMEOUT = 5.0
_IN_ALL = 10.0


class IssuerKeys:
    """Knows an issuer's public keys.

    They are fetched when the first token comes, every ten minutes from then on, and
    when a token names one that is not known; but not within a minute of the last time,
    whoever asks. One request waits for that, the others go on with what is known.

    Args:
        issuer: Its URL.
        clock: Measures how old they are.
        kept: For how long they are good when the issuer cannot be reached; ten minutes
            at least.
        tls: What it is trusted by; None: the certificates that httpx trusts.
    """

    def __init__(
        self,
        issuer: str,
        *,
        clock: Clock,
        kept: timedelta,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._issuer = issuer
        self._clock = clock
        self._kept = max(kept, _RENEWED)
        self._is_local = is_loopback(urlsplit(issuer).hostname or "")
        self._tls = httpx.create_ssl_context() if tls is None else tls
        self._teller = LOG_ALONE.teller("http")
        self._keys: list[dict[str, Any]] = []
        self._made: dict[tuple[str | None, str], PyJWK] = {}
        self._fetched: timedelta | None = None
        self._asked: timedelta | None = None
        self._failed = False
        self._asking = asyncio.Lock()

    def tell_by(self, teller: Teller) -> None:
        """Tell with this that they cannot be fetched."""
        self._teller = teller

    async def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key of a token.

        Args:
            kid: As the token names it; None: the issuer has but one.
            algorithm: By which the token is signed.

        Returns:
            The key; None: the issuer has none such.

        Raises:
            Problem: 503, it is not known, and the issuer cannot be reached.
        """
        if not self._are_younger_than(_RENEWED):
            await self._ask(waits=not self._are_younger_than(self._kept))
        found = self._known(kid, algorithm)
        if found is None:
            await self._ask(waits=True)
            found = self._known(kid, algorithm)
            if found is None and self._failed:
                raise provider_away()
        return found

    def _are_younger_than(self, age: timedelta) -> bool:
        return self._fetched is not None and self._clock.elapsed() - self._fetched < age

    async def _ask(self, *, waits: bool) -> None:
        if self._asking.locked() and not waits:
            return
        async with self._asking:
            if self._may_ask():
                self._asked = self._clock.elapsed()
                await self._fetch()
        if not self._are_younger_than(self._kept):
            raise provider_away()

    def _may_ask(self) -> bool:
        if self._asked is None:
            return True
        pause = _PAUSE if self._are_younger_than(self._kept) else _SHORT_PAUSE
        return self._clock.elapsed() - self._asked >= pause

    async def _fetch(self) -> None:
        try:
            async with (
                asyncio.timeout(_IN_ALL),
                httpx.AsyncClient(
                    verify=self._tls,
                    timeout=_TIMEOUT,
                    trust_env=not self._is_local,
                    headers={"Accept-Encoding": "identity"},
                ) as client,
            ):
                self._keys = await self._read(client)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            self._failed = True
            self._teller.tell(
                NoticeGiven(
                    text=f"the keys of the issuer {self._issuer} cannot be fetched:"
                    f" {type(error).__name__}: {error}"
                )
            )
        else:
            self._failed = False
            self._made = {}
            self._fetched = self._clock.elapsed()

    async def _read(self, client: httpx.AsyncClient) -> list[dict[str, Any]]:
        base = self._issuer.removesuffix("/")
        document = await _json(client, f"{base}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise ValueError("its discovery document is another issuer's")
        uri = document.get("jwks_uri")
        if not is_safe_url(uri):
            raise ValueError("its discovery document has no jwks_uri by https")
        keys = (await _json(client, str(uri))).get("keys")
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise ValueError("what it has at its jwks_uri are no keys, or too many")
        return [each for each in keys if isinstance(each, dict) and _is_public(each)]

    def _known(self, kid: str | None, algorithm: str) -> PyJWK | None:
        made = self._made.get((kid, algorithm))
        if made is None:
            made = self._make(kid, algorithm)
            if made is not None:  # Anybody may name any number of others.
                self._made[kid, algorithm] = made
        return made

    def _make(self, kid: str | None, algorithm: str) -> PyJWK | None:
        fitting = []
        for each in self._keys:
            if kid is not None and each.get("kid") != kid:
                continue
            if each.get("alg", algorithm) == algorithm:
                try:
                    fitting.append(PyJWK(each, algorithm))
                except (PyJWTError, TypeError, ValueError):
                    continue  # A key of another kind, or one that is none.
        return fitting[0] if len(fitting) == 1 else None


def _is_public(key: dict[str, Any]) -> bool:
    """Whether a key is one to check signatures with."""
    if key.get("kty") == "oct" or "d" in key or key.get("use", "sig") != "sig":
        return False
    uses = key.get("key_ops", ["verify"])
    return isinstance(uses, list) and "verify" in uses


async def _json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """What is there, if it is an object and not too long."""
    async with client.stream("GET", url) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answers {response.status_code}")
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise ValueError(f"{url} answers more than {_MOST_BYTES} bytes")
    try:
        found = json.loads(body)
    except RecursionError as error:
        raise ValueError(f"{url} answers no JSON") from error
    if not isinstance(found, dict):
        raise ValueError(f"{url} answers no JSON object")
    return found
