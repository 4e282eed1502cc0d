"""What asks the nodes of a cluster: by ClusterShell over ssh, or by srun inside Slurm."""
