"""The order in which the classes of priority are asked for what is due."""

from __future__ import annotations

from itertools import cycle

from go_scheduler.checks import PRIORITIES

NORMAL = 1
"""The class of a definition that does not say."""

_ONE_IN = 8


class Turns:
    """The claims of a store, each with the order in which it asks the classes.

    A claim begins at the first class, but one in eight begins at the last, so that it
    does not starve; of the others, one in eight begins at the one before it; and so on.
    """

    def __init__(self) -> None:
        self._orders = cycle(_ORDERS)

    def next(self) -> tuple[int, ...]:
        """The order of the next claim."""
        return next(self._orders)


def _order(turn: int) -> tuple[int, ...]:
    for begin in reversed(PRIORITIES):
        if turn % _ONE_IN == _ONE_IN - 1:
            # Downwards: of the classes that have anything it is the last then.
            return (*range(begin, -1, -1), *range(begin + 1, len(PRIORITIES)))
        # Its number among those that do not begin there.
        turn -= turn // _ONE_IN
    return tuple(PRIORITIES)


# After so many turns they repeat.
_ORDERS = [_order(turn) for turn in range(_ONE_IN ** (len(PRIORITIES) - 1))]
