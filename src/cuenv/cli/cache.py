"""``cuenv cache``: info, clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvGroup, output_options
from cuenv.cli.defaults import setting_value
from cuenv.cli.output import emit_json, emit_lines, say
from cuenv.core.errors import UsageError
from cuenv.core.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from typing_extensions import Unpack

    from cuenv.cli.documents import CacheDocument, CacheKind
    from cuenv.cli.values import OutputValues
    from cuenv.solve.io.cache import Stored


@click.group("cache", cls=CuenvGroup)
def command() -> None:
    """Show where the cache is, and its size by kind.

    \b
    Examples:
      cuenv cache info
      cuenv cache clean
    """


@command.command("info", short_help="show the folder and its size by kind")
@output_options
def _info(**values: Unpack[OutputValues]) -> None:
    """Show where the cache is, and its size by kind.

    \b
    Examples:
      cuenv cache info
      cuenv cache info --json
    """
    from cuenv.solve.io.cache import stored  # noqa: PLC0415 - not needed for --help

    folder = _folder()
    found = stored(folder)
    if values["as_json"]:
        emit_json(_plain(folder, found))
        return
    from cuenv.core.io.files import is_folder, path_text  # noqa: PLC0415 - as above

    emit_lines([f"cache     {path_text(folder)}{'' if is_folder(folder) else ': does not exist yet'}", *_lines(found)])
    if any(item.files for item in found):
        say(["hint: empty it: cuenv cache clean"], quiet=values["quiet"])


@command.command("clean", short_help="remove everything from the cache, or some kinds")
@click.argument("kinds", nargs=-1, metavar="[repodata|archives|pkgs]...")
@click.option("--dry-run", is_flag=True, help="Remove nothing, and show what would be removed.")
@output_options
def _clean(kinds: tuple[str, ...], *, dry_run: bool, **values: Unpack[OutputValues]) -> None:
    """Remove what is in the cache, or only some kinds of it.

    Nothing else is touched: a folder that cuenv did not make, a home folder, and what lies behind a link are
    refused. Installed environments stay complete. While another cuenv uses the cache, nothing is removed.

    \b
    Examples:
      cuenv cache clean
      cuenv cache clean repodata
      cuenv cache clean --dry-run
    """
    from cuenv.core.io.files import is_folder, path_text  # noqa: PLC0415 - as above
    from cuenv.solve.io.cache import KINDS, clean, refuse_odd, stored  # noqa: PLC0415 - as above

    wrong = next((kind for kind in kinds if kind not in KINDS), None)
    if wrong is not None:
        raise UsageError(f"unknown kind {wrong!r}; choose from {', '.join(KINDS)}", hint="cuenv cache info")
    wanted = [kind for kind in KINDS if kind in (kinds or KINDS)]
    folder = _folder()
    if dry_run:
        if is_folder(folder):
            refuse_odd(folder)
        gone: tuple[Stored, ...] = tuple(item for item in stored(folder) if item.kind in wanted)
    else:
        gone = clean(folder, wanted)
    if values["as_json"]:
        emit_json({**_plain(folder, gone), "removed": not dry_run})
        return
    if not any(item.files for item in gone):
        emit_lines([f"cache     {path_text(folder)}: nothing to remove"])
        return
    emit_lines([f"{'would remove' if dry_run else 'removed'} from {path_text(folder)}:", *_lines(gone)])


def _folder() -> Path:
    from cuenv.solve.io.sources import Sources  # noqa: PLC0415 - as above

    return replace(Sources(), cache=setting_value("cache-dir") or "").cache_folder()


def _lines(found: Iterable[Stored]) -> list[str]:
    from cuenv.solve.io.cache import KINDS  # noqa: PLC0415 - not needed for --help
    from cuenv.solve.io.unpacking import readable_size  # noqa: PLC0415 - as above

    rows = [(item.kind, readable_size(item.size), f"{item.files} files: {KINDS[item.kind]}") for item in found]
    return [f"{kind:<8}  {size:>8}  {what}" for kind, size, what in rows]


def _plain(folder: Path, found: Iterable[Stored]) -> CacheDocument:
    rows: list[CacheKind] = [{"kind": item.kind, "files": item.files, "bytes": item.size} for item in found]
    return {"schema": "cuenv/cache/1", "folder": str(folder), "kinds": rows, "bytes": sum(row["bytes"] for row in rows)}
