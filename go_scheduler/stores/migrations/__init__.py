"""How the schema of a SQL store comes to be, one revision after the other."""

import logging

# Imported, it tells of each of its plugins at the level of a program's own lines.
logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
