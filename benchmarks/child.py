"""What a process of its own does; it needs nothing but the standard library."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from importlib import import_module


def main(spec: str) -> None:
    """Call a function of this package, and print what it answers as the last line."""
    # Being late is what is measured, and not news.
    logging.disable(logging.WARNING)
    asked = json.loads(spec)
    module, name = asked["function"].split(":")
    try:
        function = getattr(import_module(f"benchmarks.{module}"), name)
        print(json.dumps(function(asked["url"], **asked["arguments"])), flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Threads that others have left behind keep nobody waiting.
    os._exit(0)
