"""Parts that the SQL stores share: tables, rows, connections, schema."""

# The whole before its parts: threads that import different parts first, and the whole
# by that, get in each other's way.
import sqlalchemy  # noqa: F401
