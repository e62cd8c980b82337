"""What workers have said: read, and put together by what it is about (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name
from go_scheduler.dispatch.messages.statuses import Said, Status, read_statuses
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Stage
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler.dispatch.bus import Delivery
    from go_scheduler.dispatch.topics import Topics

_STAGES = {
    Said.ACCEPTED: Stage.ACCEPTED,
    Said.STARTED: Stage.STARTED,
    Said.HEARTBEAT: Stage.STARTED,
    Said.PROGRESS: Stage.STARTED,
}


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """A status that is yet to be recorded.

    Attributes:
        message: What it came in.
        status: What was said.
        claim: Of which run.
    """

    message: Opened
    status: Status
    claim: Claim


class Opened:
    """A message of statuses; acknowledged once they all have been settled.

    Args:
        delivery: The message.
        topics: The names of topics.

    Attributes:
        heard: Its statuses, in their order.
        errors: Why others are none, or of a worker that can have no such name.
    """

    def __init__(self, delivery: Delivery, topics: Topics) -> None:
        self._delivery = delivery
        self.heard: list[Heard] = []
        self.errors: list[ConfigurationError] = []
        for each in read_statuses(delivery.body):
            try:
                self.heard.append(self._heard(each, topics))
            except ConfigurationError as error:
                self.errors.append(error)
        self._left = len(self.heard)
        if not self._left:
            self._close()

    def settle(self) -> None:
        """One of its statuses needs nothing more."""
        self._left -= 1
        if not self._left:
            self._close()

    def _close(self) -> None:
        if self.errors:
            # Whoever looks after the bus may have what nobody reads kept.
            self._delivery.reject(requeue=False)
        else:
            self._delivery.ack()

    def _heard(self, status: Status | ConfigurationError, topics: Topics) -> Heard:
        if isinstance(status, ConfigurationError):
            raise status
        check_worker(status.worker, topics)
        claim = Claim(instance_id=status.instance_id, attempt=status.attempt)
        return Heard(self, status, claim)


def check_worker(worker: str, topics: Topics) -> None:
    """Refuse a name that no worker can have.

    Raises:
        ConfigurationError: It is one.
    """
    check_name("worker", worker)
    topics.control(worker)


@dataclass(slots=True)
class Going:
    """All that was said of one run by one worker, but for its end.

    Attributes:
        claim: Which run.
        worker: Who.
        stage: How far it has come.
        progress: What was told last of that; None: nothing.
        heard: The statuses.
    """

    claim: Claim
    worker: str
    stage: Stage = Stage.ACCEPTED
    progress: object = None
    heard: list[Heard] = field(default_factory=list)

    def add(self, heard: Heard) -> None:
        """Add what was said next."""
        if _STAGES[heard.status.status] is Stage.STARTED:
            self.stage = Stage.STARTED
        if heard.status.progress is not None:
            self.progress = heard.status.progress
        self.heard.append(heard)


@dataclass(slots=True)
class SortedStatuses:
    """Statuses, by what is to be done with them.

    Attributes:
        going: Of runs that go on, in the order in which they were heard of first.
        succeeded: Ends, each.
        failed: Likewise.
        released: Likewise.
    """

    going: list[Going] = field(default_factory=list)
    succeeded: list[Heard] = field(default_factory=list)
    failed: list[Heard] = field(default_factory=list)
    released: list[Heard] = field(default_factory=list)

    @classmethod
    def of(cls, heard: Iterable[Heard]) -> SortedStatuses:
        """Put statuses together that were heard in this order."""
        by_kind = cls()
        going: dict[tuple[Claim, str], Going] = {}
        ends = {
            Said.SUCCEEDED: by_kind.succeeded,
            Said.FAILED: by_kind.failed,
            Said.RELEASED: by_kind.released,
        }
        for each in heard:
            if (end := ends.get(each.status.status)) is not None:
                end.append(each)
            else:
                of = each.claim, each.status.worker
                going.setdefault(of, Going(*of)).add(each)
        by_kind.going.extend(going.values())
        return by_kind
