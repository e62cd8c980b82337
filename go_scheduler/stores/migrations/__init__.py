"""How the schema of a SQL store comes to be, one revision after the other."""

import sqlalchemy  # noqa: F401 - the whole before its parts, as in stores/sql
