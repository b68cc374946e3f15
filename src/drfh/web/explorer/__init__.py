"""The what-if explorer."""
