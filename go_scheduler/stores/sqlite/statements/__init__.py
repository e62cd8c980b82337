"""The statements of SQLite: what the loops do, each over a whole batch.

They run within a transaction that has the write lock, so that nothing changes between
two of them. All times and durations are whole microseconds; a batch is one parameter,
the JSON text of an array with an array for each row.

RETURNING names columns only: in it, older versions take IS NULL for false.
"""
