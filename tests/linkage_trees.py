"""Small real libraries, and what the machine's own loader makes of them: the oracle of the linkage tests."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

GCC = shutil.which("gcc")
LD = shutil.which("ld")
LOADER = next((path for path in ("/lib64/ld-linux-x86-64.so.2",) if Path(path).exists()), None)

needs_gcc = pytest.mark.skipif(GCC is None or LD is None, reason="no gcc here to build small libraries with")
needs_loader = pytest.mark.skipif(
    GCC is None or LD is None or LOADER is None, reason="no gcc, or no glibc loader for x86-64 here"
)


_MADE: dict[tuple[object, ...], bytes] = {}


def compile_library(
    path: Path,
    source: str = "",
    *,
    soname: str | None = None,
    needs: Sequence[Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    versions: str | None = None,
    more: Sequence[str] = (),
    executable: bool = False,
) -> Path:
    """Build a library with gcc; ``needs`` are linked against. What was built alike before is copied."""
    path.parent.mkdir(parents=True, exist_ok=True)
    linked = tuple((item.name, item.read_bytes()) for item in needs)
    key = (path.name, source, soname, linked, rpath, runpath, versions, tuple(more), executable)
    if key in _MADE:
        path.write_bytes(_MADE[key])
        path.chmod(0o755)
        return path
    code = path.with_suffix(".c")
    code.write_text(source)
    command = [GCC or "gcc", "-o", str(path), str(code), "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"]
    command += [] if executable else ["-shared", "-fPIC", "-nostdlib"]
    if soname:
        command.append(f"-Wl,-soname,{soname}")
    if versions:
        script = path.with_suffix(".map")
        script.write_text(versions)
        command.append(f"-Wl,--version-script={script}")
    if rpath is not None:
        command.append(f"-Wl,--disable-new-dtags,-rpath,{rpath}")
    if runpath is not None:
        command.append(f"-Wl,--enable-new-dtags,-rpath,{runpath}")
    command += [*more, *(str(item) for item in needs)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    code.unlink()
    data = path.read_bytes()
    if not any(str(item.parent).encode() in data for item in (path, *needs)):  # then it is of its place
        _MADE[key] = data
    return path


def traced(program: Path, environ: Mapping[str, str], *, cwd: Path) -> list[tuple[str, str | None]]:
    """Each library that the machine's loader maps for a program: the name and the path, ``None`` when missing."""
    variables = {**environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    done = subprocess.run([program], env=variables, cwd=cwd, capture_output=True, text=True, check=False)
    found: list[tuple[str, str | None]] = []
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"\t(\S+)(?: => (not found|\S+))?(?: \(0x[0-9a-f]+\))?", line)
        assert match, line
        name, path = match[1], match[2] or match[1]
        if "vdso" not in name:
            found.append((name, None if path == "not found" else path))
    return found


@dataclass
class Tree:
    """A random tree of folders with libraries of the same names, and a program that needs some of them."""

    root: Path
    program: Path
    environ: dict[str, str] = field(default_factory=dict)


class Linker:
    """Runs ``ld`` on an empty object: a library in some ten milliseconds."""

    def __init__(self, folder: Path) -> None:
        self.stubs = folder / "stubs"
        self.stubs.mkdir(parents=True)
        self.empty = folder / "empty.o"
        subprocess.run(
            [GCC or "gcc", "-c", "-fPIC", "-x", "c", "/dev/null", "-o", self.empty], check=True, capture_output=True
        )

    def stub(self, name: str) -> Path:
        """Something to link against that puts this name into NEEDED."""
        path = self.stubs / name
        if not path.exists():
            self._run(["-shared", "-soname", name, "-o", str(path), str(self.empty)])
        return path

    def library(self, path: Path, *, soname: str | None, needs: Sequence[str], paths: tuple[str, str] | None) -> None:
        """A library; ``paths`` is ``("rpath" or "runpath", text)``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._run([*self._common(path, needs, paths), "-shared", *(["-soname", soname] if soname else [])])

    def program(
        self, path: Path, *, needs: Sequence[str], paths: tuple[str, str] | None, more: Sequence[str] = ()
    ) -> None:
        """A program that is never run, only traced."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._run([*self._common(path, needs, paths), "-dynamic-linker", LOADER or "", "-e", "0", *more])

    def _common(self, path: Path, needs: Sequence[str], paths: tuple[str, str] | None) -> list[str]:
        arguments = ["-o", str(path), str(self.empty), "--no-as-needed", "--allow-shlib-undefined"]
        arguments += [str(self.stub(name)) for name in needs]
        if paths:
            arguments += ["--disable-new-dtags" if paths[0] == "rpath" else "--enable-new-dtags", "-rpath", paths[1]]
        return arguments

    def _run(self, arguments: Sequence[str]) -> None:
        subprocess.run([LD or "ld", *arguments], check=True, capture_output=True, text=True)


