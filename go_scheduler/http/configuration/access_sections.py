"""The section on access: who may call, and how that is known."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import SecretStr

from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.guard import Access, OpenAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKey
from go_scheduler.http.configuration.section import Duration, Section, Texts


class KeySection(Section):
    """An API key; see ``ApiKey``."""

    subject: str
    hash: SecretStr
    scopes: Texts
    queues: Texts | None = None
    owners: Texts | None = None
    expires_at: datetime | None = None

    def key(self) -> ApiKey:
        """The key.

        Raises:
            ConfigurationError: Something of it is wrong.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return ApiKey(**given | {"hash": self.hash.get_secret_value()})


class OidcSection(Section):
    """Whose tokens are taken; see ``OidcIssuer``."""

    issuer: str
    audience: str
    algorithms: Texts = ("RS256", "PS256", "ES256", "EdDSA")
    types: Texts = ("at+jwt", "JWT")
    clients: Texts = ()
    leeway: Duration = timedelta(seconds=30)
    roles_claim: str | None = None
    roles: dict[str, Texts] | None = None
    queues_claim: str | None = None
    owners_claim: str | None = None
    keys_kept: Duration = timedelta(hours=1)
    client_id: str | None = None


class AccessSection(Section):
    """Who may call; with neither keys nor an issuer, this machine alone.

    Attributes:
        keys: API keys that are taken.
        oidc: Whose tokens are taken.
        origins: Sites whose pages may call from a browser.
    """

    keys: tuple[KeySection, ...] = ()
    oidc: OidcSection | None = None
    origins: Texts = ()

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are."""
        return not self.keys and self.oidc is None

    def access(self) -> Access:
        """What tells who calls.

        Raises:
            ConfigurationError: A key or the issuer is wrong.
        """
        if self.is_open:
            return OpenAccess(self.origins)
        issuer = None if self.oidc is None else OidcIssuer(**dict(self.oidc))
        keys = [each.key() for each in self.keys]
        return BearerAccess(keys=keys, issuer=issuer, origins=self.origins)
