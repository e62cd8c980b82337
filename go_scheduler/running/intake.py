"""The intake: which of the instances that a node has claimed it is to call."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.events.notices import Notices
from go_scheduler.handlers.registry import NAMELESS, find_handler
from go_scheduler.models import Outcome
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.run import Run
    from go_scheduler.running.calling.spares import Spares
    from go_scheduler.running.recorder import Recorder

# Of nodes that can run an instance and nodes that cannot, any may have it next.
_FIRST_DELAY = timedelta(milliseconds=50)
_LONGEST_DELAY = timedelta(minutes=1)


class Intake:
    """Refuses what is not to be called at all, and what this node cannot call.

    Args:
        handler: Tells which instances this node can run.
        recorder: Takes what is refused.
        spares: Tells whether too many runs of a definition hang here.

    Attributes:
        notices: Why instances were given back.
    """

    def __init__(self, handler: Handler, recorder: Recorder, spares: Spares) -> None:
        self._handler = handler
        self._recorder = recorder
        self._spares = spares
        self.notices = Notices()
        self._log = BoundedLog(logging.getLogger(__name__))

    def begin(self) -> None:
        """Begin to log anew, as at each tick of whoever claims."""
        self._log.begin()

    def takes(self, run: Run) -> bool:
        """Whether it is to be called here; else what becomes of it is recorded."""
        instance = run.instance
        runs = _runs_before(instance)
        if instance.cancel_requested:
            self._recorder.refuse(run, Outcome.CANCELLED)
        elif not instance.definition.retry.allows(runs):
            # A start is recorded before the call, which may never have come to be.
            error = f"none of {runs} recorded starts came to an end"
            self._recorder.refuse(run, Outcome.FAILED, instance.error or error)
        elif (reason := self._cannot_run(instance)) is not None:
            self._report_given_back(instance, reason)
            delay = _FIRST_DELAY * 2 ** min(instance.attempt - 1, 11)
            self._recorder.release(run, min(delay, _LONGEST_DELAY))
        else:
            return True
        return False

    def report_taken_over(self, instance: TaskInstance) -> None:
        """Say that it runs again, if its last run came to no end."""
        if instance.error is not None or not _runs_before(instance):
            return
        self._log.write(
            logging.WARNING,
            "instance %s of %s: its last run came to no end, it runs again",
            instance.id,
            instance.definition.name or instance.definition.id,
            ids={
                "instance_id": instance.id,
                "definition_id": instance.definition.id,
                "attempt": instance.attempt,
            },
        )

    def _cannot_run(self, instance: TaskInstance) -> str | None:
        """Why other nodes may be able to run an instance, but not this one."""
        definition = instance.definition
        if isinstance(definition.trigger, UnknownTrigger):
            return definition.trigger.reason
        if find_handler(self._handler, instance) is None:
            if definition.name is None:
                return f"{NAMELESS} here: pass name= to TaskDefinition"
            return f"no handler is registered for definitions {definition.name!r} here"
        return self._spares.refusal(instance)

    def _report_given_back(self, instance: TaskInstance, reason: str) -> None:
        text = f"{reason}; such instances are given back"
        if self.notices.add(text):
            ids = {"instance_id": instance.id, "definition_id": instance.definition.id}
            self._log.write(logging.WARNING, "%s", text, ids=ids)


def _runs_before(instance: TaskInstance) -> int:
    """How many runs an instance had before the one it is claimed for."""
    return instance.runs - (instance.started_at is not None)
