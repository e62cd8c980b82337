"""The kinds of stores: how tables name them, and what floors know of them."""

IN_WORDS = {
    "memory": "memory",
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "cockroachdb": "CockroachDB",
    "redis": "Redis",
}
SHARDS = {"postgresql": 1, "cockroachdb": 8}
"""By how many numbers rows are spread, as the schema has it."""
