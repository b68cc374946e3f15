"""Proofs of optimality that anyone can check, without a solver."""
