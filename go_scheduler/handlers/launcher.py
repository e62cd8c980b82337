"""Starts a program with limits, for the shell executor.

This is run as a program, which sets the limits and then becomes the other program. In a
process with threads, limits cannot safely be set between fork and exec.
"""

from __future__ import annotations

import os
import resource
import sys


def main() -> None:  # pragma: no cover - it ends as a program that measures nothing
    """Set the limits of the first argument, and run the others as a program."""
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
