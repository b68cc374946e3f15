"""Charts, as Altair specifications."""
