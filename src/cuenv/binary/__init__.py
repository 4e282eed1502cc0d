"""What a compiled file says of itself: ELF headers, linkage, device code. Pure: bytes come in, values go out."""
