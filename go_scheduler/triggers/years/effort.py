"""How much may be worked out for one answer."""

from __future__ import annotations

from go_scheduler.errors import InvalidTriggerError

MOST_EFFORT = 75_000
"""The most that may be spent on one question: about as many microseconds."""


class UndecidedError(InvalidTriggerError):
    """It was looked for a fire time so long that it stays open whether there is one."""


class Effort:
    """The amount that is left to be spent on one question.

    Args:
        most: How much there is.
    """

    __slots__ = ("_left",)

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self._left = most

    def spend(self, amount: int) -> None:
        """Take away some of it.

        Raises:
            UndecidedError: There is nothing left.
        """
        self._left -= amount
        if self._left < 0:
            raise UndecidedError(
                "it could not be decided whether it fires: too many of its times are"
                " left out one by one"
            )
