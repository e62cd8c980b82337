"""What pages need, made once for a dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment

from go_scheduler.client import Client
from go_scheduler.clock import Clock
from go_scheduler.dashboard.security.admission import Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What pages need.

    Attributes:
        client: What they call: a client, or a scheduler.
        clock: Tells the time.
        admission: Finds out who calls.
        allows_changes: Whether pages may change anything.
        templates: What they are made of.
    """

    client: Client
    clock: Clock
    admission: Admission
    allows_changes: bool
    templates: Environment
