"""Lists of requirements (``-r``, ``-c``) that the pip part of an environment file names, read in place of those lines.

A list may name others. One that lies outside of the project is not read: a stranger's file must not choose which of
our files are sent, line by line, to an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cuenv.core.errors import CuenvError
from cuenv.core.io.files import exists, is_file, real_path, relative_path
from cuenv.core.io.files import read_text as text_of
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.pip_lines import logical_lines

_NAMES = regex(r"\s*(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(?P<file>\S.*?)\s*(?:\s#.*)?")
_DEPTH = 10
_FILES = 50
_LINES = 10_000
_BYTES = 1 << 20


def with_lists(spec: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
    """The environment with the lines of the lists that its pip part names.

    Args:
        folder: where the file lies; pip is run there.
    """
    if not any(_NAMES.fullmatch(text) for text in spec.pip):
        return spec
    reader = _Lists(folder)
    lines = dict.fromkeys(reader.lines(spec.pip, folder, ()))
    return replace(
        spec,
        pip=tuple(lines),
        constraints=tuple(dict.fromkeys(reader.constraints)),
        constrained=tuple(dict.fromkeys(reader.constrained)),
        unread=tuple(reader.unread.items()),
        listed=spec.pip,
    )


class _Lists:
    def __init__(self, folder: Path) -> None:
        around = [folder.absolute(), *folder.absolute().parents]
        self.root = real_path(next((item for item in around if exists(item / ".git")), folder))
        self.folder = folder
        self.constraints: list[str] = []
        self.constrained: list[str] = []
        self.unread: dict[str, str] = {}
        self.files = 0
        self.count = 0

    def lines(self, texts: Iterable[str], base: Path, above: tuple[str, ...]) -> Iterator[str]:
        """The lines, those of a list in the place of the line that names it."""
        for text in texts:
            found = _NAMES.fullmatch(text)
            if not found:
                self.count += 1
                yield text
                continue
            name = found["file"].strip("'\"")
            file = base / name
            if "://" not in name and real_path(file) in above:
                continue  # a list that names itself says nothing new
            why = self._why_not(name, file, above)
            inner: list[str] = []
            if not why:
                try:
                    inner = [line for _, line in logical_lines(text_of(file, limit=_BYTES))]
                except CuenvError as error:
                    why = f"it cannot be read: {error.message}"
            if why:
                option = "-c" if found[1] in ("-c", "--constraint") else "-r"
                shown = f"{option} {name if '://' in name else relative_path(file, self.folder)}"
                self.unread[shown] = why
                yield shown
                continue
            self.files += 1
            deeper = self.lines(inner, file.parent, (*above, real_path(file)))
            if found[1] in ("-c", "--constraint"):
                self.constrained.append(f"-c {relative_path(file, self.folder)}")
                for line in deeper:
                    if line.startswith("-"):
                        yield line
                    else:
                        self.constraints.append(line)
            else:
                yield from deeper

    def _why_not(self, name: str, file: Path, above: tuple[str, ...]) -> str:
        """Why a list is not read; empty where it is."""
        if "://" in name:
            return "the list is at a URL"
        real = real_path(file)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            return "the list is outside the folder of the environment file"
        if not is_file(file):
            return "the list does not exist"
        if len(above) >= _DEPTH or self.files >= _FILES or self.count > _LINES:
            return f"there are more than {_DEPTH} lists within each other, {_FILES} lists or {_LINES} lines"
        return ""
