"""An executor of processes that can be ended one by one, and die each for itself."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import threading
from concurrent.futures import Executor, Future
from multiprocessing import spawn
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.instead import write_instead
from go_scheduler.running.calling.worker_process import (
    Call,
    ProcessBroken,
    WorkerProcess,
)
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

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
