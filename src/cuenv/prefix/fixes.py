"""The commands that repair an installed environment, for the conda client on this machine; a test runs each of them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable

from packaging.version import Version

from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.knowledge.rows import Extension
from cuenv.prefix.cuda_files import cuda_release_of
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.resolver.wheels import INDEX
from cuenv.solve.model import LockedPackage

_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VERSION = regex(r"[A-Za-z0-9][A-Za-z0-9._!+-]*")
_URL = regex(r"(?:https?|file)://[!-~]+")
_CHANNEL = regex(r"[A-Za-z0-9_][A-Za-z0-9._/:+~-]*")
"""What may appear in a command: a name from a forged record could be an option."""
_LOCAL = regex(r"\+(cu[0-9]{3}|cpu)$")
_OF_PYTORCH = frozenset({"torch", "torchvision", "torchaudio"})
"""The packages on PyTorch's indexes, one index for each CUDA release; their versions end like ``+cu128``."""
_NVIDIA = ("cuda-", "libcu", "libnv", "libnpp", "cudnn", "nccl")
REMAKE = "create the environment again from its lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOwner:
    """The conda package or the distribution that a file belongs to."""

    package: LockedPackage | None = None
    wheel: Wheel | None = None


def pip_command(prefix: Prefix, *words: str) -> str:
    """A command for the environment's own pip, or for uv if the environment has no pip."""
    python = f"{prefix.path}/bin/python"
    if prefix.wheel("pip"):
        return shlex.join([python, "-m", "pip", *words])
    verb, *rest = (word for word in words if word != "-y")
    return shlex.join(["uv", "pip", verb, "--python", python, *rest])


def reinstall_wheel(prefix: Prefix, wheel: Wheel) -> str:
    """The command that installs a distribution again in the same release, without its requirements."""
    if wheel.url and _URL.fullmatch(wheel.url):
        asked = wheel.url
    elif _VERSION.fullmatch(wheel.version):
        asked = f"{wheel.name}=={wheel.version}"
    else:
        return pip_command(prefix, "install", "--force-reinstall", "--no-deps", wheel.name)
    return pip_install(prefix, asked, index=wheel.version)


def pip_install(prefix: Prefix, *asked: str, index: str = "") -> str:
    """The command that installs exact distributions over any installed ones, without their requirements.

    Args:
        index: a version whose local part names the PyTorch index (``2.9.1+cu128``).
    """
    local = _LOCAL.search(index) if _OF_PYTORCH.issuperset(re.split("[=< >]", one)[0] for one in asked) else None
    where = ("--index-url", f"{INDEX}{local[1]}") if local else ()
    return pip_command(prefix, "install", "--force-reinstall", "--no-deps", *where, *asked)


def restore_package(package: LockedPackage, prefix: Prefix) -> str:
    """The command that installs exactly one conda package by its URL, without solving.

    conda skips a URL that is recorded as installed, even with ``--force-reinstall``, so the package is removed first;
    micromamba installs it again.
    """
    named = _URL.fullmatch(package.url) and _NAME.fullmatch(package.name)
    if not named or (prefix.remake and not prefix.client):
        return prefix.remake or REMAKE
    client = prefix.client or "conda"
    if client == "micromamba":
        return shlex.join([client, "install", "-y", "--force-reinstall", "-p", prefix.path, package.url])
    there = prefix.package(package.name)
    install = shlex.join([client, "install", "-y", "-p", prefix.path, package.url])
    if there and (there.version, there.build) == (package.version, package.build):
        return f"{shlex.join([client, 'remove', '-y', '--force', '-p', prefix.path, package.name])} && {install}"
    return install


def remove_package(name: str, prefix: Prefix) -> str:
    """The command that removes one conda package, but not the packages that depend on it."""
    if not _NAME.fullmatch(name) or (prefix.remake and not prefix.client):
        return prefix.remake or REMAKE
    return shlex.join([prefix.client or "conda", "remove", "-y", "--force", "-p", prefix.path, name])


def reinstall_owner(owner: FileOwner | None, prefix: Prefix) -> str | None:
    """The command that reinstalls the package of a missing or damaged file; ``None`` if the file has no owner."""
    if owner and owner.package:
        return restore_package(owner.package, prefix)
    return reinstall_wheel(prefix, owner.wheel) if owner and owner.wheel else None


def conda_install(prefix: Prefix, name: str) -> str:
    """The command that installs a conda package in the version that matches the installed ones.

    If the package is recorded as installed, it has lost a file, and the command restores it.
    """
    own = prefix.package(name)
    return restore_package(own, prefix) if own else conda_install_specs(prefix, _matching_spec(name, prefix))


