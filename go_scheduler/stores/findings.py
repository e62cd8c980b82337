"""Findings: what was seen of a store or a schedule, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


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
    """One answer to one question.

    Attributes:
        name: Which it is, always the same for the same, such as ``schema-behind``.
        severity: How much it matters.
        seen: What was seen, for a person to read.
        remedy: What to do; None: nothing.
        statement: What to run for that, SQL or a command; None: nothing is known.
    """

    name: str
    severity: Severity
    seen: str
    remedy: str | None = None
    statement: str | None = None


class Kind(NamedTuple):
    """What may be found.

    Attributes:
        name: That of its findings.
        severity: How much they matter.
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
    """What is as it should be."""
    return Finding(name=name, severity=Severity.OK, seen=seen)


_INSUFFICIENT_PRIVILEGE = "42501"
_NOTICE, _WARNING, _ERROR = Severity.NOTICE, Severity.WARNING, Severity.ERROR

UNREACHABLE = Kind(
    "unreachable", _ERROR, "See that the database runs, and mind the URL."
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
DEAD_ROWS = Kind(
    "dead-rows", _WARNING, "Vacuum the table, and let autovacuum do so more often."
)
NEVER_ANALYZED = Kind(
    "never-analyzed", _WARNING, "Analyze the table: its plans are guesses."
)
AUTOVACUUM_OFF = Kind("autovacuum-off", _WARNING, "Switch autovacuum on.")
LONG_TRANSACTION = Kind(
    "long-transaction",
    _WARNING,
    "End the session, or let its program commit sooner: nothing deleted since it began"
    " can be cleared away.",
)
PREPARED_TRANSACTION = Kind(
    "prepared-transaction", _WARNING, "Commit it or roll it back."
)
LONG_LOCK = Kind(
    "long-lock", _WARNING, "End the session that holds the lock, or let it commit."
)
SESSIONS_HIDDEN = Kind(
    "sessions-hidden",
    _NOTICE,
    "Ask as a user who may see the sessions of others, for their transactions and"
    " locks.",
)
JOURNAL_MODE = Kind(
    "journal-mode", _WARNING, "Let a node open the file once: it sets the mode."
)
DAMAGED = Kind(
    "damaged", _ERROR, "Stop what uses the file, and restore it from a backup."
)
UNCHECKED = Kind(
    "unchecked", _NOTICE, "Check the file when there is time, by PRAGMA quick_check."
)
FREE_PAGES = Kind(
    "free-pages", _NOTICE, "VACUUM the file when nothing runs, if the space is needed."
)
LARGE_LOG = Kind(
    "large-log",
    _WARNING,
    "End the program that keeps a transaction open on the file: its log cannot shrink.",
)
DISK_FULL = Kind("disk-full", _ERROR, "Make room on the disk.")
LEASES_ON_ONE_NODE = Kind(
    "leases-on-one-node",
    _NOTICE,
    "See whether that node is busier than the others, and what pins the ranges to it.",
)
CONTENTION = Kind(
    "contention", _NOTICE, "See which transactions write to the same rows."
)
OLD_STATISTICS = Kind(
    "old-statistics", _WARNING, "Make statistics: without, whole tables are scanned."
)
EVICTING = Kind(
    "evicting",
    _ERROR,
    "Set maxmemory-policy noeviction: this one removes what is scheduled, when the"
    " memory is full.",
)
MEMORY_FULL = Kind(
    "memory-full",
    _WARNING,
    "Raise maxmemory, or keep what has ended for a shorter time: when it is full,"
    " nothing is written.",
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
NO_REPLICA = Kind(
    "no-replica",
    _NOTICE,
    "Add one, if the schedule is to outlive the server's machine.",
)
REPLICA_BEHIND = Kind(
    "replica-behind",
    _WARNING,
    "See to its connection and its load: if it took over now, as much would be lost.",
)
SLOW_ANSWERS = Kind(
    "slow-answers", _WARNING, "See to the network, and to what keeps the server busy."
)
SLOW_SCRIPTS = Kind(
    "slow-scripts",
    _NOTICE,
    "See whether the server has a core of its own; others wait meanwhile.",
)
WRONG_TYPE = Kind(
    "wrong-type",
    _ERROR,
    "See who wrote it, have that use other keys, and delete it.",
)
BROKEN = Kind(
    "broken",
    _WARNING,
    "See what has changed them by hand, and delete their keys: they are left aside.",
)

OF_STORES = (
    UNREACHABLE,
    NOT_ANSWERED,
    NOT_ALLOWED,
    SCHEMA_MISSING,
    SCHEMA_BEHIND,
    SCHEMA_AHEAD,
    SCHEMA_UNKNOWN,
    TABLE_MISSING,
    INDEX_MISSING,
    INDEX_INVALID,
    READ_ONLY,
    OLD_SERVER,
    DEAD_ROWS,
    NEVER_ANALYZED,
    AUTOVACUUM_OFF,
    LONG_TRANSACTION,
    PREPARED_TRANSACTION,
    LONG_LOCK,
    SESSIONS_HIDDEN,
    JOURNAL_MODE,
    DAMAGED,
    UNCHECKED,
    FREE_PAGES,
    LARGE_LOG,
    DISK_FULL,
    LEASES_ON_ONE_NODE,
    CONTENTION,
    OLD_STATISTICS,
    EVICTING,
    MEMORY_FULL,
    MAY_LOSE,
    NOT_KEPT,
    NO_REPLICA,
    REPLICA_BEHIND,
    SLOW_ANSWERS,
    SLOW_SCRIPTS,
    WRONG_TYPE,
    BROKEN,
)
"""All that stores of this package may find wrong with their databases."""


def unanswered(about: str, error: Exception) -> Finding:
    """Why there is no answer to a question.

    Args:
        about: What it is about.
        error: What it raised.
    """
    driver_error = getattr(error.__cause__, "orig", None)
    may_not = getattr(driver_error, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE
    kind = NOT_ALLOWED if may_not else NOT_ANSWERED
    return kind.found(f"{about}: {error}")
