"""Calls that are made at the same moment."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED_AFTER = 120


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Make calls at the same moment, each in its own thread.

    Returns:
        What they returned, in the order of the calls.
    """
    barrier = threading.Barrier(len(calls))
    results: dict[int, object] = {}
    errors: list[BaseException] = []

    def run(number: int, call: Callable[[], object]) -> None:
        try:
            barrier.wait(_FAILED_AFTER)
            results[number] = call()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_FAILED_AFTER)
    if errors:
        raise errors[0]
    assert len(results) == len(calls), f"a call took longer than {_FAILED_AFTER} s"
    return [results[number] for number in range(len(calls))]
