"""The strip of time: what was to fire, what ran, and how, along one line."""
