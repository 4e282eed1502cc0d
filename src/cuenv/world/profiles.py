"""Profiles on disk: those that ship, and those of a team."""

from __future__ import annotations

from pathlib import Path

from cuenv.errors import UsageError
from cuenv.formats.yaml_read import load
from cuenv.profile import Profile, parse
from cuenv.world.files import read_text

# In an installed package the profiles lie with the data; in a checkout beside src.
_SHIPPED = Path(__file__).parents[1] / "data" / "profiles"
_CHECKOUT = Path(__file__).parents[3] / "profiles"


def folder() -> Path:
    """Where the shipped profiles lie."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT


def shipped_names() -> tuple[str, ...]:
    """The names of the shipped profiles."""
    return tuple(sorted(path.stem for path in folder().glob("*.yml")))


def read_profile(name_or_path: str) -> Profile:
    """Read a profile: a file, or the name of a shipped one.

    Raises:
        UsageError: there is no such profile.
        InputError: it is not valid.
    """
    path = Path(name_or_path)
    if "/" not in name_or_path and path.suffix not in (".yml", ".yaml"):
        path = folder() / f"{name_or_path}.yml"
        if name_or_path not in shipped_names():
            raise UsageError(
                f"--profile {name_or_path!r}: no profile of that name ships; there are {', '.join(shipped_names())}",
                hint="a file works as well: --profile ./team.yml",
            )
    return parse(load(read_text(path), str(path)), str(path))
