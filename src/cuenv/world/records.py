"""A locked package as rattler's record. Import this module lazily: it imports rattler."""

from __future__ import annotations

import re

from rattler import PackageRecord, RepoDataRecord
from rattler.package import BuildString

from cuenv.errors import InputError
from cuenv.lockfile import LockedPackage
from cuenv.urls import printable, redact

_BUILD_NUMBER = re.compile(r"_?(\d+)$")


def record_of(package: LockedPackage) -> RepoDataRecord:
    """The package for rattler. A lock does not keep the build number; by convention it ends the build string.

    Raises:
        InputError: a field is none: a name with spaces, a hash of the wrong length.
    """
    number = _BUILD_NUMBER.search(package.build)
    try:
        base = PackageRecord(
            package.name,
            package.version,
            BuildString.new_unchecked(package.build),
            int(number[1]) if number else 0,
            package.subdir,
            depends=list(package.depends),
            constrains=list(package.constrains),
            size=package.size,
            sha256=bytes.fromhex(package.sha256) if package.sha256 else None,
            md5=bytes.fromhex(package.md5) if package.md5 else None,
        )
        return RepoDataRecord(base, package.url.rpartition("/")[2], package.url, package.channel)
    except Exception as error:
        shown = printable(redact(f"{package.name} {package.version} {package.build} ({package.url})"))
        raise InputError(f"{shown} is no package: {printable(str(error))}") from error
