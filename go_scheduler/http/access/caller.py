"""Who calls, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from go_scheduler.http.problems import Problem, invalid

if TYPE_CHECKING:
    from collections.abc import Set

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
"""What a caller may be allowed to do, and what that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and what they may do.

    Attributes:
        subject: Who it is, for the log and for whose work it is.
        scopes: What they may do: of ``SCOPES``.
        queues: The queues that they may know of; None: any.
        owners: Likewise the owners of definitions; None: any, and those without.
    """

    subject: str
    scopes: Set[str]
    queues: Set[str] | None = None
    owners: Set[str] | None = None

    def check_scopes(self, *scopes: str) -> None:
        """Refuse one who may not do this.

        Raises:
            Problem: 403, with what is missing.
        """
        missing = [each for each in scopes if each not in self.scopes]
        if missing:
            raise Problem(
                403,
                "scope",
                "Not allowed",
                f"this needs the scope {' '.join(missing)}, which the caller has not",
                headers={
                    "WWW-Authenticate": 'Bearer realm="go_scheduler",'
                    f' error="insufficient_scope", scope="{" ".join(scopes)}"'
                },
            )

    def check_queue(self, queue: str) -> None:
        """Refuse a queue that they may not know of.

        Raises:
            Problem: 403.
        """
        if self.queues is not None and queue not in self.queues:
            raise Problem(
                403,
                "queue",
                "Not allowed",
                f"the caller is restricted to some queues, and {queue!r} is none of"
                " them",
            )

    def check_work(self, queue: str) -> None:
        """Refuse one who may not run what a queue has, whoever owns it.

        Raises:
            Problem: 403.
        """
        self.check_queue(queue)
        if self.owners is not None:
            raise Problem(
                403,
                "owner",
                "Not allowed",
                "the caller is restricted to some owners, and work is handed out by"
                " queue: let it be restricted to queues instead",
            )

    def owner_for(self, owner: str | None) -> str | None:
        """Whose a new definition of theirs is.

        Args:
            owner: Whose it is to be, as was sent; None: they did not say.

        Raises:
            Problem: 403, they have nothing of that owner's; 422, they have to say.
        """
        if self.owners is None or owner in self.owners:
            return owner
        if owner is not None:
            raise Problem(
                403, "owner", "Not allowed", f"the caller has nothing of {owner!r}"
            )
        if len(self.owners) != 1:
            raise invalid("owner", "say whose it is: the caller has several owners")
        return next(iter(self.owners))

    def sees(self, definition: TaskDefinition) -> bool:
        """Whether a definition, or what is of it, is there for them."""
        if self.queues is not None and definition.queue not in self.queues:
            return False
        return self.owners is None or definition.owner in self.owners
