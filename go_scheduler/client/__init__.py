"""The client: what users do to definitions and instances, without running any."""

from go_scheduler.checks import check_made
from go_scheduler.client.editing import Edits, Runs
from go_scheduler.client.on_demand import OnDemand
from go_scheduler.client.scheduling import Scheduling

__all__ = ["Client"]


class Client(Scheduling, OnDemand, Edits, Runs):
    """Schedules, reads and changes definitions; the half of a scheduler without loops.

    Each call waits for the store. Its form that begins with an ``a``, such as
    ``await scheduler.aschedule(definition)``, waits on a thread and keeps no event loop
    from going on. One whose await is cancelled may take effect all the same.

    Args:
        store: Where definitions and instances are kept.
        telemetry: Lets what is put carry its trace to the handlers, such as a
            ``Telemetry``; None: no tracing. A scheduler takes it as a listener.

    Raises:
        ConfigurationError: An argument is wrong.
    """


def check_client(name: str, value: object) -> None:
    """Refuse what is no client; a scheduler is one.

    Args:
        name: What it is for.
        value: What was given.

    Raises:
        ConfigurationError: It is something else, such as the URL of a store.
    """
    opener = "Client(open_store(url)), of go_scheduler.client and .stores"
    check_made(name, value, Client, opener=opener)
