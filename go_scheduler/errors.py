"""Every exception this package raises of its own accord.

```
GoSchedulerError
├── ConfigurationError            (ValueError)     an argument is wrong
│   └── InvalidTriggerError                        a trigger that cannot work
├── UnknownTriggerError           (LookupError)    a kind that no imported class has
├── TaskDefinitionNotFoundError   (LookupError)    .definition_id
├── TaskInstanceNotFoundError     (LookupError)    .instance_id
├── TaskInstanceStateError                         .instance_id, .state
├── QueueFullError                                 .definition_id, .max_queue
├── ConflictError                                  edited since it was read; .revision
├── ClaimLostError                                 the run no longer owns its instance
├── SchedulerStateError           (RuntimeError)   not possible in the present state
├── BusUnavailableError                            the message bus cannot be used now
└── StoreError                                     the backend failed; see __cause__
    └── StoreUnavailableError                      and trying again may help

UserWarning
└── ScheduleWarning                                its author may have meant another one
```

Callers make few decisions, so there are few classes: fix the argument, import the
class, accept that it is gone, read again, try again.
"""

from __future__ import annotations

from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID


class GoSchedulerError(Exception):
    """Base of every error of this package.

    ```python
    try:
        scheduler.schedule(definition)
    except GoSchedulerError as error:
        print(f"not scheduled: {error}")
    ```
    """

    def __reduce__(self) -> tuple[object, ...]:
        # The __reduce__ of Exception would call __init__ with the text alone.
        return __newobj__, (type(self), *self.args), vars(self)


class ConfigurationError(GoSchedulerError, ValueError):
    """An argument is wrong; nothing was started or stored."""


class InvalidTriggerError(ConfigurationError):
    """A trigger cannot work, such as a cron expression that does not parse."""


class UnknownTriggerError(GoSchedulerError, LookupError):
    """A trigger kind that no imported class has was asked for a fire time."""


class TaskDefinitionNotFoundError(GoSchedulerError, LookupError):
    """No definition has this id; it may have been deleted or cleaned up.

    Attributes:
        definition_id: The id that was asked for.
        task: The name of the task that was to be enqueued, if one was.
    """

    def __init__(
        self, definition_id: UUID, task: str | None = None, known: Collection[str] = ()
    ) -> None:
        super().__init__(
            f"no task definition has the id {definition_id}"
            if task is None
            else _no_task(task, known)
        )
        self.definition_id = definition_id
        self.task = task


def _no_task(task: str, known: Collection[str]) -> str:
    """Say that a task is missing and how to get it; ``known`` are the registry's."""
    if task in known:
        return (
            f"task {task!r} is in this scheduler's registry, and not in the store:"
            " start() schedules it, and so does the first check(); call one of them"
            " before a transaction of yours begins"
        )
    from difflib import get_close_matches

    nearest = get_close_matches(task, known, n=1)
    meant = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return (
        f"there is no task {task!r}: it is made by @handlers.task({task!r}) when"
        " a scheduler with these handlers starts, or by schedule() of a"
        " TaskDefinition(trigger=OnDemandTrigger(),"
        f" id=TaskDefinition.id_for({f'task {task}'!r}), name={task!r}){meant}"
    )


class TaskInstanceNotFoundError(GoSchedulerError, LookupError):
    """No instance has this id; it may have been deleted or cleaned up.

    Attributes:
        instance_id: The id that was asked for.
    """

    def __init__(self, instance_id: UUID) -> None:
        super().__init__(f"no task instance has the id {instance_id}")
        self.instance_id = instance_id


class QueueFullError(GoSchedulerError):
    """As many instances of a definition wait as may; nothing was added.

    Attributes:
        definition_id: The definition.
        max_queue: How many of it may wait.
    """

    def __init__(self, definition_id: UUID, max_queue: int) -> None:
        super().__init__(
            f"task definition {definition_id} may have {max_queue} instances waiting"
            " (max_queue), and would have more: add them when some have begun, or raise"
            " its max_queue"
        )
        self.definition_id = definition_id
        self.max_queue = max_queue


class TaskInstanceStateError(GoSchedulerError):
    """The instance is not in a state in which that can be done.

    Attributes:
        instance_id: The instance.
        state: The state that it is in, such as ``"completed"``.
    """

    def __init__(self, instance_id: UUID, state: str, problem: str) -> None:
        super().__init__(f"task instance {instance_id} is {state}: {problem}")
        self.instance_id = instance_id
        self.state = state


class ConflictError(GoSchedulerError):
    """The definition has been edited since it was read; read it again.

    Attributes:
        definition_id: The definition that was to be changed.
        expected: The revision that it was to have.
        revision: Its revision in the store now; None if it is gone.
        key: The key that it was to have, if one was.
    """

    def __init__(
        self,
        definition_id: UUID,
        *,
        expected: int | None,
        revision: int | None,
        key: str | None = None,
    ) -> None:
        which = f"{definition_id}" if key is None else f"{definition_id}, key {key!r},"
        was = f"was expected at revision {expected}"
        if revision is None:
            found = (
                "none has this id: it was deleted, or never there; as a new one it must"
                " not carry a revision"
            )
        elif expected == 0:
            was = "was to be a new one"
            found = (
                f"there is one at revision {revision}: take another"
                f" {'id' if key is None else 'key'}, or none"
            )
        else:
            found = f"it is at revision {revision}: read it again and repeat the change"
        super().__init__(f"task definition {which} {was}, but {found}")
        self.definition_id = definition_id
        self.expected = expected
        self.revision = revision
        self.key = key


class ClaimLostError(GoSchedulerError):
    """This run no longer owns its instance, or another one was the first to succeed."""


class SchedulerStateError(GoSchedulerError, RuntimeError):
    """The call is not possible in the scheduler's present state."""


class BusUnavailableError(GoSchedulerError):
    """The message bus cannot be used now; trying again may help.

    Attributes:
        unsent: Whether what was to be published is known not to be on the bus; if not,
            it may be there nevertheless.
        refused: Set by ``check``: whether the bus refuses this user, password or vhost,
            so that somebody has to change that first.
    """

    unsent = False
    refused = False


class StoreError(GoSchedulerError):
    """The store's backend failed; its own error is the ``__cause__``."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or is too busy; trying again may help."""


class ScheduleWarning(UserWarning):
    """A schedule that is right, but that people often do not mean.

    ``schedule()`` shows it when it creates or changes a definition, through Python's
    ``warnings``: once for each trigger, unless it is told otherwise.

    ```python
    warnings.simplefilter("ignore", ScheduleWarning)
    ```
    """