def conda_install_specs(prefix: Prefix, *specs: str, again: bool = False) -> str:
    """The command that installs conda packages by their specs from the channels of the environment.

    It names the channels, because a new conda has none, and sets the CUDA version, because a solver on a machine
    without GPU would choose CPU builds.

    Args:
        again: whether packages that already match are reinstalled.
    """
    channels = _installed_channels(prefix)
    words = [prefix.client or "conda", "install", "-y", *(["--force-reinstall"] if again else []), "-p", prefix.path]
    words += ["--override-channels", *(word for channel in channels for word in ("-c", channel))]
    words += ["--strict-channel-priority"] if len(channels) > 1 else []
    return f"{cuda_override(prefix)}{shlex.join([*words, *(_with_channel(spec, prefix) for spec in specs)])}"


def conda_install_with_torch(prefix: Prefix, *names: str) -> str:
    """The command that installs conda packages in the releases that the environment's torch depends on."""
    torch = prefix.package("pytorch")
    fixed = torch and _VERSION.fullmatch(torch.version) and _VERSION.fullmatch(torch.build)
    asked = [f"pytorch={torch.version}={torch.build}"] if torch and fixed else []
    return conda_install_specs(prefix, *names, *(asked or ([] if names else ["pytorch"])), again=True)


def cuda_override(prefix: Prefix) -> str:
    """The assignment of CONDA_OVERRIDE_CUDA for an environment, with a space behind it; empty without CUDA."""
    found = cuda_release_of(prefix)
    return f"CONDA_OVERRIDE_CUDA={found[0]} " if found else ""


def _installed_channels(prefix: Prefix) -> list[str]:
    """The channels of the installed packages; the channel of most packages comes last."""
    counts = _channel_counts(prefix.conda)
    return sorted(counts, key=counts.__getitem__) or ["conda-forge"]


def _channel_counts(packages: Iterable[LockedPackage]) -> Counter[str]:
    return Counter(package.channel_name for package in packages if _CHANNEL.fullmatch(package.channel_name))


def _matching_spec(name: str, prefix: Prefix) -> str:
    """The spec of a missing package: in the version of its companion package, otherwise of the CUDA release."""
    base, cuda = name.removesuffix("-dev"), cuda_release_of(prefix)
    sibling = next((item for item in map(prefix.package, (base, f"lib{base}")) if item), None)
    if sibling and _VERSION.fullmatch(sibling.version):
        return f"{name}={sibling.version}"
    return f"{name}={cuda[0]}" if cuda and name.startswith("cuda-") else name


def _with_channel(spec: str, prefix: Prefix) -> str:
    """The spec of an NVIDIA package with the channel of the CUDA packages, if the environment has several channels."""
    if len(_installed_channels(prefix)) < 2 or not spec.startswith(_NVIDIA):
        return spec
    counts = _channel_counts(package for package in prefix.conda if package.name.startswith("cuda-"))
    home = max(counts, key=counts.__getitem__, default=None)
    return f"{home}::{spec}" if home else spec


def rebuild_for_torch(
    prefix: Prefix, name: str, torch: Version | None, rows: Iterable[Extension], pins: Callable[[Wheel], bool]
) -> str:
    """The command that installs a build of a library for the torch of the environment.

    The release is taken from the tables; otherwise pip finds it if its releases pin torch; otherwise the library is
    built from source, because the newest wheel is made for the newest torch.

    Args:
        pins: whether a distribution pins one release of torch.
    """
    wheel, mine = prefix.wheel(name), prefix.wheel("torch")
    if prefix.package(name) and (wheel is None or (wheel.conda and not wheel.replaced)):  # Python finds conda's
        return conda_install_with_torch(prefix, name)
    local = mine.version if mine else ""
    release = _release_for_torch(name, torch, rows)
    if release:
        return pip_install(prefix, f"{name}=={release}", index=local)
    if wheel and mine and pins(wheel) and _VERSION.fullmatch(mine.version):
        return pip_command(prefix, "install", "--upgrade", name, f"torch=={mine.version}")
    number = wheel.version.partition("+")[0] if wheel else ""
    asked = f"{name}=={number}" if _VERSION.fullmatch(number) else name
    anew = ("--force-reinstall", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", name)
    return pip_command(prefix, "install", *anew, asked)


def _release_for_torch(name: str, torch: Version | None, rows: Iterable[Extension]) -> Version | None:
    """The newest release of a library whose wheels are made for exactly this torch release."""
    if torch is None:
        return None
    fit = [row for row in rows if row.package == name and "wheel" in row.comes and row.torch and row.releases]
    exact = [row for row in fit if row.torch and row.torch.first and row.torch.below == Version(f"{row.torch.first}.1")]
    public = Version(torch.public)
    return max((row.releases[-1] for row in exact if row.torch and row.torch.admits(public)), default=None)
