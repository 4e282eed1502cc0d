"""Names that somebody else put where everybody may write: nothing of ours goes through them.

The kernel follows no link of others in a sticky folder (``protected_symlinks``), but not on every machine, and not
where a file takes its real name by ``rename``.
"""

from __future__ import annotations

import errno
import os
import stat

_MOST = 40
"""Links in one path, as for the kernel."""


class PlantedError(PermissionError):
    """Somebody else could have chosen where the bytes go."""

    says = True
    """Its text is for people."""


def refuse_planted(path: str | os.PathLike[str]) -> None:
    """Refuse to write through a link, or to a file or folder, of another user in a folder of everybody's.

    Root's are trusted, as everywhere.

    Raises:
        PlantedError: so it is.
        OSError: it cannot be looked at.
    """
    here, links = "/", 0
    rest = [*reversed(os.path.join(os.getcwd(), path).split("/"))]  # noqa: PTH109, PTH118 - no `..` is taken out
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - strings are kept
            continue
        step = f"{here.rstrip('/')}/{part}"
        links += os.path.islink(step)  # noqa: PTH114 - as above
        if not os.path.islink(step) or links > _MOST:  # noqa: PTH114 - as above
            here = step
            continue
        _judge_link(step)
        target = os.readlink(step)  # noqa: PTH115 - as above
        here = "/" if target.startswith("/") else here
        rest += reversed(target.split("/"))
    _judge_file(here)


def _judge_link(link: str) -> None:
    if _open_to_all(link) and not _trusted(os.lstat(link).st_uid):
        raise PlantedError(
            errno.EPERM, f"{link} is a link of another user in a folder that everybody may write to", link
        )


def _judge_file(path: str) -> None:
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    sticky = os.stat(os.path.dirname(path)).st_mode & stat.S_ISVTX  # noqa: PTH116, PTH120 - as above
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    kind = kinds.get(stat.S_IFMT(about.st_mode))
    if sticky and kind and _open_to_all(path) and not _trusted(about.st_uid):
        raise PlantedError(
            errno.EPERM, f"{path} is a {kind} of another user in a folder that everybody may write to", path
        )


def _open_to_all(path: str) -> bool:
    return bool(os.stat(os.path.dirname(path) or "/").st_mode & stat.S_IWOTH)  # noqa: PTH116, PTH120 - as above


def _trusted(owner: int) -> bool:
    return owner in (0, os.geteuid())
