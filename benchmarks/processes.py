"""Processes of their own: each measures one thing once, and prints what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.experiment import Call

HERE = Path(__file__).parents[1]
LIMIT = 600.0
LIMIT_OF_FILLING = 7_200.0
"""Seconds after which a process is ended; one that fills tables may take long."""

# The package is imported first and of the tree that is measured, these modules of the
# tree that they are in. A peer's interpreter may not have the package at all.
_BOOT = """
import sys
here, tree = sys.argv[1:3]
if tree:
    sys.path.insert(0, tree)
    import go_scheduler
sys.path.insert(0, here)
from benchmarks.child import main
main(sys.argv[3])
"""


class Failed(Exception):
    """A process ended without an answer; the text is the last that it said."""


def answer(
    call: Call,
    url: str,
    *,
    tree: Path | None,
    python: str = sys.executable,
    limit: float = LIMIT,
) -> dict[str, float]:
    """What a function answers that a new process calls.

    Args:
        call: The function.
        url: Of the database that it is given.
        tree: The checkout whose package is measured; None: none is.
        python: The interpreter.
        limit: The most seconds that it may take.

    Raises:
        Failed: It raised, or took too long.
    """
    process = start(call, url, tree=tree, python=python)
    try:
        said, complaint = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"took longer than {limit:.0f} s") from None
    if process.returncode:
        last = complaint.strip().splitlines()[-1:] or ["no word"]
        raise Failed(last[0])
    answered: dict[str, float] = json.loads(said.splitlines()[-1])
    return answered


def start(
    call: Call, url: str, *, tree: Path | None, python: str = sys.executable
) -> subprocess.Popen[str]:
    """Begin it, with pipes to and from it; see ``answer``."""
    spec = {"function": call.function, "url": url, "arguments": dict(call.arguments)}
    where = [str(HERE), "" if tree is None else str(tree)]
    return subprocess.Popen(
        [python, "-c", _BOOT, *where, json.dumps(spec)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
