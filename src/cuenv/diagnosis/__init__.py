"""What an error in a log means, why it happens on a host, and the command that cures it."""
