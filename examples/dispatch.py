"""Runs over a message bus: published here, accepted and run by a worker.

In production the bus is RabbitMQ, ``amqp://user:password@host``, and the worker another
process: ``go_scheduler dispatch-worker``. Here all are in one, on a bus within it. It
needs the extra ``dispatch``. It prints::

    resize cat.png
    completed {'resized': 'cat.png'} by anna
"""

from queue import SimpleQueue

from go_scheduler import HandlerRegistry, MemoryStore, Scheduler
from go_scheduler.dispatch import Dispatcher, DispatchWorker, open_bus
from go_scheduler.events import InstanceFinished, hears

tasks = HandlerRegistry()
finished: SimpleQueue[InstanceFinished] = SimpleQueue()


@tasks.task("resize")
def resize(picture: str) -> dict[str, str]:
    """What a worker does; what it returns is the result."""
    print("resize", picture)
    return {"resized": picture}


def main() -> None:
    with open_bus("memory://") as bus:
        dispatcher = Dispatcher(bus)
        scheduler = Scheduler(
            tasks.routed({"resize": dispatcher}),
            MemoryStore(),
            listeners=[hears(InstanceFinished)(finished.put)],
        )
        worker = DispatchWorker(bus, tasks, name="anna")
        with dispatcher.hearing(scheduler), scheduler, worker:
            scheduler.enqueue("resize", picture="cat.png")
            instance = scheduler.get_instance(finished.get().instance_id)
    print(instance.state, instance.result, "by", instance.worker)


if __name__ == "__main__":
    main()
