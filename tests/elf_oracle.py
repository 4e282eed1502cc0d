"""pyelftools reads the same file, and must say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuenv.binary.elf import BinaryError, Elf, read_elf, symbols


def agreed(path: Path, most: int = 3000) -> bool:
    """Whether pyelftools could be asked; then both must agree on tables, linkage and the first symbols."""
    pytest.importorskip("elftools", reason="pyelftools is not installed")
    from elftools.elf.elffile import ELFFile

    data = path.read_bytes()
    try:
        own = read_elf(data)
    except BinaryError as error:
        if error.fault in ("foreign", "unsupported"):
            return False
        raise
    with path.open("rb") as stream:
        other = ELFFile(stream)
        assert [section.name for section in own.sections] == [section.name for section in other.iter_sections()], path
        assert len(own.segments) == other.num_segments(), path
        assert linkage(own) == _linkage(other), path
        names = [(item.name, item.defined, item.weak, item.version) for item in symbols(data, own)]
        theirs = _symbols(other, most)
        assert names[: len(theirs)] == theirs, path
    return True


def linkage(own: Elf) -> dict[str, Any]:
    """What the loader is told, as the oracle says it."""
    dynamic = own.dynamic
    if dynamic is None:
        return {}
    return {
        "soname": dynamic.soname,
        "needed": list(dynamic.needed),
        "rpath": None if dynamic.rpath is None else ":".join(dynamic.rpath),
        "runpath": None if dynamic.runpath is None else ":".join(dynamic.runpath),
        "needs": {file: list(versions) for file, versions in dynamic.needs.items()},
        "defines": list(dynamic.defines),
    }


def _linkage(other: Any) -> dict[str, Any]:
    from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection

    section = other.get_section_by_name(".dynamic")
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return {}
    found: dict[str, Any] = {"soname": None, "needed": [], "rpath": None, "runpath": None, "needs": {}, "defines": []}
    for tag in section.iter_tags():
        kind = str(tag.entry.d_tag).removeprefix("DT_").lower()
        if kind == "needed":
            found["needed"].append(tag.needed)
        elif kind in found:
            found[kind] = getattr(tag, kind)
    for part in other.iter_sections():
        if isinstance(part, GNUVerNeedSection):
            for need, versions in part.iter_versions():
                found["needs"][need.name] = [(item.name, bool(item["vna_flags"] & 2)) for item in versions]
        elif isinstance(part, GNUVerDefSection):
            found["defines"] = [next(names).name for item, names in part.iter_versions() if not item["vd_flags"] & 1]
    return found


def _symbols(other: Any, most: int) -> list[tuple[str, bool, bool, str | None]]:
    table, bound = other.get_section_by_name(".dynsym"), other.get_section_by_name(".gnu.version")
    if table is None or table["sh_type"] == "SHT_NOBITS":
        return []
    versions = _versions(other)
    found = []
    for index in range(min(table.num_symbols(), most)):
        symbol = table.get_symbol(index)
        if not symbol.name or symbol["st_info"]["bind"] == "STB_LOCAL":
            continue
        number = bound.get_symbol(index)["ndx"] if bound else None
        version = versions.get(number & 0x7FFF) if isinstance(number, int) else None
        weak = symbol["st_info"]["bind"] == "STB_WEAK"
        found.append((symbol.name, symbol["st_shndx"] != "SHN_UNDEF", weak, version))
    return found


def _versions(other: Any) -> dict[int, str]:
    from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection

    found: dict[int, str] = {}
    for part in other.iter_sections():
        if isinstance(part, GNUVerNeedSection):
            found |= {item["vna_other"] & 0x7FFF: item.name for _, every in part.iter_versions() for item in every}
        elif isinstance(part, GNUVerDefSection):
            rows = ((item, next(names).name) for item, names in part.iter_versions())
            found |= {item["vd_ndx"] & 0x7FFF: name for item, name in rows if not item["vd_flags"] & 1}
    return found
