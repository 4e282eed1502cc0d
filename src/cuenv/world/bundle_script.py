"""The two files of every bundle that do not depend on its lock: the install script, and a word for people."""

from __future__ import annotations

from pathlib import Path

_SCRIPT = Path(__file__).resolve().parent.parent / "data" / "bundle" / "install.sh"

README = """An environment, whole, for a machine without network. Made by cuenv.

  sh install.sh /path/of/the/environment

It verifies every file of this folder against SHA256SUMS, then takes cuenv, micromamba or conda, whichever is on PATH.
The folder may lie anywhere. channel/ holds local channels: conda create -c file:///here/channel/conda-forge works too.
SHA256SUMS shows damage; it does not say who made the bundle: compare its own sum with the one you were told.
"""


def install_script() -> str:
    """The POSIX shell script that makes the environment from the folder it lies in."""
    return _SCRIPT.read_text(encoding="utf-8")
