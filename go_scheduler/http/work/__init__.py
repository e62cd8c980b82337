"""Work for workers elsewhere, who wait for it by long-poll."""
