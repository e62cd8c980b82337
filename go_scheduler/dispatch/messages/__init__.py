"""The messages that go over a bus, as docs/messages.md describes them."""
