"""Runs the command line: `python -m go_scheduler`."""

import sys

from go_scheduler.cli import main

if __name__ == "__main__":
    sys.exit(main())
