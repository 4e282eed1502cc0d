"""``cuenv bundle``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, output_options
from cuenv.cli.options import channel_options, channel_sources, jobs_option, platforms_option
from cuenv.cli.output import emit_json, emit_lines, package_count, progress
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.render import report_json, report_lines

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cuenv.cli.values import BundleValues
    from cuenv.core.documents import ReportDocument
    from cuenv.install.make_bundle import Bundled


@click.command("bundle", cls=CuenvCommand)
@click.argument("path", type=PATH, default="conda-lock.yml", metavar="[LOCK]")
@click.option("--output", "-o", type=PATH, default="cuenv-bundle", metavar="DIR|FILE.tar", help="Write here.")
@platforms_option
@jobs_option
@channel_options
@output_options
def command(path: Path, **values: Unpack[BundleValues]) -> int:
    """Put all packages of a lock into one folder or tar, for machines without network.

    The bundle has the packages as local channels, the wheels, the lock, SHA256SUMS and install.sh, which installs
    with cuenv, micromamba or conda. Every file is verified. An interrupted run continues where it stopped, and an
    older bundle at -o stays until the new one is complete. The tar of the same lock always has the same bytes.

    \b
    Examples:
      cuenv bundle -o bundle.tar
      cuenv bundle conda-linux-64.lock -o /media/usb/train --mirror conda-forge=/srv/conda-forge
      sh /media/usb/train/install.sh /opt/train      on the other side
    """
    from cuenv.install.make_bundle import BundleRequest, bundle  # noqa: PLC0415 - not needed for --help

    out = values["output"]
    if out.suffix in (".gz", ".zst", ".bz2", ".xz", ".tgz", ".zip"):
        message = f"-o {out}: a bundle is a folder or a .tar file; its packages are compressed already"
        raise UsageError(message, hint="-o bundle.tar")
    request = BundleRequest(
        path=path,
        out=out,
        sources=channel_sources(values),
        environ=dict(os.environ),
        platforms=values["platforms"],
        jobs=values["jobs"],
    )
    with progress(quiet=values["quiet"]) as show:
        answer = bundle(request, show)
    if values["as_json"]:
        emit_json(_plain(answer))
    elif not answer.solutions:
        emit_lines([*report_lines(answer.report, verbose=values["verbose"]), "nothing was written"])
    elif not values["quiet"]:
        emit_lines(_lines(answer))
    return ExitCode.OK if answer.solutions else answer.report.exit


def _lines(answer: Bundled) -> list[str]:
    counts = ", ".join(f"{package_count(item)} for {item.platform}" for item in answer.solutions)
    place = shlex.quote(str(answer.out))
    if answer.out.suffix == ".tar":
        script = f"tar xf {place} && sh cuenv-bundle/install.sh PREFIX"
    else:
        script = f"sh {shlex.quote(str(answer.out / 'install.sh'))} PREFIX"
    lines = [
        f"bundled {counts}: {answer.out} ({answer.size / 1e6:.1f} MB)",
        *(
            f"left out, because no hash pins it ({item.platform}): {', '.join(one.text for one in item.aside)}"
            for item in answer.solutions
            if item.aside
        ),
        "install it without a network, with one of:",
    ]
    return [*lines, f"  cuenv install {place} --prefix PREFIX", f"  {script}"]


def _plain(answer: Bundled) -> ReportDocument:
    return {
        **report_json(answer.report),
        "bundled": bool(answer.solutions),
        "written": str(answer.out) if answer.solutions else None,
        "packages": {item.platform: len(item.packages) for item in answer.solutions},
        "pip": {item.platform: len(item.pip) for item in answer.solutions},
        "size": answer.size,
    }
