"""The source of the package, as Python reads it."""

from __future__ import annotations

import ast
import gc


def parsed(text: str) -> ast.Module:
    """The tree of a module."""
    # The parser of Python 3.11 fails if what other tests left is collected meanwhile.
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
