"""Profiles on disk: those of the project, in its settings or its folder of profiles, and those that ship."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import UsageError
from cuenv.core.io.files import DATA, expand_home, is_file, names_in, path_text, read_text
from cuenv.core.record import dataclass, field
from cuenv.host.request import Request, parse

if TYPE_CHECKING:  # most commands have no settings
    from cuenv.config.io.configuration import Configuration

# In an installed package the profiles lie with the data; in a checkout beside src.
_SHIPPED = Path(DATA, "profiles")
_CHECKOUT = Path(__file__).parents[4] / "profiles"
SHIPPED = "ships with cuenv"  # the origin of a profile that comes with cuenv

_ENDINGS = (".yml", ".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePlace:
    """The place of one profile."""

    name: str  # what ``--profile`` takes
    origin: str  # for people: ``ships with cuenv``, a file, or a file and the table in it
    file: Path | None = None  # its file; ``None`` for a table of the settings
    table: Mapping[str, Any] = field(default_factory=dict)  # what the settings hold; ``source`` and ``path`` say where
    source: str = ""
    path: str = ""

    def text(self) -> str:
        """The text of its file.

        Raises:
            InputError: it cannot be read.
        """
        return read_text(self.file) if self.file else ""

    def data(self) -> Any:
        """The content of the file, not validated.

        Raises:
            InputError: it cannot be read or is not valid YAML.
        """
        if self.file is None:
            return {"name": self.name, "story": "", **self.table}
        from cuenv.core.yaml_read import load  # noqa: PLC0415 - YAML is read only for profiles

        return load(self.text(), path_text(self.file))

    def read(self) -> Request:
        """The profile.

        Raises:
            InputError: it cannot be read or is not valid; all faults at once.
        """
        return parse(self.data(), path_text(self.file) if self.file else self.source, self.path)


def folder() -> Path:
    """The folder of the shipped profiles."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT


def shipped_names() -> tuple[str, ...]:
    """The names of the shipped profiles."""
    return tuple(sorted(path.stem for path in folder().glob("*.yml")))


def own_folder(project: Configuration | None) -> Path | None:
    """The project's folder of profiles, if the settings name one."""
    named = project.settings["profile-dir"].value if project else None
    return expand_home(named) if isinstance(named, str) else None


def places(project: Configuration | None = None) -> tuple[ProfilePlace, ...]:
    """Every named profile in the order of lookup: the first with a name counts."""
    found: list[ProfilePlace] = []
    if project:
        for name, table in project.profiles.items():
            path = f"{project.prefix}.profiles.{name}".removeprefix(".")
            origin = f"{project.path}: {path}"
            found.append(ProfilePlace(name=name, origin=origin, table=table, source=project.path, path=path))
    own = own_folder(project)
    for file in (own / name for name in names_in(own) if name.endswith(_ENDINGS)) if own else ():
        found.append(ProfilePlace(name=file.stem, origin=path_text(file), file=file))
    for name in shipped_names():
        found.append(ProfilePlace(name=name, origin=SHIPPED, file=folder() / f"{name}.yml"))
    return tuple(found)


def find_profile(name_or_path: str, project: Configuration | None = None) -> ProfilePlace:
    """The place of a profile: a file, or the first profile with that name.

    Raises:
        UsageError: there is no such profile.
    """
    path = Path(name_or_path)
    if "/" in name_or_path or path.suffix in _ENDINGS:
        return ProfilePlace(name=path.stem, origin=path_text(path), file=path)
    known = places(project)
    found = next((place for place in known if place.name == name_or_path), None)
    if found is None:
        names = ", ".join(dict.fromkeys(place.name for place in known))
        file = next((f"./{name}" for name in (name_or_path, f"{name_or_path}.yml") if is_file(name)), None)
        message = f"no profile has the name {name_or_path!r}; choose from {names}"
        hint = f"to use the file in this folder: {shlex.quote(file)}" if file else "a file works as well: ./team.yml"
        raise UsageError(message, hint=hint)
    return found


def read_profile(name_or_path: str, project: Configuration | None = None) -> Request:
    """Read a profile from a file, or by the name of a project's or shipped profile.

    Raises:
        UsageError: there is no such profile.
        InputError: it is not valid.
    """
    return find_profile(name_or_path, project).read()
