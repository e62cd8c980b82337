"""What a worker on a bus is made of."""
