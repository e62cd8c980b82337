"""How handlers are called: on threads, an event loop, or an executor."""
