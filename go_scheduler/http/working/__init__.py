"""The other end of a server's work: what a worker in Python is made of."""
