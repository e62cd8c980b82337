"""Models of request and response bodies, converted to and from core values."""
