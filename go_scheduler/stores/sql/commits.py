"""Being told that a session of the user's has committed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session, SessionTransaction

# By the transaction or savepoint that has to commit first. One that is rolled back is
# forgotten with its key.
_waiting: WeakKeyDictionary[SessionTransaction, list[Callable[[], None]]] = (
    WeakKeyDictionary()
)


def when_committed(session: Session, tell: Callable[[], None]) -> None:
    """Call this once the session's transaction has committed; never if it does not.

    Within a savepoint it is the transaction around it that has to commit.
    """
    inner = session.get_nested_transaction() or session.get_transaction()
    assert inner is not None, "what was put has begun one"
    _waiting.setdefault(inner, []).append(tell)
    if not event.contains(session, "after_commit", _pass_on):
        event.listen(session, "after_commit", _pass_on)


def _pass_on(session: Session) -> None:
    """Tell, or after a savepoint let it wait for what is around that."""
    inner = session.get_nested_transaction() or session.get_transaction()
    assert inner is not None, "it is still there while it tells"
    told = _waiting.pop(inner, [])
    if inner.parent is not None:
        _waiting.setdefault(inner.parent, []).extend(told)
        return
    for tell in told:
        tell()
