"""Reading a conda requirement as people write it in ``environment.yml`` (CEP 29) into a `Pin`.

Many spellings have one meaning; the pin holds that meaning once, in the subset that conda, micromamba and
conda-lock read alike. What these clients read differently, or what cuenv cannot honour, is refused with the reason.
"""

from __future__ import annotations

import re

from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.solve.environment_spec import Pin

_LIMIT = 1024
_SUBDIR = regex(r"/(noarch|(?:linux|osx|win|freebsd|emscripten|wasi|zos)-[a-z0-9_]+)$")
_ARCHIVE = regex(r"\.(conda|tar\.bz2)(#[0-9A-Za-z:]*)?$")
_OPERATORS = "<>=!~"

_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_CHANNEL = regex(r"[^\s\[\]'\",;]+")
_BUILD = regex(r"(?:[A-Za-z0-9_.+-]|\*(?!\*))+")
_BRACKETS = regex(r"\[([^\[\]]*)\]$")
_KEY = regex(r"""\s*([a-z_0-9]+)\s*=\s*(?:'([^'"]*)'|"([^'"]*)"|([^\s'",=]+))\s*(?:,|$)""")
_KEYS = ("version", "build", "channel")
EXTRAS = regex(r"\[(?!\s*(?:build|channel|version)\b)\s*[A-Za-z][\w.-]*(?:\s*,\s*[A-Za-z][\w.-]*)*\s*\]")
"""Extras of pip, as in ``requests[security]``: conda reads over brackets without a key."""

_JOINTS = regex(r"\s*([,|])\s*|([<>=])\s+(?=[^\s<>=!~])")
_BUILD_AFTER_EQUALS = regex(r"(?P<version>.*[^<>=!~,|\s])=(?P<build>[^=<>!~,|\s]+)")
_TERM = regex(r"(?P<op>==|!=|~=|>=|<=|>|<|=|)(?P<version>(?:[0-9]+!)?[^<>=!~*\s]*?)(?P<glob>(?:\.\*)+|\*|)")
# CEP 33: epoch, segments of letters and digits (numbers of at most 18 digits), an underscore at the end, a local part.
_UNDERSCORED, _DASHED = (rf"[a-z0-9]+(?:[.{joint}][a-z0-9]+)*" for joint in "_-")
_VERSION = regex(rf"(?:[0-9]+!)?(?:{_UNDERSCORED}_?|{_DASHED})(?:\+(?:{_UNDERSCORED}|{_DASHED}))?")
_LONG_NUMBER = regex(r"[0-9]{19}")
SWAPPED = {"=>": ">=", "=<": "<"}
"""Operators that people swap, as conda reads them: it takes ``=>3.11`` for ``>3.11*``, and 3.11 is after ``3.11*``."""


def parse_spec(text: str) -> Pin:
    """Read one entry of ``dependencies``.

    Accepts ``name``, ``name=1.2`` (the prefix 1.2.*), ``name==1.2``, ``name 1.2.*``, ``name>=1,<2``,
    ``name=1.2=build``, ``name 1.2.* build*``, ``channel::name``, ``name[version='>=1',build='x*']``.

    Returns:
        the pin: name in lower case, the canonical host taken off the channel, the version in one spelling.

    Raises:
        ValueError: another form; the message quotes it and says what to write instead.
    """
    try:
        return _parse(text)
    except ValueError as error:
        raise ValueError(f"{_shown(text)}: {error}") from None


def split_name(text: str) -> tuple[str, str]:
    """Split a requirement of a package record into the name and what follows, one blank between words.

    ``('pytorch', '2.5.1 cuda*')`` of ``pytorch 2.5.1   cuda*``, ``('imath', '<3.2')`` of ``imath<3.2``.
    """
    found = _NAME.match(text.strip())
    if not found:
        return text.strip(), ""
    return found[0].lower(), " ".join(text.strip()[found.end() :].split())


def _parse(text: str) -> Pin:
    _refuse_foreign(text)
    plain, keys = _split_brackets(text.partition("#")[0].strip())
    channel, plain = _split_channel(plain)
    found = _NAME.match(plain)
    if not found:
        raise ValueError("expected a package name" if plain else "expected a package, got an empty text")
    rest = plain[found.end() :]
    if rest and rest[0] not in _OPERATORS + " ":
        hint = "; a pattern cannot be locked" if rest[0] == "*" else ""
        raise ValueError(f"unexpected {_shown(rest[0])} after the name {_shown(found[0])}{hint}")
    version, build = _split_version(rest)
    fuzzy = not build  # `name=1.2` is a prefix, `name=1.2=build` is exact (CEP 29, version expression parsing)
    for key, have in (("channel", channel), ("version", version), ("build", build)):
        if have and key in keys:
            raise ValueError(f"the {key} appears twice: {_shown(have)} and {_shown(keys[key])}")
    build = keys.get("build", build)
    if build and not _BUILD.fullmatch(build):
        raise ValueError(f"{_shown(build)} is not a build string; '*' is the only pattern that all clients read alike")
    build = build if build.strip("*") else ""
    return Pin(
        name=found[0].lower(),
        version=_version(_close(keys.get("version", version)), fuzzy=fuzzy, build=build),
        build=build,
        channel=_channel(keys["channel"]) if "channel" in keys else channel,
    )


