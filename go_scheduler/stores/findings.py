"""Findings: what was seen of a store or a schedule, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from go_scheduler.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    """It is as it should be."""
    NOTICE = "notice"
    """Nothing is wrong with it; somebody may want to know."""
    WARNING = "warning"
    """It is wrong, or will be; what is scheduled goes on for now."""
    ERROR = "error"
    """Something does not run because of it."""

    @property
    def rank(self) -> int:
        """The higher, the worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to a question.

    Attributes:
        name: Identifies the kind, such as ``schema-behind``.
        severity: How much it matters.
        seen: What was seen, for a person to read.
        remedy: What to do; None: nothing.
        statement: The SQL or command for that; None: there is none.
    """

    name: str
    severity: Severity
    seen: str
    remedy: str | None = None
    statement: str | None = None


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        name: Identifies it.
        severity: How much it matters.
        remedy: What to do.
    """

    name: str
    severity: Severity
    remedy: str

    def found(self, seen: str, statement: str | None = None) -> Finding:
        """A finding of this kind."""
        return Finding(
            name=self.name,
            severity=self.severity,
            seen=seen,
            remedy=self.remedy,
            statement=statement,
        )


def well(name: str, seen: str) -> Finding:
    """A finding that all is well."""
    return Finding(name=name, severity=Severity.OK, seen=seen)


_NOTICE, _WARNING, _ERROR = Severity.NOTICE, Severity.WARNING, Severity.ERROR

UNREACHABLE = Kind(
    "unreachable",
    _ERROR,
    "See that the database runs, and mind the URL; `go_scheduler migrate` makes the"
    " file of a new SQLite database.",
)
NOT_ANSWERED = Kind(
    "not-answered",
    _WARNING,
    "See to what the error says, and ask again when there is less to do.",
)
NOT_ALLOWED = Kind("not-allowed", _NOTICE, "Ask as a user who may read it.")
SCHEMA_MISSING = Kind(
    "schema-missing",
    _ERROR,
    "Mind the URL; if it is the right one, make the tables.",
)
SCHEMA_BEHIND = Kind("schema-behind", _ERROR, "Bring the schema up to date.")
SCHEMA_AHEAD = Kind(
    "schema-ahead", _ERROR, "Upgrade go_scheduler here: a newer one made this schema."
)
SCHEMA_UNKNOWN = Kind(
    "schema-unknown", _ERROR, "Restore the schema from a backup, or recreate it."
)
TABLE_MISSING = Kind(
    "table-missing", _ERROR, "Run what `go_scheduler migrate --show` prints."
)
INDEX_MISSING = Kind("index-missing", _WARNING, "Make the index again.")
INDEX_INVALID = Kind(
    "index-invalid", _WARNING, "Build the index again: making it was interrupted."
)
READ_ONLY = Kind(
    "read-only", _ERROR, "Name the primary in the URL: this one takes no writes."
)
OLD_SERVER = Kind("old-server", _WARNING, "Upgrade the database.")
AUTOVACUUM_OFF = Kind("autovacuum-off", _WARNING, "Switch autovacuum on.")
LONG_TRANSACTION = Kind(
    "long-transaction",
    _WARNING,
    "End the session, or let its program commit sooner: nothing deleted since it began"
    " can be cleared away.",
)
SESSIONS_HIDDEN = Kind(
    "sessions-hidden",
    _NOTICE,
    "Ask as a user who may see the sessions of others, for their transactions.",
)
EVICTING = Kind(
    "evicting",
    _ERROR,
    "Set maxmemory-policy noeviction: this one removes what is scheduled, when the"
    " memory is full.",
)
MAY_LOSE = Kind(
    "may-lose",
    _WARNING,
    "Set appendonly yes, and appendfsync always or everysec.",
)
NOT_KEPT = Kind(
    "not-kept",
    _ERROR,
    "Make room on the server's disk, and see its log: what is written is in its memory"
    " only.",
)

OF_STORES = tuple(each for each in vars().values() if isinstance(each, Kind))
"""All that stores of this package may find wrong with their databases."""


Question = TypeVar("Question")


def answers(
    questions: Mapping[str, Question], ask: Callable[[Question], Iterable[Finding]]
) -> Iterator[Finding]:
    """Ask one question after the other. One that fails is a finding.

    Args:
        questions: By what they are about.
        ask: Answers one of them.
    """
    for about, question in questions.items():
        try:
            yield from ask(question)
        except StoreError as error:
            driver_error = getattr(error.__cause__, "orig", error.__cause__)
            is_allowed = type(driver_error).__name__ not in _NOT_ALLOWED
            kind = NOT_ANSWERED if is_allowed else NOT_ALLOWED
            yield kind.found(f"{about}: {error}")


# What psycopg and redis raise where the user lacks the right.
_NOT_ALLOWED = ("InsufficientPrivilege", "NoPermissionError")
