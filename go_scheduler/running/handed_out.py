"""What was handed out, remembered for as long as there is room for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from go_scheduler.json import NOTHING
from go_scheduler.models.changed import changed
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskInstance

_MOST = 10_000


class HandedOut:
    """Remembers instances, so that they need not be read when they end.

    Args:
        most: How many; the oldest are forgotten.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._instances: OrderedDict[Claim, TaskInstance] = OrderedDict()

    def add(self, instance: TaskInstance) -> None:
        """Remember one, without what may be large and is not needed."""
        self._instances[Claim.of(instance)] = changed(
            instance,
            definition=changed(instance.definition, metadata=NOTHING),
            payload=None,
            result=None,
            error=None,
        )
        if len(self._instances) > self._most:
            self._instances.popitem(last=False)

    def get(self, claim: Claim) -> TaskInstance | None:
        """One that goes on; None: it has to be read."""
        return self._instances.get(claim)

    def begin(self, claim: Claim, at: datetime) -> None:
        """Remember when one has begun that waited on a bus; the first time counts."""
        instance = self._instances.get(claim)
        if instance is not None and instance.accepted_at is None:
            self._instances[claim] = changed(instance, started_at=at, accepted_at=at)

    def pop(self, claim: Claim) -> TaskInstance | None:
        """One that ends now; None: it has to be read."""
        return self._instances.pop(claim, None)
