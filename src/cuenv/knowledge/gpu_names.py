"""Which GPU a text means: what people type (``rtx4090``), what NVML prints (``NVIDIA A100-SXM4-80GB``), a PCI id.

Words are compared whole and to the last: A100 is not A10, L40S is not L40, an RTX 4000 may be one of three
generations. A text is stripped of what changes no capability (memory, bus, Laptop, Max-Q, vGPU and MIG profiles),
and a name may be typed without its family (``4090``). Where that leaves products of several capabilities, the
answer is none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.knowledge.rows import GpuModel

Words: TypeAlias = tuple[str, ...]
Index: TypeAlias = dict[Words, tuple[GpuModel, ...]]

_MAX_CHARACTERS = 120
_MARKS = ("(r)", "(tm)", "(nvgpu)", "®", "™")
_MIG = regex(r"\bmig[\s-].*$")
_VGPU = regex(r"-\d{1,3}(?:-\d{1,3})?[abcq]e?$")
_VGPU_BOARD = regex(r"(?<=\d)[a-z]{1,2}$")
_WORD = regex(r"[a-z0-9]+")
_NUMBER = regex(r"(?<!\d)\d{4}(?!\d|mib)")
"""The number of most products, which no reading leaves out: no form, bus or memory has four digits."""
_FAMILIES = ("geforce", "quadro", "tesla", "jetson", "titan", "rtx", "gtx")
_GLUED_NUMBER = regex(r"(\d{4})(ti|super|ada|d|a)(super)?")

_PLAIN = frozenset({"nvidia", "geforce", "gpu", "graphics", "corporation", "generation", "edition"})
"""Words that never tell two products apart."""
_QUALIFIERS = frozenset(
    "laptop mobile notebook maxq with design tesla grid pcie sxm 3e nvl dgxs fhhl active ac grace hopper superchip "  # noqa: SIM905 - not 25 lines
    "embedded oem lc shared developer kit".split()
)
"""Words that change no capability: form, bus, memory. A product may carry one in its name all the same."""
_NUMBERED = regex(r"sxm\d|hbm\de?|nvl\d+|\d{1,3}(?:g|gb|gib)|\d+mib")  # such words with a number
_FAMILY = frozenset({"pro", "ada", "blackwell", "pascal", "server", "workstation", "jetson"})
"""Words that people leave out."""


class _NameIndex(NamedTuple):
    """The product names: in full, without qualifiers, and with any family words removed."""

    full: Index
    bare: Index
    loose: Index


_OTHER_VENDORS = regex(
    r"\b(?:amd|ati|radeon|instinct|firepro|rocm|mi-?\d{2,3}[a-z]?|gfx\d\w*|rx|intel|arc|iris|xe|gaudi\d?|max 1[15]\d\d|"
    r"apple|m[1-5]|mps|mali|adreno|ascend|tpu)\b"
)
"""Words of GPUs that are not NVIDIA's. They are read only where a name means no product of the table."""
_WITH_A_COMMA = regex(r"\d{1,2},\d")
_CAPABILITY_OF_A_MACHINE = (
    "give the compute capability instead of the name; on "
    "the machine with the GPU, print it with: nvidia-smi --query-gpu=compute_cap --format=csv,noheader"
)
_ALIKE = 0.6  # how alike two names must be, from 0 to 1 (and 1 more for a common number), for one to be worth naming


def find_gpu(text: str, gpus: tuple[GpuModel, ...]) -> GpuModel | None:
    """The product that a text names; ``None`` if it is unknown or fits several with different capability."""
    in_every_reading = frozenset(
        word for word in _without_qualifiers(_words(text)) if len(word) == 4 and word.isdigit()
    )
    names = _build_index(gpus, _numbers(text), in_every_reading)
    return next(
        (found for words, index in _readings(text, names) if (found := _single_model(index.get(words, ())))), None
    )


