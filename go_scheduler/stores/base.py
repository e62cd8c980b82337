"""The store interface: what the loops need of whatever keeps the rows.

A store moves rows and keeps the promises about them; policy lives above it. Every
method is one transaction. Losing a race is an answer, an absence from what comes back,
and never an exception.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_type
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import ConfigurationError
from go_scheduler.models.queue_stats import HOUR, MINUTE
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.node_store import NodeStore
from go_scheduler.stores.view_store import ViewStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.joined_store import JoinedStore
    from go_scheduler.stores.messages import Retention, RunOutcome

CONTACTS_KEPT = timedelta(hours=1)
"""How long ago a node may have been seen whose contact is still kept."""

STATS_KEPT = {MINUTE: timedelta(days=2), HOUR: timedelta(days=31)}
"""How long ago a minute, or an hour, may have begun whose counts are still kept."""


class Store(NodeStore, HandOverStore, ViewStore):
    """Where definitions and instances are kept.

    All methods may be called by any number of threads, and, if the store is shared, by
    any number of nodes at once. ``StoreSuite`` in ``go_scheduler.testing`` tests every
    sentence written here.

    **Fire times** are unique: a live definition has at most one instance per fire time.
    A record of skipped ones has none of its own.

    **Claims** are judged by the store's time alone. A claim is *current* if the
    instance is claimed, has not ended, and has the claim's ``attempt``. A claim that
    has lapsed stays current until another claim replaces it. ``start_instances``,
    ``renew_claims``, ``finish_instances`` and ``release_instances`` change nothing for
    a claim that is not current, but for a success: see ``finish_instances``.

    **Errors**: every method raises ``StoreUnavailableError`` if trying again may help
    and ``StoreError`` if not. After either nothing has changed, unless the connection
    was lost while the change was being confirmed; all methods may safely be repeated.

    Args:
        clock: Used wherever the store's own time would be, for tests; None: its own
            time.

    Attributes:
        settling: How long the scans, ``due_definitions``, ``claim_instances`` and
            ``delete_finished``, may leave out what has been committed; zero: not at
            all.
        most_remembered: Of more ids than these ``delete_finished`` forgets those that
            ended first, a hundredth too late at most.
    """

    settling: timedelta = ZERO
    most_remembered: int = 1_000_000

    def __init__(self, clock: Clock | None = None) -> None:
        if clock is not None:
            check_type("clock", clock, Clock)
        self.clock = clock

    @abstractmethod
    def initialize(self) -> None:
        """Make the store ready for use; harmless when it already is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; harmless when they already are."""

    def connect(self) -> None:
        """Open the connections that the loops will need; harmless when they are open.

        A node calls it before its loops begin. Without it they are opened by what needs
        them first, which then waits.
        """

    def hints(self) -> Hints | None:
        """What tells a node of what other processes put in; None: nothing does.

        A node that runs handlers calls it once and closes what it gets. As the loops
        look by themselves, a store need have none.
        """
        return None

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the database itself, such as its schema and its locks.

        It writes nothing, needs no ``initialize``, and answers within seconds: what
        cannot be read, or takes too long, is a finding as well. A store of which there
        is nothing to be said answers nothing.

        Returns:
            What was seen, in the order in which it was asked.

        Raises:
            StoreUnavailableError: The database cannot be reached.
        """
        return ()

    @abstractmethod
    def now(self) -> datetime:
        """The time by which claims are judged, in UTC."""

    def now_between(self) -> tuple[datetime, datetime]:
        """Two instants between which this time is; it need not be asked for anew."""
        now = self.now()
        return now, now

    @abstractmethod
    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete instances that ended long ago, then completed definitions without any.

        A definition goes once it has been completed for so long and has no instance
        left; if its id was passed, that is remembered from then on. So are its trigger
        and revision, and when it was completed. What is remembered of ids that were
        completed long ago, the contacts of nodes that were last seen more than an hour
        ago, and what is counted of minutes that began more than two days ago, and of
        hours that did more than 31 days ago, go as well, uncounted.

        Args:
            retention: How long ago that must have been.
            limit: Most rows to delete, definitions and instances together; at least 1.
                At most so many ids are forgotten.

        Returns:
            How many rows were deleted; ``limit`` means that there may be more.
        """


class TransactionalStore(Store):
    """A store whose users may make it part of a database transaction of their own.

    What is done in the transaction is visible to others when it commits, and never if
    it does not. Losing a race with somebody else raises ``StoreUnavailableError``: the
    user's transaction is to be repeated.
    """

    @abstractmethod
    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        """Take part in a transaction of the user's.

        Args:
            connection: The user's connection or session, in a transaction.
            committed: Called once the transaction has committed, if the store learns
                of that, and never if it does not commit.

        Returns:
            What does there what the methods of the same names do; none of them commits.

        Raises:
            ConfigurationError: It is no connection to a database of this store's kind.
        """

    @abstractmethod
    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's.

        Args:
            connection: As for ``join``.
            outcome: Its ``outcome`` is *completed*: the first success of any attempt
                counts, as for ``finish_instances``.

        Returns:
            Whether it was the first.

        Raises:
            ConfigurationError: It is no connection to a database of this store's kind.
        """


def transactional(store: Store) -> TransactionalStore:
    """The store, if it can take part in a transaction of the user's.

    Raises:
        ConfigurationError: It cannot.
    """
    if not isinstance(store, TransactionalStore):
        raise ConfigurationError(
            f"{type(store).__name__} takes part in no transaction of a connection; the"
            " SQL stores do"
        )
    return store
