"""Has the reference show the signatures of events, which are dataclasses by their base.

mkdocstrings does not run the code: it finds dataclasses by their decorator alone.
"""

from __future__ import annotations

from typing import Any

import griffe


class EventSignatures(griffe.Extension):
    """Gives each kind of event the decorator of its base."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take a class, of which no member has been read yet."""
        if cls.module.path == "go_scheduler.events.event" and cls.bases:
            base = cls.module.members.get(str(cls.bases[0]))
            if isinstance(base, griffe.Class):
                cls.decorators = cls.decorators or base.decorators
