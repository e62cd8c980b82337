"""What may be found of a schedule, of its nodes and of this machine."""

from __future__ import annotations

from go_scheduler.stores.findings import OF_STORES, Kind, Severity

_NOTICE, _WARNING, _ERROR = Severity.NOTICE, Severity.WARNING, Severity.ERROR

CLOCK_OFFSET = Kind(
    "clock-offset", _WARNING, "Have this machine and the database keep time by NTP."
)
NO_NODES = Kind(
    "no-nodes",
    _WARNING,
    "Start one: a program that calls run(), `go_scheduler worker` or `go_scheduler"
    " serve`.",
)
VERSIONS_DIFFER = Kind(
    "versions-differ", _NOTICE, "Finish the deploy, so that all are of one version."
)
QUEUE_UNSERVED = Kind(
    "queue-unserved",
    _ERROR,
    "Name the queue in the queues= of a scheduler, have a worker ask the server for it,"
    " or mind its spelling.",
)
NAME_UNKNOWN = Kind(
    "name-unknown",
    _ERROR,
    "Register a handler by this name where the queue is served, or mind its spelling.",
)
NAME_UNREGISTERED = Kind(
    "name-unregistered",
    _WARNING,
    "Register a handler by this name, or delete the definition.",
)
NAMELESS = Kind(
    "nameless",
    _ERROR,
    "Give it the name of its handler, by `go_scheduler add NAME --id ID` and what it"
    " has besides, or serve its queue by a scheduler with one handler for all.",
)
NAMELESS_UNREGISTERED = Kind(
    "nameless-unregistered",
    _WARNING,
    "Give it the name of its handler, by `go_scheduler add NAME --id ID` and what it"
    " has besides, or delete it.",
)
TRIGGER_UNKNOWN = Kind(
    "trigger-unknown",
    _WARNING,
    "Import the class or the calendar where it runs; and here, by --handlers.",
)
OVERDUE = Kind(
    "overdue",
    _ERROR,
    "See that a node runs, and what its log and health() say of the trigger.",
)
NEVER_AGAIN = Kind(
    "never-again",
    _NOTICE,
    "Nothing, if that was its end; else give it a trigger that goes on.",
)
PAUSED = Kind("paused", _NOTICE, "Resume it, if the reason is gone.")
NOT_ALL_READ = Kind("not-all-read", _NOTICE, "Ask for more by --most, if it matters.")
BACKLOG = Kind(
    "backlog",
    _WARNING,
    "Start more nodes that serve the queue, or raise max_workers; `go_scheduler why`"
    " says what one waits for.",
)
MISFIRED = Kind(
    "misfired",
    _WARNING,
    "See the reason; CatchUp(mode='all') runs all that is missed, and run_now() one.",
)
SKIPPED = Kind(
    "skipped", _NOTICE, "Nothing, if its overlap, its pause or its edit was meant so."
)
STUCK_RUN = Kind(
    "stuck-run",
    _WARNING,
    "See what its handler waits for; cancel() asks it to stop.",
)
LAPSED_CLAIM = Kind(
    "lapsed-claim",
    _ERROR,
    "Start a node that serves its queue: it takes over what a dead one had.",
)
FAILING = Kind(
    "failing",
    _WARNING,
    "Mend what the error says, and then run those that failed once more.",
)

OF_SCHEDULES = (
    CLOCK_OFFSET,
    NO_NODES,
    VERSIONS_DIFFER,
    QUEUE_UNSERVED,
    NAME_UNKNOWN,
    NAME_UNREGISTERED,
    NAMELESS,
    NAMELESS_UNREGISTERED,
    TRIGGER_UNKNOWN,
    OVERDUE,
    NEVER_AGAIN,
    PAUSED,
    NOT_ALL_READ,
    BACKLOG,
    MISFIRED,
    SKIPPED,
    STUCK_RUN,
    LAPSED_CLAIM,
    FAILING,
)
KINDS = (*OF_STORES, *OF_SCHEDULES)
"""All that may be found."""
