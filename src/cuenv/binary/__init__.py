"""What a compiled file says: ELF headers, dynamic symbols, device code, and what the loader makes of them."""
