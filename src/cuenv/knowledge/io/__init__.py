"""Reading the tables from the package and from folders, and the records of channels."""
