"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_NOT_CHOSEN_FROM = 15_000, 32_000


def free_port() -> int:
    """A port that nobody listens on, and that no other test is given.

    It is none that the system chooses from, for whoever connects to something or asks
    for any port, so that a server which starts again finds it free again.
    """
    while True:
        port = random.SystemRandom().randrange(*_NOT_CHOSEN_FROM)
        with suppress(OSError), socket.socket() as bound:
            bound.bind(("127.0.0.1", port))
            # Of UDP, which no server here speaks: it is kept until this process ends.
            kept = socket.socket(type=socket.SOCK_DGRAM)
            try:
                kept.bind(("127.0.0.1", port))
            except OSError:
                kept.close()
                raise
            kept.detach()
            return port
