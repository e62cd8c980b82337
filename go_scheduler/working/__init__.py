"""What workers elsewhere have in common, whatever brings them their work."""
