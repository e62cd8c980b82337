"""The kinds of stores: how titles name them, and what floors know of them."""

WHERE = {
    "memory": "in memory",
    "sqlite": "on SQLite",
    "postgresql": "on PostgreSQL",
    "cockroachdb": "on CockroachDB",
    "redis": "on Redis",
}
SHARDS = {"postgresql": 1, "cockroachdb": 16}
"""By how many numbers rows are spread, as the schema has it."""
