"""An OIDC issuer: its settings, its keys, and the tokens that it signs."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
import jwt
from jwt import PyJWK
from jwt.exceptions import (
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)

from go_scheduler.checks import NAME_LIMIT, check_at_least, check_name
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import NoticeGiven
from go_scheduler.events.event_bus import LOG_ALONE, Teller
from go_scheduler.formatting import shown
from go_scheduler.http.access.caller import (
    Caller,
    bad_token,
    check_scopes,
    restriction,
    scopes_in,
)
from go_scheduler.http.access.login import LoginError, LoginProvider, fetch
from go_scheduler.http.access.loopback import is_safe_url
from go_scheduler.http.problems import Problem

ASYMMETRIC = frozenset(
    {f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)}
    | {"EdDSA"}
)
"""The signature algorithms of tokens; none has a shared secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIssuer:
    """An OIDC issuer, and the checks of its tokens.

    Args:
        issuer: Its URL, exactly as in the ``iss`` of tokens; https, unless it is on
            this machine.
        audience: The name of this API in ``aud``. It must not be the name of a client:
            then ID tokens for that client would be taken as well.
        algorithms: The allowed signature algorithms; none with a shared secret.
        types: The allowed ``typ`` in the header of a token.
        clients: The allowed ``azp``, or ``client_id``; empty: any.
        leeway: How far the issuer's clock may differ from this one.
        roles_claim: The claim with roles, such as ``realm_access.roles``; None: none.
        roles: The scopes of each role; None: roles have the names of scopes.
        queues_claim: The claim with the queues that a caller may see; None: callers
            see all. A token without the claim may use none; ``"*"`` means any.
        owners_claim: Likewise the owners of definitions.
        keys_kept: How long its keys are good while it cannot be reached; at least ten
            minutes.
        client_id: The client by which people sign in from the command line; None: they
            have to name one.

    Raises:
        ConfigurationError: A value is wrong.
    """

    issuer: str
    audience: str
    algorithms: Sequence[str] = ("RS256", "PS256", "ES256", "EdDSA")
    types: Sequence[str] = ("at+jwt", "JWT")
    clients: Sequence[str] = ()
    leeway: timedelta = timedelta(seconds=30)
    roles_claim: str | None = None
    roles: Mapping[str, Sequence[str]] | None = None
    queues_claim: str | None = None
    owners_claim: str | None = None
    keys_kept: timedelta = timedelta(hours=1)
    client_id: str | None = None

    def __post_init__(self) -> None:
        if not is_safe_url(self.issuer):
            raise ConfigurationError(
                f"issuer must be an https URL, or one on this machine:"
                f" {shown(self.issuer)}"
            )
        check_name("audience", self.audience)
        for name in ("algorithms", "types", "clients"):
            if isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name} must be a list of texts")
        if not self.algorithms or not ASYMMETRIC.issuperset(self.algorithms):
            raise ConfigurationError(
                f"algorithms must be some of {', '.join(sorted(ASYMMETRIC))}:"
                f" {shown(self.algorithms)}"
            )
        if not self.types:
            raise ConfigurationError('types must name at least one, such as "at+jwt"')
        check_at_least("leeway", self.leeway, ZERO)
        check_at_least("keys_kept", self.keys_kept, ZERO)
        if self.roles is not None and self.roles_claim is None:
            raise ConfigurationError("roles need a roles_claim, where they are found")
        for role, names in (self.roles or {}).items():
            if isinstance(names, str):
                raise ConfigurationError(f"role {role} must have a list of scopes")
            check_scopes(f"role {role}", names)


_RENEWED = timedelta(minutes=10)
_PAUSE_OF_FETCHES = timedelta(minutes=1)
_SHORT_PAUSE = timedelta(seconds=5)
_MOST_KEYS = 100
_IN_ALL = 10.0


