"""The sample channel of the demonstration."""
