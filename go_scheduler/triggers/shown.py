"""Any value as part of an error message."""

from __future__ import annotations

from reprlib import Repr

_repr = Repr()
_repr.maxstring = _repr.maxother = 120


def shown(value: object) -> str:
    """A value as Python shows it, shortened; its type where it cannot be shown.

    What a user passes may be long, hold a number that has too many digits to be
    written, or fail to show itself.
    """
    try:
        return _repr.repr(value)
    except Exception:
        return f"a {type(value).__name__}"
