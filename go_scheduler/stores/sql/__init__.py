"""Parts that the SQL stores share: tables, rows, connections, schema."""
