"""Make the hook of an environment and install it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.io.files import is_folder
from cuenv.core.record import dataclass, replace
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts, without_environment
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.files import read_lock, recorded_host
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.hooks import ENDINGS, Scripts, write_hook
from cuenv.prefix.io.prefix import find_prefix
from cuenv.prefix.io.toolchain import find_unlinked, library_folders, nvccs_in, read_nvcc, target_folders, wheel_folders
from cuenv.prefix.toolchain.build_checks import targets_of
from cuenv.prefix.toolchain.hook import Hook, activate_script, arch_list, deactivate_script, export_lines


@dataclass(frozen=True, kw_only=True)
class EnvironmentHook:
    """The hook of an environment as scripts, and notes on what it leaves out."""

    prefix: Prefix
    hook: Hook
    # the scripts by file ending, ``sh`` and ``fish``. An environment that is not conda's sources no scripts, so these
    # are lines to evaluate, and the script that restores is empty
    scripts: Mapping[str, Scripts]
    notes: tuple[str, ...] = ()


def make_hook(path: Path, options: HostOptions, knowledge: Knowledge, *, lock: Path | None = None) -> EnvironmentHook:
    """Make the hook of an environment for the GPUs of a host.

    Args:
        options: the host whose GPUs extensions are built for; this machine by default.
        lock: if the options name no host, the host for which this lock was made is taken.

    Raises:
        InputError: it is not an environment, holds nothing of CUDA to build with, or its path cannot stand in a list.
    """
    prefix = find_prefix(path)
    if ":" in prefix.path:
        raise InputError(f"{path}: CPATH cannot contain a path with a colon", hint="move the environment")
    facts = _facts(without_environment(options, prefix.path), knowledge, lock)
    if prefix.kind == "conda":
        places = target_folders(prefix, facts.platform)
    else:
        places = tuple(place for place in wheel_folders(prefix) if is_folder(f"{place}/include"))
    nvccs = nvccs_in(prefix)
    if not places and not nvccs:
        message = f"{path} has neither nvcc nor CUDA headers for builds"
        raise InputError(message, hint=f"cuenv check --prefix {shlex.quote(str(path))}")
    home = nvccs[0].removesuffix("/bin/nvcc") if nvccs else prefix.path if prefix.kind == "conda" else None
    able = targets_of(read_nvcc(home or "", "the environment", running=False), knowledge) if nvccs else ()
    archs, notes = arch_list(facts.capabilities, able)
    if not facts.capabilities:
        notes = ("no GPU is known, so the hook does not set TORCH_CUDA_ARCH_LIST; name the GPUs with --gpu",)

    def there(*names: str) -> tuple[str, ...]:
        found = (f"{place}/{name}" for place in places for name in names)
        return tuple(folder.removeprefix(f"{prefix.path}/") for folder in found if is_folder(folder))

    hook = Hook(
        home=None if home is None else home.removeprefix(prefix.path).lstrip("/"),
        includes=there("include", "include/cccl"),  # nvcc of CUDA 13 knows CCCL, and a C++ compiler does not
        libraries=there("lib", "lib/stubs"),  # -lcuda is found among the stubs without a driver
        arch_list=archs,
    )
    folders = [*library_folders(home), *(f"{prefix.path}/{folder}" for folder in hook.libraries)]
    folders += [f"{prefix.path}/lib"] if prefix.kind == "conda" else []
    notes += tuple(_missing_link_notes(find_unlinked("cudart", folders)))
    scripts = {shell: Scripts(activate_script(hook, shell), deactivate_script(shell)) for shell in ENDINGS}
    if prefix.kind != "conda":
        scripts = {shell: Scripts(export_lines(hook, prefix.path, shell), "") for shell in ENDINGS}
    return EnvironmentHook(prefix=prefix, hook=hook, scripts=scripts, notes=notes)


def _missing_link_notes(file: str | None) -> Iterator[str]:
    """The note that ``-lcudart`` finds no library: NVIDIA's wheels only contain ``libcudart.so.13``."""
    if file:
        folder, _, name = file.rpartition("/")
        link = shlex.join(["ln", "-s", name, f"{folder}/libcudart.so"])
        yield f"-lcudart finds no libcudart.so, so builds that need it cannot link; to correct this: {link}"


def _facts(options: HostOptions, knowledge: Knowledge, lock: Path | None) -> HostFacts:
    facts = host_facts(options, knowledge)
    if lock is None or options.given:
        return facts
    recorded = recorded_host(read_lock(lock), facts, knowledge)
    # The lock may be for another platform alone; here it is about this machine's folders.
    return replace(recorded, platform=facts.platform) if recorded else facts


def install_hook(made: EnvironmentHook) -> tuple[Path, ...]:
    """Write a hook into its environment and return the files that changed.

    Raises:
        InputError: the environment sources no scripts, or cuenv did not write a file with that name.
        OutsideError: a file cannot be written.
    """
    if made.prefix.kind != "conda":
        raise InputError(
            f"{made.prefix.path} is a {made.prefix.kind} environment, which sources no scripts when it is activated",
            hint=f'eval "$(cuenv hook --prefix {shlex.quote(made.prefix.path)} --print)"',
        )
    return write_hook(Path(made.prefix.path), made.scripts)
