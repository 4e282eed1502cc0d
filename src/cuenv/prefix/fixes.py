"""The commands that mend an installed environment, for the client that is at hand; a test runs each of them."""

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
"""What may stand in a command: a name that a record made up could be an option."""
_LOCAL = regex(r"\+(cu[0-9]{3}|cpu)$")
_OF_PYTORCH = frozenset({"torch", "torchvision", "torchaudio"})
"""What PyTorch's own indexes hold, one for each CUDA release; a version from there ends like ``+cu128``."""
_NVIDIA = ("cuda-", "libcu", "libnv", "libnpp", "cudnn", "nccl")
REMAKE = "make the environment again from its lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOwner:
    """Who brought a file: a conda package by its record, or a distribution by its RECORD."""

    package: LockedPackage | None = None
    wheel: Wheel | None = None


def pip_command(prefix: Prefix, *words: str) -> str:
    """A command of an environment's own pip, which need not be the active one; uv's where the environment has none."""
    python = f"{prefix.path}/bin/python"
    if prefix.wheel("pip"):
        return shlex.join([python, "-m", "pip", *words])
    verb, *rest = (word for word in words if word != "-y")
    return shlex.join(["uv", "pip", verb, "--python", python, *rest])


def reinstall_wheel(prefix: Prefix, wheel: Wheel) -> str:
    """What installs a distribution once more as it is, and nothing that it requires."""
    if wheel.url and _URL.fullmatch(wheel.url):
        asked = wheel.url
    elif _VERSION.fullmatch(wheel.version):
        asked = f"{wheel.name}=={wheel.version}"
    else:
        return pip_command(prefix, "install", "--force-reinstall", "--no-deps", wheel.name)
    return pip_install(prefix, asked, index=wheel.version)


def pip_install(prefix: Prefix, *asked: str, index: str = "") -> str:
    """What installs exact distributions, whatever is there of them, and nothing that they require.

    Args:
        index: a version whose local part says from which of PyTorch's indexes it came (``2.9.1+cu128``).
    """
    local = _LOCAL.search(index) if _OF_PYTORCH.issuperset(re.split("[=< >]", one)[0] for one in asked) else None
    where = ("--index-url", f"{INDEX}{local[1]}") if local else ()
    return pip_command(prefix, "install", "--force-reinstall", "--no-deps", *where, *asked)


def restore_package(package: LockedPackage, prefix: Prefix) -> str:
    """The command that puts exactly one conda package into an environment: a URL is never solved for.

    conda leaves a URL alone whose record the environment holds, with ``--force-reinstall`` as well, so the record is
    removed first; micromamba installs it anew.
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
    """The command that removes one conda package and nothing that needs it."""
    if not _NAME.fullmatch(name) or (prefix.remake and not prefix.client):
        return prefix.remake or REMAKE
    return shlex.join([prefix.client or "conda", "remove", "-y", "--force", "-p", prefix.path, name])


def reinstall_owner(owner: FileOwner | None, prefix: Prefix) -> str | None:
    """What installs a package once more that lost or spoiled a file; ``None`` where nobody owns the file."""
    if owner and owner.package:
        return restore_package(owner.package, prefix)
    return reinstall_wheel(prefix, owner.wheel) if owner and owner.wheel else None


def conda_install(prefix: Prefix, name: str) -> str:
    """What brings a conda package into an environment, by name, in the version that fits what is installed.

    A package that the records hold already has lost a file: it is put back as it was.
    """
    own = prefix.package(name)
    return restore_package(own, prefix) if own else conda_install_specs(prefix, _matching_spec(name, prefix))


def conda_install_specs(prefix: Prefix, *specs: str, again: bool = False) -> str:
    """What brings conda packages in versions that the caller names, from where the environment's others came.

    The line names the channels, as a fresh conda has none, and the CUDA version, without which a solver on a machine
    without GPU takes CPU builds instead.

    Args:
        again: a package that is installed as asked for is installed once more.
    """
    channels = _installed_channels(prefix)
    words = [prefix.client or "conda", "install", "-y", *(["--force-reinstall"] if again else []), "-p", prefix.path]
    words += ["--override-channels", *(word for channel in channels for word in ("-c", channel))]
    words += ["--strict-channel-priority"] if len(channels) > 1 else []
    return f"{cuda_override(prefix)}{shlex.join([*words, *(_with_channel(spec, prefix) for spec in specs)])}"


def conda_install_with_torch(prefix: Prefix, *names: str) -> str:
    """What brings the releases of conda packages that the torch of the environment asks for."""
    torch = prefix.package("pytorch")
    fixed = torch and _VERSION.fullmatch(torch.version) and _VERSION.fullmatch(torch.build)
    asked = [f"pytorch={torch.version}={torch.build}"] if torch and fixed else []
    return conda_install_specs(prefix, *names, *(asked or ([] if names else ["pytorch"])), again=True)


def cuda_override(prefix: Prefix) -> str:
    """The variable that tells a solver the CUDA version of an environment; empty for one without CUDA."""
    found = cuda_release_of(prefix)
    return f"CONDA_OVERRIDE_CUDA={found[0]} " if found else ""


def _installed_channels(prefix: Prefix) -> list[str]:
    """The channels of what is installed; the one of most packages last, as it is the general one."""
    counts = _channel_counts(prefix.conda)
    return sorted(counts, key=counts.__getitem__) or ["conda-forge"]


def _channel_counts(packages: Iterable[LockedPackage]) -> Counter[str]:
    return Counter(package.channel_name for package in packages if _CHANNEL.fullmatch(package.channel_name))


def _matching_spec(name: str, prefix: Prefix) -> str:
    """A package that is not there, in the version of its sibling, else of the CUDA release."""
    base, cuda = name.removesuffix("-dev"), cuda_release_of(prefix)
    sibling = next((item for item in map(prefix.package, (base, f"lib{base}")) if item), None)
    if sibling and _VERSION.fullmatch(sibling.version):
        return f"{name}={sibling.version}"
    return f"{name}={cuda[0]}" if cuda and name.startswith("cuda-") else name


def _with_channel(spec: str, prefix: Prefix) -> str:
    """A spec with its channel where an environment has several: NVIDIA's packages come from one alone."""
    if len(_installed_channels(prefix)) < 2 or not spec.startswith(_NVIDIA):
        return spec
    counts = _channel_counts(package for package in prefix.conda if package.name.startswith("cuda-"))
    home = max(counts, key=counts.__getitem__, default=None)
    return f"{home}::{spec}" if home else spec


def rebuild_for_torch(
    prefix: Prefix, name: str, torch: Version | None, rows: Iterable[Extension], pins: Callable[[Wheel], bool]
) -> str:
    """What brings a build of a library on torch that was made for the torch which is here.

    A row names the release; else pip finds it by what the releases ask of torch; else it is built from source. The
    newest wheel would be made for the newest torch.

    Args:
        pins: whether a distribution asks for one release of torch.
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
    """The newest release of a library whose wheels are for one release of torch, and for this one."""
    if torch is None:
        return None
    fit = [row for row in rows if row.package == name and "wheel" in row.comes and row.torch and row.releases]
    exact = [row for row in fit if row.torch and row.torch.first and row.torch.below == Version(f"{row.torch.first}.1")]
    public = Version(torch.public)
    return max((row.releases[-1] for row in exact if row.torch and row.torch.admits(public)), default=None)
