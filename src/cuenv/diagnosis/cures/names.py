"""Which package a line speaks of, and how pip is asked for it again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from cuenv.core.regex import regex
from cuenv.diagnosis.cures.case import LogContext
from cuenv.diagnosis.cures.managers import PIP
from cuenv.knowledge.io.load import load_guidance

PIP_ANEW = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
_INNER = regex(r"(?:^|/)(?:site|dist)-packages/([A-Za-z][\w.-]{1,60})/")
_EGG = regex(r"-[0-9][\w.+]*-py[0-9.]+(?:-[\w-]+)?\.egg$")
_BINARY = regex(r"(?<![-\w.])([A-Za-z][\w]{1,60}?)(?:_[0-9])?(?:_cuda|_C|_ext|_cpp)?(?:\.cpython-[\w-]+|\.abi3)?\.so\b")
_PARTS = {
    "amp": "apex",
    "fused-layer-norm": "apex",
    "fused-weight-gradient-mlp": "apex",
    "flash-attn-2": "flash-attn",
    "flash-attention": "flash-attn",
    "cupy-backends": "cupy",
    "jax": "jaxlib",
    "selective-scan": "mamba-ssm",
    "exllamav2-ext": "exllamav2",
    "awq-inference-engine": "autoawq-kernels",
    "autogptq-cuda": "auto-gptq",
    "autogptq-cuda-64": "auto-gptq",
    "autogptq-cuda-256": "auto-gptq",
    "exllama-kernels": "auto-gptq",
    "exllamav2-kernels": "auto-gptq",
    "transformer-engine-extensions": "transformer-engine",
    "-scatter": "torch-scatter",
    "-sparse": "torch-sparse",
    "-cluster": "torch-cluster",
}
"""Compiled modules that are named otherwise than their package."""
_INSTALLED_AS = {"mmcv": "mmcv(-full)?", "paddle": "paddlepaddle(-gpu)?"}
"""Packages of which pip has another name, or two."""
_OWN = frozenset({"torch", "nvidia", "pip", "setuptools", "triton", "importlib", "cuda", "wheel", "_C", "lib", "gnu"})


def provider(case: LogContext, kind: str, name: str) -> str:
    """What the table of providers has for a thing that is missing; empty where it does not know it."""
    return load_guidance(case.knowledge).gives(kind, name)


def straight(text: str) -> str:
    """A text whose paths go up nowhere."""
    return re.sub(r"[^/\s]+/\.\./", "", text)


def package_in(text: str) -> str:
    """The package that a line speaks of: the folder in site-packages, else the name of the binary."""
    text = straight(text)
    for name in _INNER.findall(text):
        if name.split(".")[0] not in _OWN:
            return package_of(_EGG.sub("", name))
    for name in _BINARY.findall(text):
        if not name.startswith(("lib", "_")) and name not in _OWN:
            return package_of(name)
    return ""


def package_of(name: str) -> str:
    """The package of a compiled module or of a folder of modules."""
    name = re.sub(r"[_-](?:[0-9]_)?(?:cuda|C)$", "", name).replace("_", "-").lower()
    return _PARTS.get(name, name)


def again(case: LogContext, package: str) -> str:
    """A package as pip is asked for it again: of the release that the log tells, else of the one that is installed.

    Without a release pip would take the newest one, which may belong to another torch. What PyPI does not have comes
    from its sources: a package of the same name there may be somebody else's.
    """
    if source := provider(case, "repository", package):
        return source
    release = case.packages.get(package, "")
    if release:
        return quote(f"{package}=={release}")
    pattern = _INSTALLED_AS.get(package) or re.sub(r"[-_.]", ".", package)
    return f"\"$({PIP} freeze | grep -i -m1 -E '^{pattern}[ =]')\""


def named(case: LogContext) -> Iterator[tuple[str, str]]:
    """What the words in capitals of a command stand for, where the log names it."""
    package = (
        package_in(case.line) or case.mentions.get("building", "") or package_in(case.mentions.get("importing", ""))
    )
    release = case.packages.get(package, "")
    if package:
        yield "PACKAGE", f"{package}=={release}" if release else package
    for word, name in (("IMAGE", "image"), ("TRAIN.py", "script")):
        if case.mentions.get(name):
            yield word, case.mentions[name]
