"""Messages between the loops and a store: small frozen values."""

from go_scheduler.stores.messages.answers import Answer, Fired, Reviewed
from go_scheduler.stores.messages.claims import (
    Claim,
    Claimant,
    Release,
    Renewal,
    RunOutcome,
)
from go_scheduler.stores.messages.firings import Addition, Firing
from go_scheduler.stores.messages.kept import Retention, Tombstone
from go_scheduler.stores.messages.nodes import Announcement, NodeContact
from go_scheduler.stores.messages.position import Position

__all__ = [
    "Addition",
    "Announcement",
    "Answer",
    "Claim",
    "Claimant",
    "Fired",
    "Firing",
    "NodeContact",
    "Position",
    "Release",
    "Renewal",
    "Retention",
    "Reviewed",
    "RunOutcome",
    "Tombstone",
]
