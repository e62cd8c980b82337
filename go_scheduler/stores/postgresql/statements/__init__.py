"""The statements of the PostgreSQL family: what the loops do, each over a batch.

Each is one statement that commits by itself. Who owns what rests on the conditions of
the UPDATEs alone; SKIP LOCKED only keeps nodes out of each other's way. Every parameter
is cast, for CockroachDB infers other types than PostgreSQL.
"""
