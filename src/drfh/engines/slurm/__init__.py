"""Slurm: a controller beside slurmctld that places jobs, and observation of a live cluster."""
