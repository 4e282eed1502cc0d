"""The commands that mend an environment for builds: conda's, pip's, or the hook of cuenv."""

from __future__ import annotations

import shlex

from cuenv.installed.mending import conda_install, pip_again, pip_command
from cuenv.installed.prefix import Prefix
from cuenv.jit.wants import wheel_of
from cuenv.versions import version


def hook(prefix: Prefix) -> str:
    """What tells builds where CUDA lies: the hook, or for an environment without activation scripts its lines."""
    where = shlex.quote(prefix.path)
    return (
        f"cuenv hook --prefix {where}" if prefix.kind == "conda" else f'eval "$(cuenv hook --prefix {where} --print)"'
    )


def get_nvcc(prefix: Prefix) -> str:
    """What installs nvcc."""
    if prefix.kind == "conda":
        return conda_install(prefix, "cuda-nvcc")
    cuda = _wheels_cuda(prefix)
    toolkit = f"install a CUDA {cuda or ''} toolkit".replace("  ", " ") + " and export CUDA_HOME=DIR"
    # The wheels for CUDA 11 and 12 hold ptxas alone.
    return toolkit if cuda and cuda < 13 else f"{pip_command(prefix, 'install', 'nvidia-cuda-nvcc>=13')}, or {toolkit}"


def get(prefix: Prefix, package: str | None, cuda: int | None) -> str | None:
    """What installs a conda package, or the wheel that holds the same for a CUDA major."""
    if package is None:
        return None
    if prefix.kind == "conda":
        return conda_install(prefix, package)
    name = package if package == "ninja" else wheel_of(package, cuda or _wheels_cuda(prefix))
    there = prefix.wheel(name)
    return pip_again(prefix, there) if there else pip_command(prefix, "install", name)


def _wheels_cuda(prefix: Prefix) -> int | None:
    """The CUDA major of the environment's wheels, by the suffix of those of NVIDIA."""
    runtime = prefix.wheel("nvidia-cuda-runtime")
    if runtime:
        return version(runtime.version).major
    return next((major for major in (12, 11) if prefix.wheel(f"nvidia-cuda-runtime-cu{major}")), None)