def _refuse_foreign(text: str) -> None:
    """Refuse what no requirement holds, and what belongs to other tools: files, pip's forms, markers."""
    if not text.isprintable():
        raise ValueError("it holds a control character or a line break")
    if len(text) > _LIMIT:
        raise ValueError(f"it has {len(text)} characters; the limit is {_LIMIT}")
    if text.startswith(("file:", "./", "../", "/", "~")) or (_ARCHIVE.search(text) and "::" not in text):
        message = "direct URLs and files cannot be locked from an environment file; write channel::name=version=build"
        raise ValueError(message)
    if text.startswith("-") or " @ " in text or re.match(r"(git|hg|svn|bzr)\+", text):
        raise ValueError("this is a pip requirement; put it under '- pip:'")
    if ";" in text:
        raise ValueError("markers after ';' belong to requirements under '- pip:'")


def _split_brackets(text: str) -> tuple[str, dict[str, str]]:
    """Take ``[key='value',...]`` off the end."""
    found = _BRACKETS.search(text)
    plain = text[: found.start()].rstrip() if found else text
    if found and EXTRAS.fullmatch(found[0]):
        return plain, {}
    if "[" in plain or "]" in plain:
        raise ValueError("brackets do not match, or appear twice; one [key='value'] may stand at the end")
    keys: dict[str, str] = {}
    inner, at = found[1] if found else "", 0
    while inner[at:].strip():
        pair = _KEY.match(inner, at)
        if not pair:
            raise ValueError(f"cannot read {_shown(inner[at:])}; in brackets stands key='value', joined by commas")
        if pair[1] not in _KEYS:
            raise ValueError(f"cuenv honours {', '.join(_KEYS)} in brackets, not {_shown(pair[1])}")
        value = pair[2] or pair[3] or pair[4] or ""
        if not value or pair[1] in keys:
            raise ValueError(f"the {pair[1]} in brackets {'appears twice' if value else 'is empty'}")
        keys[pair[1]] = value
        at = pair.end()
    return plain, keys


def _split_channel(text: str) -> tuple[str, str]:
    head, mark, rest = text.partition("::")
    if mark:
        return _channel(head.strip()), rest.strip()
    name = _NAME.match(text)
    if name and text[name.end() :].startswith(":"):
        raise ValueError("write two colons between channel and package, as in conda-forge::numpy")
    return "", text


_HERE = ("linux-64", "linux-aarch64", "noarch")  # folders of a channel that a lock of cuenv takes packages from


def _channel(name: str) -> str:
    """A channel as pins hold it, without the canonical host; empty for any."""
    if name == "*":
        return ""
    short = short_channel(name)
    if not _CHANNEL.fullmatch(short) or short.endswith(":"):
        raise ValueError(f"{_shown(name)} is not a channel")
    subdir = _SUBDIR.search(short)
    if subdir:
        shorter = short[: subdir.start()]
        if subdir[1] in _HERE:
            return shorter  # as conda prints its packages; which platform it is, the lock says
        raise ValueError(f"the platform {subdir[1]!r} is an option of the lock; write {shorter}::name")
    return short


def _split_version(rest: str) -> tuple[str, str]:
    """Split what follows the name into version and build, without blanks inside the version."""
    words = _close(rest).split()
    if len(words) > 2 or (len(words) == 2 and words[1][0] in _OPERATORS):
        raise ValueError(
            f"expected a version and a build after the name, got {_shown(rest.strip())}; "
            "conditions on the version are joined by commas, as in >=1,<2"
        )
    version, build = (*words, "", "")[:2]
    joined = _BUILD_AFTER_EQUALS.fullmatch(version) if not build else None
    return (joined["version"], joined["build"]) if joined else (version, build)


def _close(text: str) -> str:
    """The text without blanks around ``,`` and ``|`` and behind operators."""
    return _JOINTS.sub(lambda found: found[1] or found[2], text)


def _version(text: str, *, fuzzy: bool, build: str) -> str:
    """The version in the one spelling of `Pin.version`; empty when it admits every version."""
    if not text:
        return ""
    alone = fuzzy and not build and "," not in text and "|" not in text
    terms = [[_term(term, fuzzy=fuzzy, alone=alone) for term in part.split(",")] for part in text.split("|")]
    alternatives = dict.fromkeys(",".join(dict.fromkeys(filter(None, part))) for part in terms)
    if "" in alternatives:
        return ""
    whole = "|".join(alternatives)
    single = "," not in whole and "|" not in whole
    return whole.removeprefix("==") if build and single else whole


def _term(text: str, *, fuzzy: bool, alone: bool) -> str:
    """One condition; empty when it admits every version.

    Args:
        fuzzy: one ``=`` makes a prefix; otherwise it is exact.
        alone: it is the whole requirement, so that a prefix is written as the bare release.
    """
    if alone and text[:2] in SWAPPED and text[2:3] not in _OPERATORS:
        text = SWAPPED[text[:2]] + text[2:]
    found = _TERM.fullmatch(text)
    if not text:
        raise ValueError("a version condition beside ',' or '|' is empty")
    if not found:
        raise ValueError(f"cannot read the version condition {_shown(text)}")
    operator, literal, glob = found["op"], found["version"].lower(), found["glob"]
    if not literal and glob == "*" and operator in ("", "=", "=="):
        return ""
    if not _VERSION.fullmatch(literal) or _LONG_NUMBER.search(literal):
        raise ValueError(f"{_shown(text)} contains no version that conda understands")
    if glob and (operator in (">", "~=") or (operator == "==" and not fuzzy)):
        raise ValueError(f"{_shown(text)} is read differently by conda and mamba; leave out '.*'")
    if glob and operator in (">=", "<=", "<"):
        return operator + literal
    if glob:
        return f"!={literal}.*" if operator == "!=" else f"{literal}.*"
    if operator == "=" and fuzzy:
        return literal if alone else f"{literal}.*"
    return operator + literal if operator not in ("", "=") else f"=={literal}"


def _shown(text: str) -> str:
    """Foreign text for an error: quoted, on one line, short."""
    shown = ascii(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."
