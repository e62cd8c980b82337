"""What workers have said: read, and put together by what it is about (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name
from go_scheduler.dispatch.bus import Delivery
from go_scheduler.dispatch.messages.statuses import Said, Status, read_status
from go_scheduler.models import Stage
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        delivery: To be acknowledged when it has been.
        status: What was said.
        claim: Of which run.
    """

    delivery: Delivery
    status: Status
    claim: Claim

    @classmethod
    def of(cls, delivery: Delivery, topics: Topics) -> Heard:
        """Read what was delivered.

        Raises:
            ConfigurationError: It is no status, or of a worker that can have no such
                name.
        """
        status = read_status(delivery.body)
        check_name("worker", status.worker)
        topics.control(status.worker)
        claim = Claim(instance_id=status.instance_id, attempt=status.attempt)
        return cls(delivery, status, claim)


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
class Gathered:
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
    def of(cls, heard: Iterable[Heard]) -> Gathered:
        """Put statuses together that were heard in this order."""
        gathered = cls()
        going: dict[tuple[Claim, str], Going] = {}
        ends = {
            Said.SUCCEEDED: gathered.succeeded,
            Said.FAILED: gathered.failed,
            Said.RELEASED: gathered.released,
        }
        for each in heard:
            if (end := ends.get(each.status.status)) is not None:
                end.append(each)
            else:
                of = each.claim, each.status.worker
                going.setdefault(of, Going(*of)).add(each)
        gathered.going.extend(going.values())
        return gathered
