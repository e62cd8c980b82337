"""How the schema of a SQL store comes to be, one revision after the other."""

import logging

# Imported, Alembic tells of each of its plugins at the level of a program's own lines.
# What it tells later is the program's affair.
_plugins = logging.getLogger("alembic.runtime.plugins")
_nothing = logging.Filter("nothing")
_plugins.addFilter(_nothing)

import alembic  # noqa: E402, F401

_plugins.removeFilter(_nothing)
