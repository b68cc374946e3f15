"""The divisible problem as arrays, its answer, and the answer's proof."""
