"""One brain: events in, placements out. No clock, no I/O."""
