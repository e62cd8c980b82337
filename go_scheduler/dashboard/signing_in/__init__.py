"""Signing in by a browser, with an API key or at an issuer."""
