"""Why a run did not succeed, as far as what follows depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.policies.retry_policy import names_of
from go_scheduler.raised import Fail, GiveBack, RetryAfter
from go_scheduler.running.calling.error_text import describe_error, message_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta
    from types import CodeType


class Failure(NamedTuple):
    """Why a run did not succeed. It can be pickled, as what was raised need not be.

    Attributes:
        error: For a person to read; every store can keep it.
        kinds: The names of what was raised, as ``stop_on`` knows them.
        is_final: Whether another run is out of the question.
        retry_in: After how long another is asked for; None: that is the policy's.
        given_back_for: It has not begun anything: for how long its instance is given
            back, and ``error`` is but the reason; None: it has failed.
    """

    error: str
    kinds: tuple[str, ...] = ()
    is_final: bool = False
    retry_in: timedelta | None = None
    given_back_for: timedelta | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether the policy has nothing to say, unless there have been enough runs."""
        return self.is_final or self.retry_in is not None


def failure_of(error: BaseException, *, callers: Collection[CodeType] = ()) -> Failure:
    """What is known of a run in which this was raised.

    Of a group, such as that of a ``TaskGroup``, what all in it have in common counts.

    Args:
        error: What was raised.
        callers: The code that calls handlers: a ``TypeError`` that comes out of a call
            made there, and not from within the handler, will come at each call.
    """
    raised = _members(error)
    if (delay := _longest(raised, GiveBack)) is not None:
        reasons = dict.fromkeys(map(message_of, raised))
        return Failure("; ".join(reasons), given_back_for=delay)
    fails = all(isinstance(each, Fail) for each in raised)
    return Failure(
        error=describe_error(error),
        kinds=_kinds(error, raised),
        is_final=fails or _is_wrong_call(error, callers),
        retry_in=_longest(raised, RetryAfter),
    )


def _members(error: BaseException) -> list[BaseException]:
    """What is in a group, and in groups in it; of any other error itself."""
    rest, found = [error], []
    while rest:
        each = rest.pop()
        if isinstance(each, BaseExceptionGroup):
            rest.extend(each.exceptions)
        else:
            found.append(each)
    return found


def _kinds(error: BaseException, raised: list[BaseException]) -> tuple[str, ...]:
    """The names of what was raised, and of all in it alike."""
    first, *others = (names_of(type(each)) for each in raised)
    alike = (name for name in first if all(name in each for each in others))
    return tuple(dict.fromkeys((*names_of(type(error)), *alike)))


def _longest(
    raised: list[BaseException], kind: type[RetryAfter | GiveBack]
) -> timedelta | None:
    """The longest of the times that are asked for, if all ask for one so."""
    delays = [each.delay for each in raised if isinstance(each, kind)]
    return max(delays) if len(delays) == len(raised) else None


def _is_wrong_call(error: BaseException, callers: Collection[CodeType]) -> bool:
    if not isinstance(error, TypeError):
        return False
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    return innermost is not None and innermost.tb_frame.f_code in callers
