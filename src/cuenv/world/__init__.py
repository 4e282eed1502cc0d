"""The only room that touches the machine: probes, files, processes, the solver, channels."""
