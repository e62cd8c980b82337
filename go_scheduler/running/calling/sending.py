"""Which handlers can be sent to other processes, pickled."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from go_scheduler.handlers.registry import Handler


def check_sendable(handler: Handler | None, executor: Executor | None) -> None:
    """Refuse a handler that an executor of processes cannot send to them.

    Of a registry it is each that is registered by now.

    Raises:
        ConfigurationError: It cannot be pickled.
    """
    if executor is None:
        return
    # Here, as few have processes: what is about them takes long to import.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.reduction import ForkingPickler

    from go_scheduler.running.calling.process_executor import ProcessExecutor

    if not isinstance(executor, ProcessExecutor | ProcessPoolExecutor):
        return
    of_ours = isinstance(executor, ProcessExecutor)
    dump = pickle.dumps if of_ours else ForkingPickler.dumps
    if isinstance(handler, HandlerRegistry):
        for name in handler.names:
            _check(f"handler {name!r}", handler.registered(name), executor, dump)
    else:
        _check("the handler", handler, executor, dump)


def _check(
    what: str, handler: object, executor: Executor, dump: Callable[[object], object]
) -> None:
    try:
        dump(handler)
    # By whatever code it has.
    except Exception as error:
        called = getattr(handler, "__qualname__", shown(handler))
        raise ConfigurationError(
            f"{what} ({called}) cannot be sent to a process: a"
            f" {type(executor).__name__} takes functions of a module, not lambdas or"
            f" functions within functions; {error}"
        ) from None
