"""The package that a log line names, and the requirement with which pip reinstalls it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from cuenv.core.regex import regex
from cuenv.diagnosis.cures.context import LogContext
from cuenv.diagnosis.cures.managers import PIP
from cuenv.knowledge.io.load import load_guidance

PIP_REINSTALL = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
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
    "awq": "autoawq-kernels",
    "awq-ext": "autoawq-kernels",
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
"""Compiled modules whose name differs from that of their package."""
_WITHOUT_WHEEL = r"sed -E 's/ @ .*-([0-9][0-9a-z.]*)[^/]*[.]whl.*/==\1/'"
"""pip freeze names the file of a wheel, which would be installed again as it is: its release is wanted."""
_INSTALLED_AS = {"mmcv": "mmcv(-full)?", "paddle": "paddlepaddle(-gpu)?"}
"""Patterns for packages that pip lists under another name."""
_OWN = frozenset({"torch", "nvidia", "pip", "setuptools", "triton", "importlib", "cuda", "wheel", "_C", "lib", "gnu"})


def provider(context: LogContext, kind: str, name: str) -> str:
    """Return the entry of the provider table for a missing thing; empty if the table has none."""
    return load_guidance(context.knowledge).gives(kind, name)


def normalized_path(text: str) -> str:
    """Return a text without ``folder/../`` in its paths."""
    return re.sub(r"[^/\s]+/\.\./", "", text)


def package_in(text: str) -> str:
    """Return the package that a line names: by its folder in site-packages, else by its shared object."""
    text = normalized_path(text)
    for name in _INNER.findall(text):
        if name.split(".")[0] not in _OWN:
            return package_of(_EGG.sub("", name))
    for name in _BINARY.findall(text):
        if not name.startswith(("lib", "_")) and name not in _OWN:
            return package_of(name)
    return ""


def package_of(name: str) -> str:
    """Return the package of a compiled module or of a folder of modules."""
    name = re.sub(r"[_-](?:[0-9]_)?(?:cuda|C)$", "", name).replace("_", "-").lower()
    return _PARTS.get(name, name)


def package_of_import(context: LogContext) -> str:
    """Return the package whose module was being imported: that of the last file, or of the frame that raised."""
    frame = context.frame.package if context.frame else ""
    return package_in(context.mentions.get("importing", "")) or (package_of(frame) if frame not in _OWN else "")


def pip_requirement(context: LogContext, package: str) -> str:
    """Return the requirement to reinstall a package: the version of the log, else the installed version.

    Without a version pip would take the newest, which may need another torch. A package that PyPI lacks comes from its
    repository: PyPI may have another package under that name.
    """
    if source := provider(context, "repository", package):
        return source
    release = context.packages.get(package, "")
    if release:
        return quote(f"{package}=={release}")
    pattern = _INSTALLED_AS.get(package) or re.sub(r"[-_.]", ".", package)
    return f"\"$({PIP} freeze | grep -i -m1 -E '^{pattern}[ =]' | {_WITHOUT_WHEEL})\""


def placeholder_values(context: LogContext) -> Iterator[tuple[str, str]]:
    """Yield the placeholders of a command (PACKAGE, IMAGE, TRAIN.py) and their values from the log."""
    package = package_in(context.line) or context.mentions.get("building", "") or package_of_import(context)
    release = context.packages.get(package, "")
    if package:
        yield "PACKAGE", f"{package}=={release}" if release else package
    for word, name in (("IMAGE", "image"), ("TRAIN.py", "script")):
        if context.mentions.get(name):
            yield word, context.mentions[name]
