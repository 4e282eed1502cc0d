"""Find the frame that raised an exception, in a file of the program or of a package, from its traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.diagnosis.log.lines import clean_line, rank_of, without_border
from cuenv.diagnosis.log.text import printable_line

_REACH = 60  # the number of lines before an exception in which its last frame is searched
_APART = 4 * _REACH
"""The number of lines before an exception in which the traceback of its rank may begin, between other ranks."""
_SHOWN = 80
_INLINE = "<string>"  # the file name that setuptools gives to the setup.py that it runs
_FRAME = regex(
    rb"File \"(?P<file>[^\"\n]{1,400})\", line (?P<line>[0-9]{1,7})(?:, in (?P<function>[\w<>.]{1,160}))?|"
    rb"(?:^|[\s\[])(?:File )?(?P<path>[~/][^\s:\"'()\[\]]{1,300}\.py)(?::(?P<row>[0-9]{1,7}),?)?"
    rb"(?:\]\([^\s()]{1,400}\),?)? in(?: (?P<name>[\w<>]{1,80})|$)|"
    rb"^\s*File (?P<module>[~/][^\s:\"'()\[\]]{1,300}\.py):(?P<at>[0-9]{1,7})\s*$|"
    rb"(?:Cell In|Input In) ?\[[0-9]{1,5}\]|(?:^|[\s</])ipython-input-[0-9]{1,12}[-.]"
)
"""A frame of Python, IPython (its path may be a Markdown link) or rich, or a cell of a notebook."""
_PACKAGE = regex(r"(?:site|dist)-packages/([A-Za-z_]\w{0,60})|^(\w{1,60})/[\w/]{1,200}\.p(?:yx|xi|xd)$")
_PATH_OF_CYTHON = regex(r"([A-Za-z_]\w{0,60})\.")
_STANDARD = regex(r"/lib(?:64)?/python[23](?:\.[0-9]{1,2})?/(?!(?:site|dist)-packages/)|^<|/python[0-9.-]{1,8}/Lib/")
_LIBRARIES = regex(
    r"/(accelerate|deepspeed|diffusers|flash_attn|megatron|peft|pytorch_lightning|sglang|transformers|"
    r"transformers_modules|triton|trl|vllm|xformers|(?<=pytorch/)torch|(?<=src/)(?:datasets|lightning))/"
    r"(?!\S*(?:examples?|scripts|benchmarks|recipes|tests)/)"
)
"""Libraries that run from their source folder, and the code of a model from the Hub."""
_OF_PACKAGE = regex(
    rb"(?:^|[\]>|):] ?|\s)(?!(?:torch|concurrent|http|json|multiprocessing|ray|socket|subprocess|urllib3?|vllm)\.)"
    rb"(?P<package>[a-z]\w{2,40})\.(?:\w{1,60}\.){1,6}[A-Z]\w{1,60}(?:Error|Exception): \S"
)
"""An exception whose name contains its package; the excluded packages also raise exceptions of others."""
_OPENED = frozenset((b"__getattr__", b"__getattribute__", b"reraise"))  # functions that raise for their caller
_MAPPING = regex(r"-packages/(?:datasets/formatting|pandas|omegaconf|h5py)/")
"""Packages whose containers raise a KeyError where their caller asks for a key that is not there."""
_NO_KEY = regex(rb"(?:^|[\])>|:] ?|\s)(?:Config(?:Attribute|Key)|Key)Error: ")
_CHECKS = regex(rb"(?:^|[\])>|:\x82]|\s{4})\s*(?:raise|assert)\b|-> ?[0-9]{1,5} +(?:raise|assert)\b")
_ASSERTED = regex(rb"(?:^|[\s:])AssertionError: \S")
"""An exception that only an ``assert`` raises; its statement may span several lines."""
_BUILT = regex(
    rb"(?i)torch\.cuda\.|version\.cuda|\w_cuda\b|\bcuda_\w|flash_?attn|\bbnb\b|bitsandbytes|xformers|triton|\bapex\b|"
    rb"\bamp_C\b|\bfused_|selective_scan|causal_conv1d|\b_C\b|os\.environ|getenv|nccl|(?<!per_)\bgpus?\b|__version__"
)
"""Names of compiled packages and of settings: where these fail, the environment may be the cause."""
_OTHER = regex(rb"(?:^|[\])>|:] )[A-Za-z_][\w.]{0,80}(?:Error|Exception)(?:: |\s*$)")
"""An exception: the lines before it belong to its own traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The frame that raised an exception."""

    file: str  # the end of the file's path
    line: str = ""  # the line number in that file; empty if the traceback does not show it
    package: str = ""  # the package that the file belongs to; empty for a file of the program itself
    checked: bool = False  # whether the line is a ``raise`` or ``assert``: the code checked a value and refused it
    code: str = ""  # the assertion that failed, if the line is one
    built: bool = False  # whether the line or the message names a compiled package or a setting


def frame_before(lines: Sequence[bytes], index: int) -> Frame | None:
    """Return the last frame before an exception that is outside the standard library, or ``None``.

    Args:
        lines: the lines of a log.
        index: the exception among them.
    """
    rank = rank_of(clean_line(lines[index]))
    above = lines[max(0, index - _APART) : index]
    whole = any(b"Traceback" in line and rank_of(clean_line(line)) == rank for line in above)
    return (_frame(lines, index, rank) if whole else None) or _frame(lines, index, None)


def frame_named(line: bytes) -> Frame | None:
    """Return a frame with the package in the name of an exception, for an exception without a traceback."""
    found = _OF_PACKAGE.search(line)
    if found is None or _BUILT.search(line):
        return None
    return Frame(file="", package=found["package"].decode(), checked=True)


def _compiled_module(file: str, function: bytes | None) -> re.Match[str] | None:
    """Return the package of a module of Cython, whose traceback names the function by its whole path."""
    return _PATH_OF_CYTHON.match((function or b"").decode()) if file.endswith((".pyx", ".pxi", ".pxd")) else None


def _frame(lines: Sequence[bytes], index: int, rank: str | None) -> Frame | None:
    """Return the last frame before an exception, from the lines of one rank, or of all if ``rank`` is ``None``."""
    passed = False
    checked = always = bool(_ASSERTED.search(lines[index]))
    code = inline = ""
    built = bool(_BUILT.search(lines[index]))
    for at in range(index - 1, max(-1, index - 1 - _REACH), -1):
        line = clean_line(lines[at])
        if rank is not None and rank_of(line) != rank:
            continue
        line = without_border(line) or b""
        found = _FRAME.search(line)
        if found is None:
            if _OTHER.search(line):
                return None
            built = built or bool(_BUILT.search(line))
            if not passed and (check := _CHECKS.search(line)):
                checked = True
                code = printable_line(line[line.index(b"assert", check.start()) :]) if b"assert" in check[0] else ""
            continue
        file = (found["file"] or found["path"] or found["module"] or b"").decode("utf-8", "replace")
        standard = bool(_STANDARD.search(file))
        held = bool(_MAPPING.search(file)) and bool(_NO_KEY.search(lines[index]))
        if standard or held or (found["function"] or found["name"]) in _OPENED:
            checked, passed, code = always, True, ""
            inline = inline or (found["line"].decode() if file == _INLINE else "")
            continue
        library = _PACKAGE.search(file) or _LIBRARIES.search(file) or _compiled_module(file, found["function"])
        if inline and library and library[1] == "setuptools":
            return Frame(file="setup.py", line=inline, built=built)
        return Frame(
            file=(file if len(file) <= _SHOWN else f".../{file[-_SHOWN:].partition('/')[2]}")
            or "a cell of the notebook",
            line=(found["line"] or found["row"] or found["at"] or b"").decode(),
            package=next(filter(None, library.groups()), "") if library else "",
            checked=checked,
            code=code,
            built=built,
        )
    return None
