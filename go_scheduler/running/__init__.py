"""Loop 2: the instance runner, and what becomes of the instances it has claimed."""
