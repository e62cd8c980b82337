"""Access by API keys and by the tokens of an OIDC issuer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.issuer import Tokens
from go_scheduler.http.access.keys import ApiKeys, is_key
from go_scheduler.http.access.refusals import (
    bad_request,
    bad_token,
    checked_origins,
    without_token,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Collection, Sequence

    from fastapi import Request

    from go_scheduler.clock import Clock
    from go_scheduler.events.event_bus import Teller
    from go_scheduler.http.access.issuer import OidcIssuer
    from go_scheduler.http.access.keys import ApiKey

_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)


class BearerAccess:
    """Authenticates callers by ``Authorization: Bearer …``, and nothing else.

    Args:
        keys: The API keys.
        issuer: The issuer whose tokens are taken; None: only API keys are taken.
        clock: Tells the time; None: the system's.
        tls: The certificates to trust for the issuer; None: those of httpx.
        origins: Sites whose pages may call from a browser.

    Attributes:
        issuer: The issuer whose tokens are taken; None: only API keys are taken.
        keys: Authenticates by API keys.
        tokens: Authenticates by tokens; None: only API keys are taken.

    Raises:
        ConfigurationError: There is neither a key nor an issuer.
    """

    def __init__(
        self,
        *,
        keys: Sequence[ApiKey] = (),
        issuer: OidcIssuer | None = None,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
        origins: Collection[str] = (),
    ) -> None:
        if not keys and issuer is None:
            raise ConfigurationError(
                "nobody could get in: give keys=, or an issuer=, or both"
            )
        clock = clock or SystemClock()
        self.issuer = issuer
        self.origins = checked_origins(origins)
        self.keys = ApiKeys(keys, clock)
        self.tokens = None if issuer is None else Tokens(issuer, clock, tls)

    def tell_by(self, teller: Teller) -> None:
        """Report with this that the issuer's keys cannot be fetched."""
        if self.tokens is not None:
            self.tokens.keys.tell_by(teller)

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller by the key or token of a request.

        Raises:
            Problem: 400 or 401, without a valid key or token; 503, the issuer is away.
        """
        given = request.headers.getlist("authorization")
        if len(given) > 1:
            raise bad_request("there is more than one Authorization")
        scheme, _, token = "".join(given).partition(" ")
        if scheme.lower() != "bearer":
            raise without_token()
        token = token.strip(" ")
        if not _TOKEN.fullmatch(token):
            raise bad_request("what follows Bearer is neither a token nor a key")
        if is_key(token):
            return self.keys.caller_of(token)
        if self.tokens is None:
            raise bad_token("only API keys are taken here")
        return await self.tokens.caller_of(token)
