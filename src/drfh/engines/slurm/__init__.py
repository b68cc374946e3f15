"""Slurm: a controller beside slurmctld that places jobs, and what looks at a live cluster."""
