"""The caller of a request, with scopes, queues and owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.problems import invalid, not_allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from go_scheduler.http.access.issuer import OidcIssuer
    from go_scheduler.models import TaskDefinition

SCOPES = {
    "jobs:read": "read definitions and types, and preview when they fire",
    "jobs:write": "create, change and delete definitions and types, and submit jobs",
    "jobs:pause": "pause and resume definitions",
    "runs:read": "read instances, their runs, and why something ran or did not",
    "runs:write": "run now, backfill, cancel and retry",
    "workers": "take work, and say what became of it",
    "admin": "nodes, metrics and job types",
}
"""The scopes, and what each allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request.

    Attributes:
        subject: The name of the caller, for the log and for the work that it takes.
        scopes: The scopes of the caller, from ``SCOPES``.
        queues: The queues that the caller may see; None: any.
        owners: The owners whose definitions the caller may see; None: all definitions,
            those without an owner too.
    """

    subject: str
    scopes: Set[str]
    queues: Set[str] | None = None
    owners: Set[str] | None = None

    def check_scopes(self, *scopes: str) -> None:
        """Refuse a caller without these scopes.

        Raises:
            Problem: 403, with the missing scopes.
        """
        missing = [each for each in scopes if each not in self.scopes]
        if missing:
            raise not_allowed(
                "scope",
                f"this needs the scope {' '.join(missing)}, which the caller has not",
                headers={
                    "WWW-Authenticate": 'Bearer realm="go_scheduler",'
                    f' error="insufficient_scope", scope="{" ".join(scopes)}"'
                },
            )

    def check_queue(self, queue: str) -> None:
        """Refuse a queue that the caller may not see.

        Raises:
            Problem: 403.
        """
        if self.queues is not None and queue not in self.queues:
            raise not_allowed(
                "queue",
                f"the caller is restricted to some queues, and {queue!r} is none of"
                " them",
            )

    def check_work(self, queue: str) -> None:
        """Refuse a caller who may not run all work of a queue.

        Raises:
            Problem: 403.
        """
        self.check_queue(queue)
        if self.owners is not None:
            raise not_allowed(
                "owner",
                "the caller is restricted to some owners, and work is handed out by"
                " queue: let it be restricted to queues instead",
            )

    def owner_for(self, owner: str | None) -> str | None:
        """The owner of a new definition of this caller.

        Args:
            owner: The owner in the request; None: it names none.

        Raises:
            Problem: 403, the caller may not use that owner; 422, the request must
                name one.
        """
        if self.owners is None or owner in self.owners:
            return owner
        if owner is not None:
            raise not_allowed("owner", f"the caller has nothing of {owner!r}")
        if len(self.owners) != 1:
            raise invalid("owner", "say whose it is: the caller has several owners")
        return next(iter(self.owners))

    def sees(self, definition: TaskDefinition) -> bool:
        """Whether the caller may see a definition and its instances."""
        if self.queues is not None and definition.queue not in self.queues:
            return False
        return self.owners is None or definition.owner in self.owners


_ALSO = {
    "jobs:run": frozenset({"jobs:pause", "runs:write"}),
    "admin": frozenset(SCOPES),
}
"""Names that grant several scopes."""


def granted(names: Iterable[str]) -> frozenset[str]:
    """The scopes that names grant; unknown names grant nothing."""
    found: set[str] = set()
    for name in names:
        found |= _ALSO.get(name, {name} & SCOPES.keys())
    return frozenset(found)


def check_scopes(field: str, names: Iterable[str]) -> None:
    """Check the scopes of a configuration.

    Raises:
        ConfigurationError: A name grants nothing.
    """
    for name in names:
        if not granted([name]):
            known = ", ".join(sorted({*SCOPES, *_ALSO}))
            raise ConfigurationError(
                f"{field} has {shown(name)}, which is no scope: there are {known}"
            )


_ANY = "*"


def scopes_in(claims: Mapping[str, object], issuer: OidcIssuer) -> frozenset[str]:
    """The scopes of a token, by ``scope``, ``scp`` and roles."""
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
        claims: The claims of the token.
        path: The claim with the names; None: tokens are not restricted.

    Returns:
        The names; None: any, by ``"*"``. Empty without the claim, or if its value is
        of another type.
    """
    if path is None:
        return None
    names = frozenset(texts(at(claims, path)))
    return None if _ANY in names else names


def at(claims: Mapping[str, object], path: str) -> object:
    """A claim by its name, or by a path of names with dots between.

    Names that contain dots, such as URLs, are found at any depth.
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
