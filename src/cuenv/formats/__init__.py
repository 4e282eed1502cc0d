"""One module per file format and version: parse(text) to a value, render(value) to text."""
