"""A process of a ``ProcessExecutor``: used again, and replaced if it ends."""

from __future__ import annotations

import pickle
import signal
import threading
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from go_scheduler.running.calling.child import (
    ProcessError,
    Raised,
    error_of,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, SpawnContext
    from multiprocessing.process import BaseProcess

    from go_scheduler.running.calling.child import Returned

# A process that does not answer is looked at each so many seconds; one that has been
# told to end is killed after so many looks.
_LOOK = 0.25
_LOOKS = 8


class ProcessBroken(BrokenExecutor):
    """No process can be started to call anything."""


class Call(NamedTuple):
    """What is to be called, and what comes of it.

    Attributes:
        begin: Asked once there is a process for it; false: it is not to be called.
        called: The function, its arguments, and those by keyword.
        future: Where the result goes.
    """

    begin: Callable[[], bool]
    called: tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
    future: Future[Any]


class Child(NamedTuple):
    """A process, and the way to it."""

    process: BaseProcess
    connection: Connection


class WorkerProcess:
    """Has one process at a time, and has it call what comes; for one thread.

    Args:
        context: Starts the process.
    """

    def __init__(self, context: SpawnContext | ForkServerContext) -> None:
        self._context = context
        self._child: Child | None = None
        self._lock = threading.Lock()
        self._calling: Future[Any] | None = None
        self._ended = False

    def perform(self, call: Call) -> None:
        """Have it called, and wait for what comes of it.

        Raises:
            ProcessBroken: There is no process, and it has not been called.
        """
        child = self._ready()
        if call.future.cancelled() or not call.begin():
            call.future.cancel()
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            answer = self._ask(child, call)
        # Also what is raised when it is pickled, by whatever code that has.
        except BaseException as error:
            call.future.set_exception(error)
            return
        if isinstance(answer, Raised):
            call.future.set_exception(error_of(answer))
        else:
            call.future.set_result(answer.value)

    def end(self, future: Future[Any]) -> bool:
        """End the process that calls this; false: it is called no more, or not yet."""
        with self._lock:
            if self._calling is not future:
                return False
            assert self._child is not None
            self._ended = True
            self._child.process.terminate()
        return True

    def kill(self) -> None:
        """End the process, whatever it does; for any thread."""
        with self._lock:
            if self._child is not None:
                self._child.process.kill()

    def leave(self) -> None:
        """Let the process end, as nothing more is to be called."""
        if self._child is not None:
            self._bury(self._child)

    def _ready(self) -> Child:
        """The process, started if there is none that lives."""
        if self._child is not None and self._child.process.is_alive():
            return self._child
        self.leave()
        # It was the one before that was to end: this one may take its time to come up.
        self._ended = False
        try:
            self._child = child = _started(self._context)
        except Exception as error:
            raise ProcessBroken(f"no process can be started: {error!r}") from error
        if self._exchange(child, None) is None:
            raise ProcessBroken(
                f"a process did not come up: {self._bury(child)}; is what your main"
                " module does below if __name__ == '__main__'?"
            )
        return child

    def _ask(self, child: Child, call: Call) -> Returned | Raised:
        request = pickle.dumps(call.called)
        with self._lock:
            self._calling, self._ended = call.future, False
        answer = self._exchange(child, request)
        with self._lock:
            self._calling = None
        if answer is None or self._ended:
            how = self._bury(child)
            if answer is None:
                died = f"its process died: {how}"
                raise ProcessError("its process was ended" if self._ended else died)
        answered: Returned | Raised = pickle.loads(answer)
        return answered

    def _bury(self, child: Child) -> str:
        """Let the process end, and answer how it did."""
        how = _end(child)
        # Until it has ended, whoever ends them all has to find it.
        with self._lock:
            self._child = None
        # It has files open here until then; and is not closed if its end is not known.
        with suppress(ValueError):
            child.process.close()
        return how

    def _exchange(self, child: Child, request: bytes | None) -> bytes | None:
        """Send this, if it is something, and wait for the answer; None: it has died."""
        looks = 0
        try:
            if request is not None:
                child.connection.send_bytes(request)
            while not child.connection.poll(_LOOK):
                # Others that it has started may keep its end open.
                if not (child.process.is_alive() or child.connection.poll()):
                    return None
                looks += self._ended
                if looks == _LOOKS:
                    child.process.kill()
            return child.connection.recv_bytes()
        except (EOFError, OSError):
            return None


def _started(context: SpawnContext | ForkServerContext) -> Child:
    connection, other_end = context.Pipe()
    process = context.Process(target=serve, args=(other_end,), name="go_scheduler")
    try:
        process.start()
    except BaseException:
        connection.close()
        raise
    finally:
        # From now on the process alone has it: when it dies, nobody does.
        other_end.close()
    return Child(process, connection)


def _end(child: Child) -> str:
    """Let a process end, have it ended if it does not, and answer how it did."""
    # It learns by this that nothing more comes.
    child.connection.close()
    child.process.join(_LOOK * _LOOKS)
    child.process.kill()
    child.process.join()
    code = _exit_code(child.process)
    if code is None:
        return "somebody else was told how"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


def _exit_code(process: BaseProcess) -> int | None:
    """How a process has ended; None: somebody else has awaited it, and keeps that.

    Whoever starts a process of ``multiprocessing`` awaits all that have ended, on any
    thread, and says how they did an instant later.
    """
    looks = 0
    while (code := process.exitcode) is None and looks < _LOOKS:
        looks += 1
        threading.Event().wait(_LOOK / _LOOKS)
    return code
