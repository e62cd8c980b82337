"""What the claims of a token grant: scopes, queues and owners (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from go_scheduler.http.access.scopes import granted

if TYPE_CHECKING:
    from go_scheduler.http.access.issuer import OidcIssuer

_ANY = "*"


def scopes_in(claims: Mapping[str, object], issuer: OidcIssuer) -> frozenset[str]:
    """The scopes by ``scope``, by ``scp``, and by roles."""
    names = [*texts(claims.get("scope")), *texts(claims.get("scp"))]
    if issuer.roles_claim is not None:
        for role in texts(at(claims, issuer.roles_claim)):
            names += [role] if issuer.roles is None else issuer.roles.get(role, ())
    return granted(names)


def restriction(
    claims: Mapping[str, object], path: str | None
) -> frozenset[str] | None:
    """The names that a token is restricted to.

    Args:
        claims: Of the token.
        path: The claim that has them; None: tokens are not restricted.

    Returns:
        The names; None: any, by ``"*"``. Without the claim, or with another kind of
        value in it, there are none.
    """
    if path is None:
        return None
    names = frozenset(texts(at(claims, path)))
    return None if _ANY in names else names


def at(claims: Mapping[str, object], path: str) -> object:
    """A claim by its name, or by the names that lead to it, with dots between.

    Names that themselves have dots, as URLs do, are found at any depth.
    """
    if path in claims:
        return claims[path]
    names = path.split(".")
    for count in range(1, len(names)):
        inner = claims.get(".".join(names[:count]))
        if isinstance(inner, Mapping):
            found = at(inner, ".".join(names[count:]))
            if found is not None:
                return found
    return None


def texts(value: object) -> list[str]:
    """The names in a claim: a text with blanks between, or a list of texts."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str)]
    return []
