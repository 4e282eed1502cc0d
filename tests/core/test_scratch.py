"""Private folders."""

from __future__ import annotations

import contextlib
import stat
import subprocess
import sys

from cuenv.core.io.files import private_folder


def test_a_private_folder_is_one_user_s_and_goes_again() -> None:
    with contextlib.suppress(KeyboardInterrupt), private_folder("test") as folder:
        assert folder.name.startswith("cuenv-test-")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").touch()
        raise KeyboardInterrupt
    assert not folder.exists()


def test_where_none_can_be_made_the_places_are_named() -> None:
    code = (
        "import resource\nfrom cuenv.core.errors import OutsideError\nfrom cuenv.core.io.files import private_folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"  # so ends a full disk, too
        "try:\n    with private_folder('test'):\n        pass\nexcept OutsideError as error:\n"
        "    print(error.message, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False, env={})
    assert "no temporary folder: No usable temporary directory found in ['/tmp'" in done.stdout, done.stderr
    assert done.stdout.endswith("df -h ${TMPDIR:-/tmp}\n")