NAMES = ("liba.so.1", "libb.so.1", "libd.so.1", "libe.so.1", "libf.so.1", "libg.so.1")


class Chance:
    """Draws search paths and libraries for a random tree."""

    def __init__(self, root: Path, linker: Linker, seed: int) -> None:
        self.random, self.linker = random.Random(seed), linker
        self.folders = [root / name for name in ("p", "q", "q/lib", "r", "s/glibc-hwcaps/x86-64-v2", "s")]

    def place(self, owner: Path) -> str:
        """An entry of a search path: absolute, empty, or from ``$ORIGIN`` on."""
        folder, form = self.random.choice(self.folders), self.random.randrange(6)
        if form < 2:
            return str(folder) if form else ""
        return f"{self.random.choice(('$ORIGIN', '${ORIGIN}'))}/{os.path.relpath(folder, owner.parent)}"

    def paths(self, owner: Path) -> tuple[str, str] | None:
        """A search path for a library, or none."""
        kind = self.random.choice(("rpath", "runpath", None, None))
        return (kind, ":".join(self.place(owner) for _ in range(self.random.randint(1, 2)))) if kind else None

    def put(self, path: Path, number: int) -> None:
        """A library, a link to another folder's, one for another machine, or nothing."""
        name, fate = path.name, self.random.randrange(11)
        if fate < 6:
            needs = self.random.sample(NAMES, self.random.randint(1, 3))
            soname = self.random.choice((name, name, name, None, NAMES[number - 1]))
            self.linker.library(path, soname=soname, needs=needs, paths=self.paths(path))
        elif fate == 6:
            other = [item for item in self.folders if (item / name).is_file()]
            if other:
                path.symlink_to(self.random.choice(other) / name)
        elif fate == 7:
            data = bytearray(self.linker.stub(name).read_bytes())
            data[18] = 183  # for another machine: passed over
            path.write_bytes(data)

    def environ(self, program: Path) -> dict[str, str]:
        """LD_LIBRARY_PATH and LD_PRELOAD, or neither."""
        found = {}
        if self.random.random() < 0.6:
            entries = [self.place(program) for _ in range(self.random.randint(1, 3))]
            found["LD_LIBRARY_PATH"] = self.random.choice((":", ";")).join(entries)
        if self.random.random() < 0.3:
            listed = (NAMES[0], str(self.folders[0] / NAMES[1]), f"{NAMES[2]}:{NAMES[3]}")
            found["LD_PRELOAD"] = self.random.choice(listed)
        return found


def random_tree(root: Path, linker: Linker, seed: int) -> Tree:
    """Folders that hold copies of the same names with other search paths in them, and an odd one here and there."""
    chance = Chance(root, linker, seed)
    for folder in chance.folders:
        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(NAMES):
            chance.put(folder / name, number)
    program = root / "bin" / "program"
    own = (chance.random.choice(("rpath", "rpath", "runpath")), ":".join(chance.place(program) for _ in range(2)))
    linker.program(program, needs=chance.random.sample(NAMES, chance.random.randint(2, 4)), paths=own)
    return Tree(root=root, program=program, environ=chance.environ(program))
