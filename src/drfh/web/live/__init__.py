"""The live view of a cluster."""
