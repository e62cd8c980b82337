"""How the schema of a SQL store comes to be, one revision after the other."""