def nearest_gpus(text: str, gpus: tuple[GpuModel, ...], count: int = 5) -> tuple[GpuModel, ...]:
    """The products with the most similar names, for an error: first those that the text may mean."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - only when a name is not found

    names = _build_index(gpus)
    meant = {model.name for words, index in _readings(text, names) for model in index.get(words, ())}
    words = _without_qualifiers(_words(text))
    numbers = {word for word in words if any(letter.isdigit() for letter in word)}
    matcher = SequenceMatcher(b="".join(words), autojunk=False)

    def likeness(model: GpuModel) -> float:
        best = 0.0
        for name in (model.name, *model.aka):
            own = _without_qualifiers(_words(name))
            matcher.set_seq1("".join(own))
            best = max(best, matcher.ratio() + (1 if numbers.intersection(own) else 0))
        return best

    scored = [(likeness(model), model) for model in gpus]
    alike = [(score, model) for score, model in scored if score >= _ALIKE or model.name in meant]
    ranked = sorted(alike, key=lambda pair: (pair[1].name not in meant, -pair[0], pair[1].name))
    return tuple(model for _, model in ranked[:count])


def unknown_gpu(text: str, gpus: tuple[GpuModel, ...]) -> tuple[str, str]:
    """The addition to an error about an unknown GPU: its maker or the nearest products, and a hint."""
    if _OTHER_VENDORS.search(text[:_MAX_CHARACTERS].lower()):
        return "; cuenv knows NVIDIA GPUs only", "for a CPU build: cuenv resolve --cpu"
    if _WITH_A_COMMA.fullmatch(text.strip()):
        return "", f"a compute capability has a dot: {text.strip().replace(',', '.')}"
    near = ", ".join(f"{item.name} ({item.capability})" for item in nearest_gpus(text, gpus))
    return (f"; the nearest are {near}" if near else ""), _CAPABILITY_OF_A_MACHINE


def gpu_by_pci(device_id: str, gpus: Iterable[GpuModel]) -> GpuModel | None:
    """The product with a PCI device id: ``2684``, ``0x2684``, or ``0x268410DE`` as in NVML."""
    digits = device_id.strip().lower().removeprefix("0x")
    if len(digits) == 8 and digits.endswith("10de"):
        digits = digits[:4]
    return _single_model(tuple(model for model in gpus if digits in model.pci))


def _readings(text: str, names: _NameIndex) -> Iterator[tuple[Words, Index]]:
    """The ways to read a text, the most literal first, each with the index to search."""
    words = _words(text)
    yield words, names.full
    bare = _without_qualifiers(words)
    yield bare, names.full
    yield bare, names.bare
    yield bare, names.loose
    if bare and "-" in text and _VGPU.search(text.strip().lower()):
        # A vGPU names the board by further letters: V100D and V100X are V100.
        board = (*bare[:-1], _VGPU_BOARD.sub("", bare[-1]))
        yield board, names.full
        yield board, names.bare


def _words(text: str) -> Words:
    plain = text[:_MAX_CHARACTERS].lower()
    for mark in _MARKS:
        plain = plain.replace(mark, " ")
    plain = plain.replace("max-q", "maxq").strip()
    plain = _MIG.sub("", plain).strip() if "mig" in plain else plain
    plain = _VGPU.sub("", plain) if "-" in plain else plain
    return tuple(part for word in _WORD.findall(plain) for part in _split_word(word) if part not in _PLAIN)


def _split_word(word: str) -> Iterator[str]:
    """The parts of ``rtx4070tisuper``: rtx, 4070, ti, super."""
    while family := next((each for each in _FAMILIES if word.startswith(each) and word != each), None):
        yield family
        word = word.removeprefix(family)
    number = _GLUED_NUMBER.fullmatch(word) if word[:4].isdigit() and not word.isdigit() else None
    yield from (part for part in number.groups() if part) if number else (word,)


def _without_qualifiers(words: Words) -> Words:
    return tuple(word for word in words if not _qualifies(word))


def _qualifies(word: str) -> bool:
    mixed = not word.isdigit() and not word.isalpha()
    return word in _QUALIFIERS or (mixed and _NUMBERED.fullmatch(word) is not None)


def _single_model(models: tuple[GpuModel, ...]) -> GpuModel | None:
    """The only model, or the one with the shortest name if all have the same capability."""
    if len({model.capability for model in models}) != 1:
        return None
    return min(models, key=lambda model: (len(model.name), model.name))


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text[:_MAX_CHARACTERS].lower()))


@lru_cache(maxsize=64)
def _build_index(
    gpus: tuple[GpuModel, ...], numbers: frozenset[str] | None = None, needed: frozenset[str] = frozenset()
) -> _NameIndex:
    """The names of the products that have the numbers of a text; others cannot be meant.

    Args:
        numbers: those that a name may have.
        needed: those of them that it must have, since each reading of the text does.
    """
    full: dict[Words, list[GpuModel]] = {}
    bare: dict[Words, list[GpuModel]] = {}
    loose: dict[Words, list[GpuModel]] = {}
    for model in gpus:
        for name in (model.name, *model.aka):
            if not all(number in name for number in needed) or (numbers is not None and not _numbers(name) <= numbers):
                continue
            words = _words(name)
            _add_name(full, words, model)
            _add_name(bare, _without_qualifiers(words), model)
            for short in _shorter_names(_without_qualifiers(words)):
                _add_name(loose, short, model)
    return _NameIndex(*({words: tuple(models) for words, models in index.items()} for index in (full, bare, loose)))


def _add_name(index: dict[Words, list[GpuModel]], words: Words, model: GpuModel) -> None:
    models = index.setdefault(words, [])
    if words and model not in models:
        models.append(model)


def _shorter_names(words: Words) -> Iterator[Words]:
    """The name without family words such as quadro, ada, pro or blackwell."""
    starts = [words]
    if words[:1] == ("quadro",):
        starts.append(words[1:])
    if starts[-1][:1] in (("rtx",), ("gtx",)):
        starts.append(starts[-1][1:])
    for start in starts:
        optional = [index for index, word in enumerate(start) if word in _FAMILY][:6]
        for choice in range(2 ** len(optional)):
            left = {index for bit, index in enumerate(optional) if choice >> bit & 1}
            yield tuple(word for index, word in enumerate(start) if index not in left)
