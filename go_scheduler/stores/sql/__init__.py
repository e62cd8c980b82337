"""What the SQL stores share: tables, row mapping, connections, schema."""
