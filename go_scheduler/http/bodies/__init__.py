"""What goes over the wire: models of bodies, each to and from values of the core."""
