"""Run probes with the Python of an environment, in an activated shell and a temporary folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cuenv.core.io.files import DATA, is_file, is_folder, private_folder
from cuenv.core.io.process import Completed, run, which
from cuenv.core.record import dataclass
from cuenv.core.urls import printable
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.activation import stored_variables
from cuenv.prefix.probes import ProbeOutcome, read_answer

_PROBES = Path(DATA, "probes")
_NAMES = {
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_MODULE_LOADING", "CUDA_CACHE_PATH"),
    *("CUDAHOSTCXX", "CC", "CXX", "CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "MAX_JOBS"),
    *("TORCH_CUDA_ARCH_LIST", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE"),
}
_BEGINNINGS = ("NCCL_", "NVIDIA_", "PYTORCH_", "BNB_", "DS_")
_USER_NAMES = ("USER", "LOGNAME")
_ACTIVATE = """for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
[ -r "$script" ] && . "$script" 1>&2
done
exec "$@"
"""

_CRASH, _THREAD = "Fatal Python error", ("Thread 0x", "Current thread 0x")  # the first words of Python's faulthandler

_LINES, _WIDTH = 12, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSetup:
    """The interpreter, the folder and the variables with which probes run."""

    python: str
    # the command in front of the interpreter, which runs conda's activation scripts; empty without scripts
    shell: tuple[str, ...]
    folder: str  # a temporary folder for extensions and caches
    given: Mapping[str, str]  # the user's variables that are passed to a probe
    more: Mapping[str, str]  # all its variables except PATH, HOME and LD_LIBRARY_PATH
    environ: Mapping[str, str]  # the variables from which these three are taken


@contextmanager
def probe_setup(prefix: Prefix, environ: Mapping[str, str]) -> Iterator[ProbeSetup]:
    """Prepare to run the probes of an environment; the temporary folder is removed at the end.

    Raises:
        OutsideError: no folder can be made.
    """
    given = {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_BEGINNINGS)}
    path = f"{prefix.path}/bin:{environ.get('PATH', os.defpath)}"
    with private_folder("run") as folder:
        scratch = str(folder)
        private = {
            "TMPDIR": scratch,
            "TORCH_EXTENSIONS_DIR": f"{scratch}/extensions",
            "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
            "TRITON_CACHE_DIR": f"{scratch}/triton",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        unsaid = {name: environ[name] for name in _USER_NAMES if name in environ}
        yield ProbeSetup(
            python=_python(prefix),
            shell=_activating_shell(prefix, environ),
            folder=scratch,
            given=given,
            more={**unsaid, **given, **_activation_variables(prefix), "PATH": path, **private},
            environ=environ,
        )


def run_probe(name: str, place: ProbeSetup, timeout: float) -> ProbeOutcome:
    """Run one probe and return its outcome; a crash or a timeout is an outcome, too.

    Args:
        name: the name of the probe, such as ``torch``.
        timeout: the seconds after which it is stopped together with its child processes.
    """
    if not is_file(place.python) or not os.access(place.python, os.X_OK):
        return ProbeOutcome(answer=None, reason=f"{place.python} cannot be started: it is not a program")
    file = str(_PROBES / f"probe_{name}.py")
    begun = time.monotonic()
    done = run(
        [*place.shell, place.python, "-B", "-X", "faulthandler", file, f"{timeout:g}"],
        timeout,
        place.environ,
        more=place.more,
        folder=place.folder,
    )
    return ProbeOutcome(
        answer=read_answer(done.out),
        reason=done.reason,
        signal=_signal(done),
        late=done.late,
        last=_last_lines(done),
        seconds=time.monotonic() - begun,
    )


def _python(prefix: Prefix) -> str:
    names = ("python", "python3", *((f"python{prefix.python}",) if prefix.python else ()))
    found = next((name for name in names if is_file(f"{prefix.path}/bin/{name}")), "python")
    return f"{prefix.path}/bin/{found}"


def _activating_shell(prefix: Prefix, environ: Mapping[str, str]) -> tuple[str, ...]:
    bash = which("bash", environ)
    if prefix.kind != "conda" or bash is None or not is_folder(f"{prefix.path}/etc/conda/activate.d"):
        return ()
    return (bash, "--noprofile", "--norc", "-c", _ACTIVATE, "bash")


def _activation_variables(prefix: Prefix) -> dict[str, str]:
    if prefix.kind == "venv":
        return {"VIRTUAL_ENV": prefix.path}
    if prefix.kind != "conda":
        return {}
    own = {"CONDA_PREFIX": prefix.path, "CONDA_DEFAULT_ENV": Path(prefix.path).name, "CONDA_SHLVL": "1"}
    return {**stored_variables(Path(prefix.path)), **own}


def _signal(done: Completed) -> str | None:
    if done.code is None or done.code >= 0:
        return None
    try:
        return signal.Signals(-done.code).name
    except ValueError:
        return f"signal {-done.code}"


def _last_lines(done: Completed) -> tuple[str, ...]:
    """The last lines on standard error; after a crash or a hang, those of Python's faulthandler."""
    lines = [line.rstrip() for line in done.err.splitlines() if line.strip()]
    told = [number for number, line in enumerate(lines) if line.startswith(_CRASH)]
    threads = [number for number, line in enumerate(lines) if line.startswith(_THREAD)]
    begun = threads[-1:] if done.late else told[:1]  # the main thread is told last
    chosen = lines[begun[0] :][:_LINES] if begun else lines[-_LINES:]
    return tuple(printable(line[:_WIDTH]) for line in chosen)
