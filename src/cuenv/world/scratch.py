"""Private folders that go again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cuenv.errors import OutsideError


@contextmanager
def private_folder(purpose: str) -> Iterator[Path]:
    """A folder that only this user may enter, and that is gone afterwards.

    Args:
        purpose: a word for its name.

    Raises:
        OutsideError: none can be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"cuenv-{purpose}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise OutsideError(f"no temporary folder: {error.strerror}", hint="df -h ${TMPDIR:-/tmp}") from error
    with folder as path:
        yield Path(path)
