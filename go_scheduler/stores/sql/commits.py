"""The moment when a transaction of the user's has committed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.orm import Session, scoped_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import SessionTransaction

# By the transaction or savepoint that has to commit first. One that is rolled back is
# forgotten with its key.
_waiting: WeakKeyDictionary[SessionTransaction, list[Callable[[], None]]] = (
    WeakKeyDictionary()
)


def when_committed(connection: object, tell: Callable[[], None]) -> None:
    """Call this once a session's transaction has committed; never if it does not.

    Within a savepoint it is the transaction around it that has to commit. A Connection
    says that it commits before it does so, and nothing says it afterwards: on one this
    is never called.
    """
    session = connection() if isinstance(connection, scoped_session) else connection
    if not isinstance(session, Session):
        return
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
