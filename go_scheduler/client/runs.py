"""What is done to runs from outside of the node that has called their handler."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_at_least, check_name, check_positive, check_type
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Extension, Stage
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.desk import Desk
from go_scheduler.running.elsewhere import progress_text, result_text
from go_scheduler.shown import shown
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.json import JSON


# More than any instance has, and what every store can compare.
_MOST_ATTEMPTS = 10**18
_NOT_RUN = "it is not run where it was handed on to"


class Runs(StoreAccess):
    """Keeps and ends runs that were handed on, each by its token.

    The token is that of ``Run.token``: the id of the instance, and the attempt.
    """

    # Those of a scheduler which is not told otherwise.
    _defaults = Defaults()

    def accept(
        self, instance_id: UUID, attempt: int, *, worker: str, by: timedelta
    ) -> Extension:
        """Take a run that was handed on with a ``start_timeout``; ``begin`` it after.

        Whoever is first has it, and has that time: calling it again, for the same
        worker, changes nothing.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            worker: Who takes it, for others to be told apart and a person to read: it
                is the ``worker`` of the instance. At most 200 characters.
            by: Within what time from now it is to begin; above zero. If it does not, it
                has failed, and ``retry`` applies.

        Returns:
            Whether it is to go on, to stop because somebody has cancelled it, or is
            lost: another worker has it, or it is not needed any more.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        return self._come_to(
            Stage.ACCEPTED, _claim(instance_id, attempt), worker=worker, by=by
        )

    aaccept = awaitable(accept)
    """Await what ``accept`` does; see there."""

    def begin(
        self, instance_id: UUID, attempt: int, *, worker: str, by: timedelta
    ) -> Extension:
        """Say that a run that was handed on with a ``start_timeout`` begins now.

        Its ``timeout`` counts from now. It may be called without ``accept`` before, and
        again: then it does what ``extend`` does.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            worker: Who runs it, as for ``accept``.
            by: For how long from now it may be silent; above zero. If it is silent for
                longer, it has failed, and ``retry`` applies.

        Returns:
            As ``accept``.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        return self._come_to(
            Stage.STARTED, _claim(instance_id, attempt), worker=worker, by=by
        )

    abegin = awaitable(begin)
    """Await what ``begin`` does; see there."""

    def _come_to(
        self, stage: Stage, claim: Claim, *, worker: str, by: timedelta
    ) -> Extension:
        worker = check_name("worker", worker)
        check_positive("by", by)
        answer = self._desk().report(claim, stage, worker=worker, by=by)
        self._went_on(answer is Extension.LOST)
        return answer

    def extend(
        self,
        instance_id: UUID,
        attempt: int,
        by: timedelta,
        *,
        progress: JSON = None,
    ) -> Extension:
        """Keep a run that was handed on: it is not presumed lost for so long from now.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            by: How long it is kept, unless it is kept for longer already; above zero.
            progress: How far it has come, a JSON value of at most 64 KiB as text: it is
                the ``progress`` of the instance, to be looked at; None: as it was.

        Returns:
            Whether it is to go on, to stop because somebody has cancelled it, or has
            lost its claim and is not needed any more. If its ``timeout`` has passed,
            that is recorded: its run has failed, and it is lost.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_positive("by", by)
        text = progress_text(progress)
        answer = self._desk().extend(claim, by, progress=text)
        self._went_on(answer is Extension.LOST)
        return answer

    aextend = awaitable(extend)
    """Await what ``extend`` does; see there."""

    def complete(self, instance_id: UUID, attempt: int, *, result: JSON = None) -> bool:
        """Record that a run has succeeded that was handed on.

        The first success of an instance wins, of whichever attempt: also one that comes
        after its claim has lapsed, or after the instance has *failed*. It may be called
        again.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            result: What came of it, a JSON value of at most 64 KiB as text: it is the
                ``result`` of the instance, to be looked at; nothing is done with it.

        Returns:
            Whether this attempt has completed the instance, now or before. If not,
            another one has, or it was cancelled, or is gone: nothing has changed.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        text = result_text(result)
        return self._went_on(self._desk().complete(claim, result=text))

    acomplete = awaitable(complete)
    """Await what ``complete`` does; see there."""

    def fail(
        self,
        instance_id: UUID,
        attempt: int,
        error: str,
        *,
        retry: bool = True,
        retry_in: timedelta | None = None,
    ) -> bool:
        """Record that a run has failed that was handed on; its ``retry`` applies.

        If its definition does not say how long a run may take, or what follows it, the
        ``expire_after`` and ``retry`` of this scheduler count: call it on one that is
        told the same as the others.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            error: What went wrong, for a person to read.
            retry: Whether it may be tried again; False is what ``Fail`` is to a
                handler.
            retry_in: After how long it runs again, as ``RetryAfter`` for a handler;
                None: that is the policy's.

        Returns:
            Whether that was recorded. If not, its claim was lost, or this has been
            called before: nothing has changed.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_type("error", error, str)
        check_type("retry", retry, bool)
        if retry_in is not None:
            check_at_least("retry_in", retry_in, ZERO)
            if not retry:
                raise ConfigurationError("retry_in is of no use with retry=False")
        failed = self._desk().fail(claim, error, retry=retry, retry_in=retry_in)
        return self._went_on(failed)

    afail = awaitable(fail)
    """Await what ``fail`` does; see there."""

    def release(
        self,
        instance_id: UUID,
        attempt: int,
        *,
        delay: timedelta = ZERO,
        reason: str | None = None,
    ) -> bool:
        """Give back what was handed on and will not be run: it runs anew, elsewhere.

        It counts as no run.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            delay: After so long it runs again.
            reason: Why, for people to read; it is told by ``InstanceGivenBack``.

        Returns:
            Whether it was given back. If not, its claim was lost before.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_at_least("delay", delay, ZERO)
        reason = reason or _NOT_RUN
        return self._went_on(self._desk().release(claim, delay=delay, reason=reason))

    arelease = awaitable(release)
    """Await what ``release`` does; see there."""

    def _desk(self) -> Desk:
        return Desk(
            self._ready(),
            defaults=self._defaults,
            tell=self._events.tell,
            count=self._count_end,
        )

    def _went_on(self, recorded: bool) -> bool:
        # It may run again at once, or its definition go on.
        if recorded:
            self._look()
        return recorded


def _claim(instance_id: UUID, attempt: int) -> Claim:
    check_type("instance_id", instance_id, UUID)
    check_type("attempt", attempt, int)
    if not 1 <= attempt <= _MOST_ATTEMPTS:
        raise ConfigurationError(
            f"attempt must be from 1 to {_MOST_ATTEMPTS:,}, not {shown(attempt)}"
        )
    return Claim(instance_id=instance_id, attempt=attempt)
