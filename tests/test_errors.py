"""Every error says what its docstring's tree says, and survives a process boundary."""

from __future__ import annotations

import inspect
import pickle
import re
from uuid import UUID

import pytest

from go_scheduler import errors
from go_scheduler.errors import (
    BusUnavailableError,
    ClaimLostError,
    ConfigurationError,
    ConflictError,
    GoSchedulerError,
    InvalidTriggerError,
    QueueFullError,
    SchedulerStateError,
    StoreError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
    UnknownTriggerError,
)

ID = UUID(int=7)
CLASSES = [
    each
    for each in vars(errors).values()
    if inspect.isclass(each)
    and issubclass(each, Exception)
    and not issubclass(each, Warning)
]
EXAMPLES = [
    BusUnavailableError("away"),
    ClaimLostError("lost"),
    ConfigurationError("wrong"),
    ConflictError(ID, expected=1, revision=2),
    ConflictError(ID, expected=1, revision=None),
    InvalidTriggerError("never"),
    QueueFullError(ID, 7),
    SchedulerStateError("stopped"),
    StoreError("broken"),
    StoreUnavailableError("away"),
    TaskDefinitionNotFoundError(ID),
    TaskInstanceNotFoundError(ID),
    TaskInstanceStateError(ID, "completed", "too late"),
    UnknownTriggerError("unknown"),
]


def test_the_docstring_draws_every_error_under_its_base() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^([│ ]*(?:[├└]── )?)(\w+Error)\b", line):
            depth = len(found[1]) // 4
            drawn[found[2]] = above[depth - 1] if depth else "Exception"
            above[depth:] = [found[2]]
    assert drawn == {each.__name__: each.__bases__[0].__name__ for each in CLASSES}
    assert all(issubclass(each, GoSchedulerError) for each in CLASSES)


CONFLICT = f"task definition {ID} was"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TaskDefinitionNotFoundError(ID), f"no task definition has the id {ID}"),
        (TaskInstanceNotFoundError(ID), f"no task instance has the id {ID}"),
        (
            ConflictError(ID, expected=3, revision=5),
            f"{CONFLICT} expected at revision 3, but it is at revision 5: read it again"
            " and repeat the change",
        ),
        (
            ConflictError(ID, expected=3, revision=None),
            f"{CONFLICT} expected at revision 3, but none has this id: it was deleted,"
            " or never there; as a new one it must not carry a revision",
        ),
        (
            ConflictError(ID, expected=0, revision=5),
            f"{CONFLICT} to be a new one, but there is one at revision 5: take another"
            " id, or none",
        ),
        (
            ConflictError(ID, expected=0, revision=1, key="kk"),
            f"task definition {ID}, key 'kk', was to be a new one, but there is one at"
            " revision 1: take another key, or none",
        ),
    ],
    ids=["no definition", "no instance", "edited", "gone", "not new", "key taken"],
)
def test_an_error_of_an_id_says_what_was_found(
    error: GoSchedulerError, text: str
) -> None:
    assert str(error) == text
    assert ID in vars(error).values()


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: GoSchedulerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_every_error_has_an_example_above() -> None:
    assert {type(error) for error in EXAMPLES} == {*CLASSES} - {GoSchedulerError}
