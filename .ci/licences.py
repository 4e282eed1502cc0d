# ruff: noqa: INP001, T201 - a script that prints
"""The licences of what cuenv installs, from the metadata that is installed, against a list of those that are allowed.

python .ci/licences.py [NAME[EXTRA]]        exit status 1 when one is not allowed, or says nothing
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "LicenseRef-Public-Domain",
}
"""Licences that ask nothing of whoever only uses the package; MPL asks it of changed files alone."""

OF_EXTRAS = {"LGPL-2.1-or-later"}
"""Licences of libraries that cuenv runs without: who asks for the extra gets them, unchanged, in files of their own."""

SAME = {
    "apache": "Apache-2.0",
    "gnu lesser general public license v2 or later": "LGPL-2.1-or-later",
    "bsd": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mozilla public license 2.0": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "public domain": "LicenseRef-Public-Domain",
    "psf": "PSF-2.0",
    "python software foundation": "PSF-2.0",
}
"""How the texts of older metadata begin."""


def needed(name: str, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """A distribution and everything that it requires here, by normalised name.

    Raises:
        PackageNotFoundError: it is not installed, or something that it requires is not.
    """
    found: dict[str, Distribution] = {}
    todo = [(name, extras)]
    seen = set()
    while todo:
        wanted = todo.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        one = distribution(wanted[0])
        found[re.sub(r"[-_.]+", "-", wanted[0]).lower()] = one
        for text in one.requires or ():
            asked = Requirement(text)
            if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in ("", *wanted[1])):
                todo.append((asked.name, frozenset(asked.extras)))
    return found


def licence(one: Distribution) -> str:
    """What a distribution says of its licence, as an SPDX expression where it can be made one."""
    said = one.metadata
    if "License-Expression" in said:
        return said["License-Expression"]
    marks = [text.rpartition(" :: ")[2] for text in said.get_all("Classifier") or () if "License ::" in text]
    texts = [*marks, said["License"].partition("\n")[0] if "License" in said else ""]
    for text in texts:
        for start, spdx in SAME.items():
            if text.lower().removeprefix("the ").startswith(start):
                return spdx
    return " / ".join(filter(None, texts)) or "nothing"


def allowed(expression: str, *, extra: bool = False) -> bool:
    """Whether one of the alternatives of an expression asks for allowed licences alone."""
    known = ALLOWED | OF_EXTRAS if extra else ALLOWED
    return any(all(part.strip("() ") in known for part in choice.split(" AND ")) for choice in expression.split(" OR "))


def main(name: str) -> int:
    """Print every licence; 1 when one is not allowed."""
    try:
        asked = Requirement(name)
        own = needed(asked.name)
        found = needed(asked.name, frozenset(asked.extras))
    except PackageNotFoundError as error:
        print(f"{error} is not installed", file=sys.stderr)
        return 1
    refused = 0
    for package, one in sorted(found.items()):
        text = licence(one)
        fine = allowed(text, extra=package not in own)
        refused += not fine
        print(f"{'ok ' if fine else 'NO '} {package} {one.version}: {text}")
    print(f"{len(found)} packages, {refused} not allowed")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuenv[fleet]"))
