"""The registry of lock formats: one module is enough to write, install, compare, read, lint and describe a format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from channel_builder import pkg, write
from commands import HOST
from commands import inside as run
from cuenv.lockfile import formats as registry
from cuenv.lockfile.formats import formats, modules, readers

TOY = '''
"""Names and versions, line by line."""

import re

from cuenv.lockfile.formats import PLATFORM, LockFormat, LockReader
from cuenv.lockfile.formats.explicit_txt import parse
from cuenv.solve.model import Lock


def _write(file):
    return "# Written by cuenv\\nTOY\\n" + "".join(f"{item.url}#{item.md5}\\n" for item in file.solution.packages)


def _read(text, source, part):
    return Lock(channels=(), sources=(), solutions=(parse(text.replace("TOY", "@EXPLICIT"), source),))


FORMAT = LockFormat(
    file=f"{PLATFORM}.toy",
    order=9,
    purpose="for the toy client",
    write=_write,
    install=lambda file: [("toy", f"toy create {file.name} {file.folder / 'x.toy'}")],
    differences=lambda file, text: set(text.splitlines()) ^ set(_write(file).splitlines()),
)
READER = LockReader(
    file="toy",
    content=re.compile("(?m)^TOY$"),
    read=_read,
    lint=re.compile(r".*\\.toy"),
)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A format of one module, and a folder that was locked with it."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "toy_client.py").write_text(TOY)
    monkeypatch.setattr(registry, "__path__", [*registry.__path__, str(tmp_path / "more")])
    modules.cache_clear()
    write(tmp_path / "channel", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    yield tmp_path
    modules.cache_clear()


def test_a_new_format_is_one_module(toy: Path) -> None:
    file = toy / "linux-64.toy"
    made = run("lock", *HOST, "--mirror", f"conda-forge={toy / 'channel/conda-forge'}", folder=toy)
    assert made.returncode == 0, made.stderr
    assert "linux-64.toy" in made.stderr
    assert "toy create cuenv x.toy" in made.stderr
    assert made.stderr.index("conda-lock install") < made.stderr.index("toy create")
    assert "leaf-1.0" in file.read_text()
    assert run("check", *HOST, "linux-64.toy", folder=toy).returncode == 0
    assert run("lint", *HOST, folder=toy).returncode == 0
    assert "for the toy client" in run("lock", "--help", folder=toy).stdout
    file.write_text(file.read_text().replace("leaf", "evil"))
    for name in ("linux-64.toy", "conda-lock.yml"):
        assert "CU108" in run("check", *HOST, name, folder=toy).stdout, name
    again = run("lock", *HOST, "--mirror", f"conda-forge={toy / 'channel/conda-forge'}", folder=toy)
    assert again.returncode == 0
    assert "leaf" in file.read_text()


def test_formats_are_told_apart_by_their_files_and_order() -> None:
    found = formats()
    assert len({item.file for item in found}) == len({item.order for item in found}) == len(found)
    assert not found[0].per_platform
    assert found[0].differences is None
    assert all(item.differences and item.purpose for item in found[1:])
    assert found[0].file in {item.file for item in readers()}
    assert all(bool(item.again) == bool(item.program) for item in readers())


def test_what_is_not_written_beside_an_environment_file_is_loaded_only_to_be_read() -> None:
    others = modules(f"{registry.__name__}.others")
    assert [item.__name__ for item in modules() if not hasattr(item, "FORMAT")] == []
    assert [item.__name__ for item in others if hasattr(item, "FORMAT") or not hasattr(item, "READER")] == []
    assert {item.READER for item in others} < set(readers())


def test_the_page_on_lock_files_describes_no_format_that_is_gone() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "lock-files.md").read_text(encoding="utf-8")
    named = re.findall(r"^- `([^`]*lock[^`]*)` ", text, re.MULTILINE)
    assert len(named) >= 4
    assert set(named) <= {item.file for item in formats()} | {item.file for item in readers()}
