"""What stands between the shell executor and a program that has limits.

It is run as a program of its own, which sets the limits and becomes the other one: they
cannot be set in a child of a process that has threads before it is a program.
"""

from __future__ import annotations

import os
import resource
import sys


def main() -> None:  # pragma: no cover - it ends as a program that measures nothing
    """Set what the first argument says, and become the program of the others."""
    _, limits, *arguments = sys.argv
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit in filter(None, limits.split(",")):
        name, value = limit.split("=")
        kind = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(kind)[1]
        bound = int(value)
        if most != resource.RLIM_INFINITY:
            bound = min(bound, most)
        resource.setrlimit(kind, (bound, bound))
    try:
        os.execv(arguments[0], arguments)
    except OSError as error:
        sys.exit(f"{arguments[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":  # pragma: no cover
    main()
