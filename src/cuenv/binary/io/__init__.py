"""Reading binaries on disk safely."""
