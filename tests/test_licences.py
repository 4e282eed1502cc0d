"""The licence check of `nox -s audit`: what is installed here passes, and a licence that is not allowed does not."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from runpy import run_path
from typing import NamedTuple

import pytest

from cases import collect

SCRIPT = Path(__file__).parents[1] / ".ci" / "licences.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="not in a source distribution")


class Checked(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def checked(name: str, folder: Path | None = None) -> Checked:
    """What the script prints and ends with; a folder may hold more distributions."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        if folder:
            patch.syspath_prepend(folder)
        code = run_path(str(SCRIPT))["main"](name)
    return Checked(code, out.getvalue(), err.getvalue())


def test_everything_that_cuenv_requires_may_be_used() -> None:
    done = checked("cuenv")
    assert done.returncode == 0, done.stdout
    assert "\nok  py-rattler " in done.stdout
    assert "\nok  conda-lock " in done.stdout
    assert "clustershell" not in done.stdout
    assert done.stdout.splitlines()[-1].endswith(", 0 not allowed")


def test_what_an_extra_brings_may_be_a_library_under_the_lgpl(tmp_path: Path) -> None:
    """The extra `fleet` alone brings ClusterShell; cuenv itself requires nothing of that licence."""
    folders = {"thing": "Provides-Extra: fleet\nRequires-Dist: other; extra == 'fleet'\n", "other": ""}
    for name, more in folders.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        licence = "MIT" if name == "thing" else "LGPL-2.1-or-later"
        text = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nLicense-Expression: {licence}\n{more}"
        (folder / "METADATA").write_text(text)
    assert checked("thing[fleet]", tmp_path).returncode == 0
    assert "ok  other 1.0" in checked("thing[fleet]", tmp_path).stdout
    assert checked("other", tmp_path).returncode == 1


@collect(
    ("lines", "code"),
    [
        (["License-Expression: MIT"], 0),
        (["License-Expression: Apache-2.0 OR GPL-2.0-or-later"], 0),
        (["License-Expression: MIT AND GPL-3.0-only"], 1),
        (["License-Expression: GPL-3.0-only"], 1),
        (["License: The MIT License (MIT)"], 0),
        (["Classifier: License :: OSI Approved :: BSD License"], 0),
        (["Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)"], 1),
        (["License: GNU GPL, with a MIT part"], 1),
        ([], 1),
    ],
)
def test_a_licence_that_is_not_allowed_or_not_said_is_refused(tmp_path: Path, lines: list[str], code: int) -> None:
    folder = tmp_path / "thing-1.0.dist-info"
    folder.mkdir()
    text = "\n".join(["Metadata-Version: 2.4", "Name: thing", "Version: 1.0", *lines])
    (folder / "METADATA").write_text(f"{text}\n")
    done = checked("thing", tmp_path)
    assert done.returncode == code, done.stdout
    assert done.stdout.startswith("NO  thing 1.0: " if code else "ok  thing 1.0: ")


def test_what_is_required_counts_and_what_is_not_installed_is_said(tmp_path: Path) -> None:
    for name, more in (("thing", "Requires-Dist: other\n"), ("other", "License-Expression: SSPL-1.0\n")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{more}")
    assert "NO  other 1.0: SSPL-1.0" in checked("thing", tmp_path).stdout
    (tmp_path / "other-1.0.dist-info" / "METADATA").unlink()
    (tmp_path / "other-1.0.dist-info").rmdir()
    gone = checked("thing", tmp_path)
    assert gone.returncode == 1
    assert "other is not installed" in gone.stderr
