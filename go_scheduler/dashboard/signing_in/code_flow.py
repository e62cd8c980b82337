"""Signing in at an issuer: the code flow, with PKCE, a state and a nonce."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from go_scheduler.http.access.login_provider import (
    LoginError,
    LoginProvider,
    ProviderAwayError,
    plain,
)
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler.dashboard.signing_in.sign_in import SignIn
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.access.issuer import OidcIssuer
    from go_scheduler.http.access.tokens import Tokens

_T = TypeVar("_T")

_THREADS = 4


class Begun(NamedTuple):
    """A sign-in that has begun.

    Attributes:
        url: Where the browser goes.
        kept: What it keeps meanwhile, sealed.
    """

    url: str
    kept: Mapping[str, str]


class CodeFlow:
    """Has people sign in at an issuer.

    Args:
        issuer: Where.
        tokens: Know callers by what it gives.
        sign_in: As what it knows the dashboard.
        client_id: Likewise.
    """

    def __init__(
        self, issuer: OidcIssuer, tokens: Tokens, *, sign_in: SignIn, client_id: str
    ) -> None:
        self._issuer = issuer
        self._tokens = tokens
        self._client_id = client_id
        self._secret = sign_in.client_secret
        self._scope = sign_in.scope
        # Of its own: an issuer that does not answer keeps nobody else waiting.
        self._threads = ThreadPoolExecutor(_THREADS, "go_scheduler sign-in")

    async def begin(self, back: str) -> Begun:
        """Begin to sign somebody in.

        Args:
            back: The URL that the issuer sends the browser back to.

        Raises:
            Problem: The issuer cannot be reached, or is none.
        """
        provider = await self._provider()
        kept = {name: secrets.token_urlsafe(32) for name in ("state", "nonce")}
        kept["verifier"] = secrets.token_urlsafe(64)
        digest = hashlib.sha256(kept["verifier"].encode()).digest()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client_id,
                "redirect_uri": back,
                "scope": self._scope,
                "state": kept["state"],
                "nonce": kept["nonce"],
                "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
            }
        )
        try:
            url = provider.endpoint("authorization")
        except LoginError as error:
            raise _problem(error) from error
        return Begun(f"{url}{'&' if urlsplit(url).query else '?'}{query}", kept)

    async def end(
        self, came: Mapping[str, str], kept: Mapping[str, str], back: str
    ) -> Caller:
        """Who has signed in.

        Args:
            came: What the browser has brought.
            kept: What it has kept.
            back: Where the issuer has sent it back to.

        Raises:
            Problem: Nobody has: it is no answer to what was asked, or a refusal.
        """
        if not secrets.compare_digest(
            came.get("state", "").encode(), kept["state"].encode()
        ):
            raise refused("this is no answer to what the issuer was asked")
        provider = await self._provider()
        if provider.names_itself and came.get("iss") != self._issuer.issuer:
            raise refused("this was not sent by the issuer")
        if "code" not in came:
            said = plain(came.get("error_description")) or plain(came.get("error"))
            raise refused(f"the issuer refuses: {said or 'it has sent no code'}")
        given = await self._exchanged(provider, came["code"], kept["verifier"], back)
        return await self._caller(given, kept["nonce"])

    async def _exchanged(
        self, provider: LoginProvider, code: str, verifier: str, back: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
        }
        if self._secret is not None:
            form["client_secret"] = self._secret
        try:
            return await self._asked(partial(provider.ask, "token", **form))
        except LoginError as error:
            raise _problem(error) from error

    async def _asked(self, ask: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    async def _caller(self, given: Mapping[str, Any], nonce: str) -> Caller:
        access, id_token = given.get("access_token"), given.get("id_token")
        if not isinstance(access, str) or not isinstance(id_token, str):
            raise refused("the issuer has not given both an access and an ID token")
        claims = await self._tokens.claims_of_id(id_token, self._client_id)
        if claims.get("nonce") != nonce:
            raise refused("the ID token is not for this sign-in")
        caller = await self._tokens.caller_of(access)
        if claims["sub"] != caller.subject:
            raise refused("the tokens are of different people")
        return caller

    async def _provider(self) -> LoginProvider:
        try:
            return await self._asked(
                partial(
                    LoginProvider.discover,
                    self._issuer.issuer,
                    client_id=self._client_id,
                    scope=self._scope,
                    tls=self._tokens.tls,
                )
            )
        except LoginError as error:
            raise _problem(error) from error


def refused(detail: str) -> Problem:
    """That of a sign-in that has not come to its end."""
    return Problem(400, "sign-in", "Nobody was signed in", f"{detail}: sign in again")


def _problem(error: LoginError) -> Problem:
    if isinstance(error, ProviderAwayError):
        return Problem(
            503,
            "issuer-away",
            "The issuer cannot be reached",
            "it does not answer at the moment: try again later",
        )
    return refused(str(error))
