"""The environment where people run it: Dockerfile, workflow, shell lines."""
