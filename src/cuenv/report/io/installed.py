"""An installed environment for a report: its device code, as `cuenv scan` reads it, and the size of each package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from cuenv.binary.data import BinaryError
from cuenv.binary.gpu_code import scan_paths
from cuenv.core.errors import Progress
from cuenv.core.record import replace
from cuenv.host.describe import host_options
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.prefix.check import PrefixCheck
from cuenv.prefix.cuda_files import as_solution
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.conda_meta import files_of
from cuenv.prefix.io.cuda_files import read_cuda_files
from cuenv.report.components import libraries
from cuenv.report.make import ReadPrefix, prefix_page
from cuenv.report.page import ReportPage, ReportSection
from cuenv.report.sizes import SizedPackage, group_of


def installed_page(
    checked: PrefixCheck, options: HostOptions, knowledge: Knowledge, say: Progress | None = None
) -> ReportPage:
    """The report on an installed environment.

    Args:
        say: told how far the scan is.
    """
    prefix = checked.prefix
    files = read_cuda_files(prefix, {row.package for row in knowledge.extensions})
    solution = as_solution(prefix, files, checked.facts.platform)
    parts = tuple(_parts(prefix, knowledge))
    return prefix_page(checked, ReadPrefix(solution, _libraries(checked, options, knowledge, say), parts), knowledge)


def _libraries(checked: PrefixCheck, options: HostOptions, knowledge: Knowledge, say: Progress | None) -> ReportSection:
    title = "Device code in each library"
    facts = checked.facts
    if not facts.capabilities:
        return ReportSection(title=title, without="No GPU of the host is known, so no library was compared with one.")
    if not options.given:  # the check may have been made for another host than this machine
        options = _as_judged(checked, options)
    try:
        scanned = scan_paths((checked.prefix.path,), options, knowledge, say=say)
    except BinaryError as error:
        return ReportSection(title=title, without=f"The files could not be read: {error.reason}.")
    picture = libraries(scanned.files, scanned.facts, checked.prefix.path)
    said = (f"{len(scanned.skipped)} files could not be read.",) if scanned.skipped else ()
    without = "" if picture else "No file of the environment has device code."
    return ReportSection(title=title, says=said, picture=picture, without=without)


def _as_judged(checked: PrefixCheck, options: HostOptions) -> HostOptions:
    words = host_options(checked.facts)
    named = list(zip(words[::2], words[1::2], strict=True))
    one = dict(named)
    return replace(
        options,
        hosts=tuple(value for flag, value in named if flag == "--host"),
        gpus=tuple(value for flag, value in named if flag == "--gpu"),
        driver=one.get("--driver"),
        glibc=one.get("--glibc"),
        platform=one.get("--platform"),
    )


def _parts(prefix: Prefix, knowledge: Knowledge) -> Iterator[SizedPackage]:
    """The packages of an environment with the size of their files; a linked file counts once."""
    seen: set[tuple[int, int]] = set()
    for package in prefix.conda:
        files = (os.path.join(prefix.path, name) for name in prefix.files.get(package.name, ()))  # noqa: PTH118 - many
        size = _bytes(files, seen)
        yield SizedPackage(package.name, package.version, size, group_of(package.name, knowledge))
    for wheel in prefix.wheels:
        if wheel.conda is None or wheel.replaced:
            size = _bytes((os.path.join(wheel.folder, name) for name in files_of(wheel)), seen)  # noqa: PTH118 - many
            yield SizedPackage(wheel.name, wheel.version, size, group_of(wheel.name, knowledge))


def _bytes(paths: Iterable[str], seen: set[tuple[int, int]]) -> int:
    total = 0
    for path in paths:
        try:
            about = os.lstat(path)
        except OSError:
            continue  # gone: the check of the packages tells it
        if (about.st_dev, about.st_ino) not in seen:
            seen.add((about.st_dev, about.st_ino))
            total += about.st_size
    return total