class IssuerKeys:
    """Fetches and caches the public keys of an issuer.

    The keys are fetched at the first token, every ten minutes after that, and when a
    token names an unknown key; but at most once a minute. One request waits for the
    answer. The other requests use the cached keys meanwhile.

    Args:
        issuer: The URL of the issuer.
        clock: Measures the age of the keys.
        kept: How long keys are good while the issuer cannot be reached; at least ten
            minutes.
        tls: The certificates to trust; None: those of httpx.

    Attributes:
        known: The keys. Each fetch puts a new list here.
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
        # Here, so that wrong certificates are told of at the start.
        self._tls = httpx.create_ssl_context() if tls is None else tls
        # A thread of its own: an issuer that does not answer delays nothing else.
        self._thread = ThreadPoolExecutor(1, "go_scheduler keys")
        self._teller = LOG_ALONE.teller("http")
        self.known: list[dict[str, Any]] = []
        self._fetched: timedelta | None = None
        self._asked: timedelta | None = None
        self._asking = asyncio.Lock()

    def tell_by(self, teller: Teller) -> None:
        """Report with this that the keys cannot be fetched."""
        self._teller = teller

    async def renew(self) -> None:
        """Fetch the keys if they are older than ten minutes.

        Raises:
            Problem: 503, the issuer cannot be reached, and no key is good any more.
        """
        if not self._are_younger_than(_RENEWED):
            await self._ask(waits=not self._are_younger_than(self._kept))

    async def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Find the key of a token.

        Args:
            kid: The id of the key in the token; None: the issuer's only key.
            algorithm: The signature algorithm of the token.

        Returns:
            The key; None: the issuer has no such key.

        Raises:
            Problem: 503, the key is unknown, and the issuer cannot be reached.
        """
        await self.renew()
        found = self._find(kid, algorithm)
        if found is None:
            await self._ask(waits=True)
            found = self._find(kid, algorithm)
            if found is None and self._asked != self._fetched:
                raise _provider_away()
        return found

    def _are_younger_than(self, age: timedelta) -> bool:
        return self._fetched is not None and self._clock.elapsed() - self._fetched < age

    async def _ask(self, *, waits: bool) -> None:
        if self._asking.locked() and not waits:
            return
        async with self._asking:
            is_good = self._are_younger_than(self._kept)
            pause = _PAUSE_OF_FETCHES if is_good else _SHORT_PAUSE
            now = self._clock.elapsed()
            if self._asked is None or now - self._asked >= pause:
                self._asked = now
                await self._fetch(now)
        if not self._are_younger_than(self._kept):
            raise _provider_away()

    async def _fetch(self, now: timedelta) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_IN_ALL):
                self.known = await loop.run_in_executor(self._thread, self._read)
            self._fetched = now
        except (LoginError, TimeoutError) as error:
            self._teller.tell(
                NoticeGiven(
                    text=f"the keys of the issuer {self._issuer} cannot be fetched:"
                    f" {type(error).__name__}: {error}"
                )
            )

    def _read(self) -> list[dict[str, Any]]:
        provider = LoginProvider.discover(self._issuer, tls=self._tls)
        keys = fetch(provider.url("jwks_uri"), tls=self._tls).get("keys")
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise LoginError("what it has at its jwks_uri are no keys, or too many")
        return [each for each in keys if isinstance(each, dict) and _is_public(each)]

    def _find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key that fits, if just one does."""
        fitting = []
        for each in self.known:
            if kid is not None and each.get("kid") != kid:
                continue
            if each.get("alg", algorithm) == algorithm:
                try:
                    fitting.append(PyJWK(each, algorithm))
                except (PyJWTError, TypeError, ValueError):
                    continue  # A key of another kind, or a malformed one.
        return fitting[0] if len(fitting) == 1 else None


def _provider_away() -> Problem:
    """503: the keys of the issuer cannot be fetched, so no token can be checked."""
    return Problem(
        503,
        "issuer-away",
        "Issuer away",
        "tokens cannot be checked at present: the issuer's keys cannot be fetched",
        headers={"Retry-After": "5"},
    )


def _is_public(key: dict[str, Any]) -> bool:
    """Whether a key is a public key for signatures."""
    if key.get("kty") == "oct" or "d" in key or key.get("use", "sig") != "sig":
        return False
    uses = key.get("key_ops", ["verify"])
    return isinstance(uses, list) and "verify" in uses


LONGEST_TOKEN = 16 * 1024
"""The most characters that a token may have."""

_MOST_SEEN = 1_000
_FAR = 10**12
_ID_TYPES = frozenset({"jwt", None})
_TIMES = ("exp", "nbf", "iat")


class _Seen(NamedTuple):
    """A token that was checked, with these keys."""

    keys: Sequence[object]
    times: Mapping[str, Any]
    caller: Caller


class Tokens:
    """Authenticates callers by the tokens of an issuer.

    Of the header only the id of the key is used. A key in it (``jwk``), or a URL of a
    key (``jku``, ``x5u``), is ignored. A token that comes again is checked only for its
    times and for a withdrawn key.

    Args:
        issuer: The issuer.
        clock: Tells the time.
        tls: The certificates to trust for the issuer; None: those of httpx.
    """

    def __init__(
        self, issuer: OidcIssuer, clock: Clock, tls: ssl.SSLContext | None = None
    ) -> None:
        self.issuer = issuer
        self._clock = clock
        self._seen: dict[bytes, _Seen] = {}
        self._types: Set[str | None] = frozenset(map(_media_type, issuer.types))
        self.tls = tls
        self.keys = IssuerKeys(
            issuer.issuer, clock=clock, kept=issuer.keys_kept, tls=tls
        )

    async def caller_of(self, token: str) -> Caller:
        """Return the caller with this token.

        Raises:
            Problem: 401, the token is refused; 503, the issuer cannot be reached.
        """
        if len(token) > LONGEST_TOKEN:
            raise bad_token(f"it has more than {LONGEST_TOKEN} characters")
        digest = hashlib.sha256(token.encode()).digest()
        seen = self._seen.get(digest)
        if seen is not None:
            await self.keys.renew()
        # Its key may have been withdrawn since.
        if seen is None or seen.keys is not self.keys.known:
            seen = await self._look_at(token)
            self._seen[digest] = seen
            if len(self._seen) > _MOST_SEEN:
                del self._seen[next(iter(self._seen))]
        self._check_times(seen.times)
        return seen.caller

    async def claims_of_id(self, token: str, client: str) -> Mapping[str, Any]:
        """Return the claims of an ID token, by which somebody has signed in.

        Args:
            token: The ID token.
            client: The client that it must be for.

        Raises:
            Problem: 401, the token is refused; 503, the issuer cannot be reached.
        """
        claims = await self._verify(token, types=_ID_TYPES, audience=client)
        if claims.get("azp", client) != client:
            raise bad_token("it was given to another client")
        return claims

    async def _look_at(self, token: str) -> _Seen:
        issuer = self.issuer
        claims = await self._verify(token, types=self._types, audience=issuer.audience)
        client = claims.get("azp", claims.get("client_id"))
        if issuer.clients and client not in issuer.clients:
            raise bad_token("it was given to another client")
        # Keycloak marks ID tokens and refresh tokens by another ``typ``.
        if claims.get("typ", "Bearer") != "Bearer":
            raise bad_token("it is no access token")
        caller = Caller(
            subject=claims["sub"],
            scopes=scopes_in(claims, issuer),
            queues=restriction(claims, issuer.queues_claim),
            owners=restriction(claims, issuer.owners_claim),
        )
        times = {name: claims[name] for name in _TIMES if name in claims}
        return _Seen(self.keys.known, times, caller)

    async def _verify(
        self, token: str, *, types: Set[str | None], audience: str
    ) -> dict[str, Any]:
        """The claims of a token whose type, signature, audience and times are right."""
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise bad_token("it is no JSON Web Token") from None
        algorithm = str(header.get("alg"))
        if algorithm not in self.issuer.algorithms:
            raise bad_token("it is not signed by an algorithm that is allowed")
        if _media_type(header.get("typ")) not in types:
            raise bad_token("it is of another type")
        key = await self.keys.find(header.get("kid"), algorithm)
        if key is None:
            raise bad_token("its key is none of the issuer's")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self.issuer.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                    # ``_check_times`` does this by our clock.
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
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now().timestamp()
        leeway = self.issuer.leeway.total_seconds()
        if _instant(claims, "exp", now) <= now - leeway:
            raise bad_token("it has expired")
        for name in ("nbf", "iat"):
            if _instant(claims, name, now) > now + leeway:
                raise bad_token("it is not valid yet")


def _media_type(value: object) -> str | None:
    """A media type, normalized as RFC 7515 compares it."""
    if not isinstance(value, str):
        return None
    return value.lower().removeprefix("application/")


def _instant(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_token(f"its {name} is no time")
    # NaN fails this comparison as well.
    if not -_FAR < value < _FAR:
        raise bad_token(f"its {name} is no time")
    return value
