"""The events, each told once, and the means to listen to them."""

from go_scheduler.events import event as _event

# All names that users need stand in one list, beside the classes.
from go_scheduler.events.event import *  # noqa: F403

__all__ = _event.__all__
