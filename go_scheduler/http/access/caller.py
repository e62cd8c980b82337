"""The caller of a request: its scopes, what it may see, and reads for it.

What ``Caller.sees`` does not allow is answered as not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.formatting import shown
from go_scheduler.http.problems import Problem, invalid, not_allowed

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.client import Client
    from go_scheduler.http.access.issuer import OidcIssuer
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.why import Why

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
                headers=_challenge("insufficient_scope", scope=" ".join(scopes)),
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


class Here(Protocol):
    """The context of routes, or of pages, which has the client."""

    @property
    def client(self) -> Client:
        """The client of the store."""
        ...


def is_restricted(caller: Caller) -> bool:
    """Whether a caller is restricted to some queues or owners."""
    return caller.queues is not None or caller.owners is not None


def check_unrestricted(caller: Caller) -> None:
    """Refuse a restricted caller: nodes serve the queues of all.

    Raises:
        Problem: 403.
    """
    if is_restricted(caller):
        raise not_allowed(
            "restricted",
            "nodes serve the queues of all, and are not shown to those who are"
            " restricted to some queues or owners",
        )


def check_declares(caller: Caller) -> None:
    """Refuse a restricted caller without an owner: the types would be nobody's.

    Raises:
        Problem: 403.
    """
    if is_restricted(caller) and caller.owners is None:
        raise not_allowed(
            "owner",
            "a type is used by all: who is restricted to queues declares types only if"
            " they are restricted to an owner as well, whose they are",
        )


async def seen_definition(here: Here, caller: Caller, id: UUID) -> TaskDefinition:
    """Read a definition that the caller may see.

    Raises:
        TaskDefinitionNotFoundError: There is none.
    """
    definition = await here.client.aget_definition(id)
    if not caller.sees(definition):
        raise TaskDefinitionNotFoundError(id)
    return definition


async def seen_instance(here: Here, caller: Caller, id: UUID) -> TaskInstance:
    """Read an instance that the caller may see.

    Raises:
        TaskInstanceNotFoundError: There is none.
    """
    instance = await here.client.aget_instance(id)
    if not caller.sees(instance.definition):
        raise TaskInstanceNotFoundError(id)
    return instance


async def check_sees(here: Here, caller: Caller, id: UUID) -> None:
    """Refuse a definition that the caller may not see; reads only if restricted.

    Raises:
        TaskDefinitionNotFoundError: The caller may not see it.
    """
    if is_restricted(caller):
        await seen_definition(here, caller, id)


async def seen_why(here: Here, caller: Caller, id: UUID, at: datetime | None) -> Why:
    """Explain something, without secrets: holders of locks, and hosts of nodes."""
    knows_nodes = "admin" in caller.scopes
    why = await here.client.awhy(id, at, machines=knows_nodes)
    if not knows_nodes:
        why = replace(why, node=None)
    if why.instance is not None and not caller.sees(why.instance.definition):
        text = "What there is to say is about an instance in another queue."
        return replace(why, instance=None, holder=None, reason=None, text=text)
    if why.holder is None or caller.sees(why.holder.definition):
        return why
    text = "It is due, and waits until an instance that is another's has ended."
    return replace(why, holder=None, text=text)


def without_token() -> Problem:
    """401 for a request without a token."""
    detail = "send a token or an API key: Authorization: Bearer …"
    return Problem(
        401, "unauthenticated", "Not authenticated", detail, headers=_challenge()
    )


def bad_token(reason: str) -> Problem:
    """401 for a token that is not taken.

    Args:
        reason: The reason, in ASCII without quotes, as a header repeats it.
    """
    headers = _challenge("invalid_token", error_description=reason)
    detail = f"the token is not taken: {reason}"
    return Problem(401, "token", "Not authenticated", detail, headers=headers)


def bad_credentials(reason: str) -> Problem:
    """400 for credentials that break RFC 6750."""
    headers = _challenge("invalid_request")
    return Problem(400, "credentials", "Bad credentials", reason, headers=headers)


def _challenge(error: str | None = None, **more: str) -> dict[str, str]:
    said = {"realm": "go_scheduler"} | ({"error": error, **more} if error else {})
    text = ", ".join(f'{name}="{each}"' for name, each in said.items())
    return {"WWW-Authenticate": f"Bearer {text}"}


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
