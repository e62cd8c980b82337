"""Bearer tokens of an OIDC issuer: what is checked of them, and whose they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
from jwt.exceptions import (
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)

from go_scheduler.checks import NAME_LIMIT
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.grants import restriction, scopes_in
from go_scheduler.http.access.issuer_keys import IssuerKeys
from go_scheduler.http.access.refusals import bad_token

if TYPE_CHECKING:
    import ssl

    from go_scheduler.clock import Clock
    from go_scheduler.http.access.issuer import OidcIssuer

LONGEST_TOKEN = 16 * 1024
"""The most characters that a token may have."""

_MOST_SEEN = 1_000
_FAR = 10**12
_ID_TYPES = frozenset({"jwt", None})
_TIMES = ("exp", "nbf", "iat")


class _Seen(NamedTuple):
    """A token whose signature and contents were right."""

    kid: str | None
    algorithm: str
    key: jwt.PyJWK
    times: Mapping[str, Any]
    caller: Caller


class Tokens:
    """Knows callers by the tokens that an issuer has given them.

    What a token's header says of its key is not looked at, but for its id: a key
    within it (``jwk``) or a place to fetch one from (``jku``, ``x5u``) is ignored. A
    token that comes again is not checked by its key again, but for its times.

    Args:
        issuer: Whose tokens are taken.
        clock: Tells whether one is valid yet, or still.
        tls: What the issuer is trusted by; None: the certificates that httpx trusts.
    """

    def __init__(
        self, issuer: OidcIssuer, clock: Clock, tls: ssl.SSLContext | None = None
    ) -> None:
        self._issuer = issuer
        self._clock = clock
        self._seen: dict[bytes, _Seen] = {}
        self._types: Set[str | None] = frozenset(map(_media_type, issuer.types))
        self.tls = tls
        self.keys = IssuerKeys(
            issuer.issuer, clock=clock, kept=issuer.keys_kept, tls=tls
        )

    async def caller_of(self, token: str) -> Caller:
        """Whose token this is.

        Raises:
            Problem: 401, it is not taken; 503, the issuer's keys cannot be had.
        """
        if len(token) > LONGEST_TOKEN:
            raise bad_token(f"it has more than {LONGEST_TOKEN} characters")
        digest = hashlib.sha256(token.encode()).digest()
        seen = self._seen.get(digest)
        # Another key of that name is another key, and so is one that was fetched anew.
        if seen is None or await self._key(seen.kid, seen.algorithm) is not seen.key:
            seen = await self._look_at(token)
            self._seen[digest] = seen
            if len(self._seen) > _MOST_SEEN:
                del self._seen[next(iter(self._seen))]
        self._check_times(seen.times)
        return seen.caller

    async def claims_of_id(self, token: str, client: str) -> Mapping[str, Any]:
        """What a token says by which somebody has signed in (an ID token).

        Args:
            token: As the issuer has given it.
            client: As which they have: it is for this client alone.

        Raises:
            Problem: 401, it is not taken; 503, the issuer's keys cannot be had.
        """
        header = self._header(token, _ID_TYPES)
        algorithm = header["alg"]
        key = await self._key(header.get("kid"), algorithm)
        claims = self._claims(token, key, algorithm, audience=client)
        self._check_times(claims)
        if claims.get("azp", client) != client:
            raise bad_token("it was given to another client")
        return claims

    async def _look_at(self, token: str) -> _Seen:
        header = self._header(token, self._types)
        kid, algorithm = header.get("kid"), header["alg"]
        key = await self._key(kid, algorithm)
        claims = self._claims(token, key, algorithm, audience=self._issuer.audience)
        times = {name: claims[name] for name in _TIMES if name in claims}
        self._check_times(times)
        self._check_use(claims)
        caller = Caller(
            subject=claims["sub"],
            scopes=scopes_in(claims, self._issuer),
            queues=restriction(claims, self._issuer.queues_claim),
            owners=restriction(claims, self._issuer.owners_claim),
        )
        return _Seen(kid, algorithm, key, times, caller)

    async def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        key = await self.keys.find(kid, algorithm)
        if key is None:
            raise bad_token("its key is none of the issuer's")
        return key

    def _header(self, token: str, types: Set[str | None]) -> Mapping[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise bad_token("it is no JSON Web Token") from None
        if header.get("alg") not in self._issuer.algorithms:
            raise bad_token("it is not signed by an algorithm that is allowed")
        if _media_type(header.get("typ")) not in types:
            raise bad_token("it is of another type")
        return header

    def _claims(
        self, token: str, key: jwt.PyJWK, algorithm: str, *, audience: str
    ) -> dict[str, Any]:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self._issuer.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                    # Told by our clock, below.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except InvalidIssuerError:
            raise bad_token("it is of another issuer") from None
        except InvalidAudienceError:
            raise bad_token("it is for another audience") from None
        except MissingRequiredClaimError as error:
            raise bad_token(f"it lacks the claim {error.claim}") from None
        except PyJWTError:
            raise bad_token("its signature or contents are wrong") from None
        subject = claims["sub"]
        if not (0 < len(subject) <= NAME_LIMIT and subject.isprintable()):
            raise bad_token("its subject is no name")
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now().timestamp()
        leeway = self._issuer.leeway.total_seconds()
        if _instant(claims, "exp", now) <= now - leeway:
            raise bad_token("it has expired")
        for name in ("nbf", "iat"):
            if _instant(claims, name, now) > now + leeway:
                raise bad_token("it is not valid yet")

    def _check_use(self, claims: Mapping[str, Any]) -> None:
        clients = self._issuer.clients
        if clients and claims.get("azp", claims.get("client_id")) not in clients:
            raise bad_token("it was given to another client")
        # Keycloak says so of tokens that are to sign in, or to refresh others.
        if claims.get("typ", "Bearer") != "Bearer":
            raise bad_token("it is no access token")


def _media_type(value: object) -> str | None:
    """A type as RFC 7515 compares it."""
    if not isinstance(value, str):
        return None
    return value.lower().removeprefix("application/")


def _instant(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_token(f"its {name} is no time")
    # Nor is what is no number, or too large to be reckoned with.
    if not -_FAR < value < _FAR:
        raise bad_token(f"its {name} is no time")
    return value
