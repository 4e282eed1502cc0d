"""The use cases: the world and arguments in, a product or a report out. Commands and the public API call these."""
