"""What Slurm writes: notation of values, nodes and jobs, output of scontrol."""
