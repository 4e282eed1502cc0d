"""What an error in a log means: the symptom, its cause on this host, and the command that cures it."""
