"""An executor of processes that can be ended one by one, and die each for itself."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from multiprocessing import spawn
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import Handler, HandlerRegistry
from go_scheduler.running.calling.child import (
    ProcessError,
    Raised,
    Returned,
    error_of,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, SpawnContext
    from multiprocessing.process import BaseProcess


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


_Result = TypeVar("_Result")
_Context = Literal["spawn", "forkserver"]


@write_instead("ProcessExecutor(4)")
class ProcessExecutor(Executor):
    """Calls handlers in processes of its own, one in each at a time.

    ```python
    scheduler = Scheduler(handler, store, executor=ProcessExecutor(4))
    ```

    A run whose ``timeout`` has passed, or that is presumed hung, has its process ended;
    a process that dies costs the run that it was calling, and no other. In either case
    another takes its place. What is called, and what comes of it, travels pickled, and
    there is no ``current_run()``. A process is started when it is needed, never by a
    fork of this one, and is kept until the scheduler stops; none outlives the program.
    So the program's main module must be one that can be imported: what it does by
    itself stands below ``if __name__ == "__main__":``.

    Args:
        max_workers: The most processes; None: as many as the machine has processors.
        context: How they are started, ``"spawn"`` or ``"forkserver"``.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self, max_workers: int | None = None, *, context: _Context = "spawn"
    ) -> None:
        # In a process that imports the main module this raises what explains it.
        spawn.get_preparation_data("")
        workers = os.cpu_count() or 1 if max_workers is None else max_workers
        check_type("max_workers", workers, int)
        if workers < 1:
            raise ConfigurationError(
                f"max_workers must be at least 1: {shown(workers)}"
            )
        if context not in get_args(_Context):
            raise ConfigurationError(
                f"context must be one of {', '.join(map(repr, get_args(_Context)))}:"
                f" {shown(context)}"
            )
        self.max_workers = workers
        self._context = context
        self._crew = _Crew(workers, context)
        self._lock = threading.Lock()
        self._closed = False

    def submit(
        self, fn: Callable[..., _Result], /, *args: object, **kwargs: object
    ) -> Future[_Result]:
        """Have this called in a process, as soon as one is free.

        Raises:
            BrokenExecutor: The last process that was started did not come up.
            RuntimeError: It has been shut down.
        """
        return self._submit(Call(_always, (fn, args, kwargs), Future()))

    def submit_if(
        self, begin: Callable[[], bool], fn: Callable[..., _Result], /, *args: object
    ) -> Future[_Result]:
        """The same, unless ``begin`` says no; it is asked once a process is free.

        What has not begun when its future is done has not been called.
        """
        return self._submit(Call(begin, (fn, args, {}), Future()))

    def end(self, future: Future[Any]) -> bool:
        """End the process that calls this: SIGTERM, and SIGKILL two seconds later.

        Returns:
            Whether it was being called.
        """
        return any(each.end(future) for each in _PROCESSES.copy())

    def let_go(self) -> None:
        """Let each process end once it is free; the next call starts others."""
        with self._lock:
            crew, self._crew = self._crew, _Crew(self.max_workers, self._context)
        crew.let_go()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more, and let each process end once it is free.

        Args:
            wait: Return when they have ended.
            cancel_futures: Call nothing that is not being called yet.
        """
        with self._lock:
            self._closed = True
        self._crew.let_go(cancel=cancel_futures)
        if wait:
            self._crew.join()

    def _submit(self, call: Call) -> Future[Any]:
        with self._lock:
            if self._closed:
                raise RuntimeError("it has been shut down, and calls nothing more")
            broken = self._crew.broken
            if broken is None:
                self._crew.put(call)
                return call.future
            # Whether that is so still, will be known when it is asked again.
            self._crew.put(Call(_always, (int, (), {}), Future()))
        raise ProcessBroken(broken)


class _Crew:
    """Threads, each with a process, that take calls from one queue until let go."""

    def __init__(self, size: int, context: _Context) -> None:
        self._size = size
        self._context = (
            multiprocessing.get_context("spawn")
            if context == "spawn"
            else multiprocessing.get_context("forkserver")
        )
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self.broken: str | None = None

    def put(self, call: Call) -> None:
        """Have it called; for one thread at a time."""
        self._calls.put(call)
        if self._idle.acquire(blocking=False) or len(self._threads) == self._size:
            return
        name = f"go_scheduler process {len(self._threads) + 1}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def let_go(self, *, cancel: bool = False) -> None:
        """End each thread, and its process, after what was put before."""
        while cancel:
            try:
                call = self._calls.get_nowait()
            except Empty:
                break
            assert call is not None
            call.future.cancel()
            call.future.set_running_or_notify_cancel()
        for _ in self._threads:
            self._calls.put(None)

    def join(self) -> None:
        """Wait until they have ended."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        process = WorkerProcess(self._context)
        _PROCESSES[process] = None
        while (call := self._next()) is not None:
            try:
                process.perform(call)
                self.broken = None
            except ProcessBroken as error:
                self.broken = str(error)
                if call.future.set_running_or_notify_cancel():
                    call.future.set_exception(error)
        process.leave()
        _PROCESSES.pop(process)

    def _next(self) -> Call | None:
        try:
            return self._calls.get_nowait()
        except Empty:
            self._idle.release()
            return self._calls.get()


def _always() -> bool:
    return True


_PROCESSES: dict[WorkerProcess, None] = {}
"""Those that have a thread; each change of it is atomic."""

_THIS_PROCESS = os.getpid()


@atexit.register
def _kill_all() -> None:
    """Leave no process behind, for which the interpreter would wait at its end."""
    # A fork of this process has none.
    if os.getpid() == _THIS_PROCESS:
        for each in _PROCESSES.copy():
            each.kill()
