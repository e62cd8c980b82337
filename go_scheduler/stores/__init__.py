"""Stores: where definitions and instances are kept."""
