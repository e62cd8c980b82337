"""An issuer of tokens, as the configuration has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.loopback import is_safe_url
from go_scheduler.http.access.scopes import check_scopes
from go_scheduler.shown import shown

ASYMMETRIC = frozenset(
    {f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)}
    | {"EdDSA"}
)
"""The algorithms that tokens may be signed by: none of them has a shared secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIssuer:
    """Whose tokens are taken, and what has to be in them.

    Args:
        issuer: Its URL, exactly as tokens have it in ``iss``; https, unless it is on
            this machine.
        audience: What ``aud`` has to name: this API. Not the name of a client, or the
            tokens by which people sign in there are taken as well.
        algorithms: What tokens may be signed by; none with a shared secret.
        types: What the ``typ`` of a token's header may be.
        clients: What ``azp``, or ``client_id``, may be; empty: any.
        leeway: How far the issuer's clock may be apart from this one.
        roles_claim: Where roles are, such as ``realm_access.roles``; None: nowhere.
        roles: What each role grants; None: roles are named as scopes are.
        queues_claim: Where the queues are that a caller is restricted to; None: callers
            are not. A token without that claim may use none; ``"*"`` means any.
        owners_claim: Likewise the owners of definitions.
        keys_kept: For how long its keys are good when it cannot be reached; ten minutes
            at least.
        client_id: As what the command line signs people in there; None: they have to
            say.

    Raises:
        ConfigurationError: One of these is no such thing.
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
