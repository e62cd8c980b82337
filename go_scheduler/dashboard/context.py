"""What pages need, made once for a dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment

from go_scheduler.client import Client
from go_scheduler.clock import Clock, StoreClock
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.security.admission import Admission
from go_scheduler.dashboard.security.place import Place
from go_scheduler.dashboard.security.sessions import Sessions
from go_scheduler.http.access.audit import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What pages need.

    Attributes:
        client: What they call: a client, or a scheduler.
        clock: Tells the time of sessions.
        store_clock: Tells that of the store.
        place: Where browsers have the dashboard.
        admission: Finds out who calls.
        sessions: Know browsers again.
        audit: Tells who did what.
        allows_changes: Whether pages may change anything.
        live: Tells those who view them of changes.
        templates: What they are made of.
    """

    client: Client
    clock: Clock
    store_clock: StoreClock
    place: Place
    admission: Admission
    sessions: Sessions
    audit: Audit
    allows_changes: bool
    live: Live
    templates: Environment
