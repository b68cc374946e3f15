"""What Slurm and Kubernetes write, parsed into records and rules."""
