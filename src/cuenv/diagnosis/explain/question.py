"""Find the page that answers a question, and the GPUs, CUDA releases and driver that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from packaging.version import Version

from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, version
from cuenv.diagnosis.cures.context import host_words
from cuenv.diagnosis.log.scan import scan
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.gpu_names import find_gpu
from cuenv.knowledge.guidance import AnswerPage, Erratum, Guidance, Symptom
from cuenv.knowledge.rows import PLATFORMS, GpuModel
from cuenv.knowledge.search import LACKS, WordPage, rank_pages

_CUDA = regex(r"(?<![\w.])(1[0-9]\.[0-9])(?:\.[0-9])?(?![\w.]*\w)")
MAJOR = regex(r"(?i)\bcuda[ -]?(1[0-9])(?![.\d])")
_MAJOR_TOPIC = regex(r"cuda-([0-9]+)-.*")  # topics about one major version of CUDA
_DRIVER = regex(r"\b[Dd]river (?:version )?([3-9][0-9]{2}(?:\.[0-9]{1,3}){0,2})\b")
RELEASE = regex(r"(?i)torch[ a-z=]{0,20}\b([12]\.[0-9]{1,2})(?:\.[0-9]{1,2})?(?![\w.]*\w)")
_LETTER = regex(r"\b[A-Za-z]\b")
_LIBRARY = regex(r"\blib[\w.+-]{1,60}\.so(?:\.[0-9]{1,3}){1,3}")
"""A library that is asked for by its file name alone is one that was not found."""
_TOKEN = regex(r"[\w.+()-]+")
_EXAMPLE_GPUS = (
    "--gpu V100 --gpu 'RTX 4090' --driver 580.65.06"  # what stands in a command for the GPUs of the question
)
_SIMILAR_SHARE = 0.75  # pages of the same kind that cover so much of what the best page covers are named beside it
_WEAK_SHARE = 0.75  # a page that covers less of the question than this share is only the nearest one
_MAX_PAGES = 3
_MAX_BESIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """The subject of a question."""

    question: str
    answers: tuple[AnswerPage, ...] = ()  # the page that answers it; none where no page does
    symptoms: tuple[Symptom, ...] = ()  # errors that it speaks of
    errata: tuple[Erratum, ...] = ()  # statements of recipes that it speaks of
    gpus: tuple[Capability, ...] = ()  # the GPUs that it names, or those of a generation that it names
    models: tuple[GpuModel, ...] = ()
    cudas: tuple[Version, ...] = ()  # the CUDA releases that it names
    driver: str = ""  # the driver that it names
    plain: str = ""  # what is left of it without the names of GPUs
    beside: tuple[str, ...] = ()  # topics and ids of pages that come near
    weak: bool = False  # whether the page covers so little of the question that it is only the nearest one

    @property
    def found(self) -> bool:
        """Whether any page fits."""
        return bool(self.answers or self.symptoms or self.errata)


def parse_question(question: str, guidance: Guidance, knowledge: Knowledge) -> AskedQuestion:
    """The pages that fit a question: an error that it quotes, or the page that shares its words."""
    models, rest = _gpus_in(question, knowledge)
    generations = _capabilities_in(rest, knowledge)
    gpus = tuple(dict.fromkeys([*(model.capability for model in models), *generations]))
    cudas = tuple(dict.fromkeys(version(text) for text in _CUDA.findall(question)))
    lost = _LIBRARY.fullmatch(question.strip()) or (LACKS.search(question.lower()) and _LIBRARY.search(question))
    pasted = f"{lost[0]}: cannot open shared object file" if lost else question
    shown = scan([pasted.encode()], guidance.symptoms).matches
    exact = tuple(item.symptom for item in shown if item.symptom.kind != "remark")[:1]
    named = {item.major for item in cudas} | set(map(int, MAJOR.findall(question)))
    hits = rank_pages(
        f"{rest} gpu" if models else rest,
        _without_other_majors(word_pages(guidance), guidance, named if gpus else set()),
    )
    if gpus and named:  # of pages that cover as much, those on CUDA and GPUs
        on_both = {row.id for row in guidance.answers if row.join == "cuda_gpu"}
        hits = tuple(sorted(hits, key=lambda hit: hit.page.key not in on_both or hit.share < hits[0].share))
    if cudas and not gpus and RELEASE.search(question):  # a torch and a CUDA that are named together, and no GPU
        on_both = {row.id for row in guidance.answers if row.join == "releases"}
        hits = tuple(sorted(hits, key=lambda hit: hit.page.key not in on_both))
    best = hits[0].page.kind if hits else ""
    chosen = [hit for hit in hits if hit.page.kind == best and hit.share >= hits[0].share * _SIMILAR_SHARE]
    keys = [hit.page.key for hit in chosen][: 1 if best == "answer" else _MAX_PAGES]
    answers = tuple(_with_gpus(row, models) for row in guidance.answers if row.id in keys)
    symptoms = tuple(row for row in guidance.symptoms if row.id in keys)
    errata = tuple(row for row in guidance.errata if row.id in keys)
    topics = {row.topic for row in answers}
    near = dict.fromkeys(_topic_of(hit.page.key, guidance) for hit in hits if hit.page.key not in keys)
    if not hits:
        near = dict.fromkeys(get_close_matches(question.strip().lower(), guidance.topics, n=3, cutoff=0.6))
    return AskedQuestion(
        question=question,
        plain=rest if models else question,
        answers=answers,
        symptoms=exact or symptoms,
        errata=errata or tuple(row for row in guidance.errata if row.topic in topics),
        gpus=gpus,
        models=models,
        cudas=cudas,
        driver=next(iter(_DRIVER.findall(question)), ""),
        beside=tuple(item for item in near if item not in topics)[:_MAX_BESIDE],
        weak=bool(answers) and hits[0].share < _WEAK_SHARE,
    )


def _without_other_majors(every: Iterable[WordPage], guidance: Guidance, majors: set[int]) -> Iterator[WordPage]:
    """The pages without those about another CUDA major version than the question names."""
    about = {row.id: int(found[1]) for row in guidance.answers if (found := _MAJOR_TOPIC.fullmatch(row.topic))}
    yield from (page for page in every if not majors or about.get(page.key, next(iter(majors))) in majors)


def _with_gpus(row: AnswerPage, models: Sequence[GpuModel]) -> AnswerPage:
    """The page with the GPUs of the question in its command."""
    from shlex import join  # noqa: PLC0415 - only where a command is given

    if len(models) < 2 or _EXAMPLE_GPUS not in row.do:
        return row
    return row.replaced(
        do=row.do.replace(_EXAMPLE_GPUS, join(word for model in models for word in ("--gpu", model.name)))
    )


def _topic_of(key: str, guidance: Guidance) -> str:
    topics = {row.id: row.topic for row in guidance.errata} | {row.id: row.topic for row in guidance.answers}
    return topics.get(key, key)


def word_pages(guidance: Guidance) -> Iterator[WordPage]:
    """Every page that words can find."""
    for row in guidance.answers:
        yield WordPage("answer", row.id, (row.topic.replace("-", " "), row.asks, *row.words), " ".join(row.says))
    for item in guidance.errata:
        yield WordPage("erratum", item.id, (item.topic.replace("-", " "), item.says), item.truth)
    for one in guidance.symptoms:
        titles = (one.id.replace("-", " "), one.says, *(_LETTER.sub("", mark) for mark in one.marks))
        yield WordPage("symptom", one.id, titles, f"{one.cause} {one.remedy}")


def _gpus_in(question: str, knowledge: Knowledge) -> tuple[tuple[GpuModel, ...], str]:
    """The GPUs that a question names, and the question without their names; the longest name counts."""
    words = _TOKEN.findall(question[:600])
    found: list[GpuModel] = []
    rest: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(5, len(words) - at), 0, -1):
            part = words[at : at + length]
            digits = any(letter.isdigit() for word in part for letter in word)
            model = (
                find_gpu(" ".join(part).strip(".?!,"), knowledge.gpus) if digits and part[-1][:1].isalnum() else None
            )
            if model is not None and not _CUDA.fullmatch(" ".join(part)):
                found.append(model)
                at += length
                break
        else:
            rest.append(words[at])
            at += 1
    return tuple(dict.fromkeys(found)), " ".join(rest) if found else question


def _capabilities_in(question: str, knowledge: Knowledge) -> Iterator[Capability]:
    lowered = question.lower()
    sold = {row.capability for row in knowledge.gpus if row.kind != "jetson"}
    for row in knowledge.generations:
        if row.capability not in sold:
            continue
        name = row.architecture.lower().split(" ")[0]
        if regex(rf"\b{name}\b").search(lowered):
            yield row.capability
    for major, minor in regex(r"\bsm_?([0-9]{1,2})([0-9])\b").findall(lowered):
        yield Capability.parse(f"{major}.{minor}")


def host_of_question(asked: AskedQuestion, knowledge: Knowledge) -> HostFacts | None:
    """The host that a question describes by its driver and GPUs; ``None`` if it names no driver."""
    if not asked.driver:
        return None
    driver = Driver(version=asked.driver, cuda=knowledge.cuda_of(asked.driver))
    gpus = tuple(Gpu(index=index, name="", capability=item) for index, item in enumerate(asked.gpus))
    return HostFacts(label="the host of the question", platform=PLATFORMS[0], driver=driver, gpus=gpus)


_RESOLVE_COMMANDS = ("cuenv resolve", "cuenv lock --resolve")


def with_host_options(asked: AskedQuestion, facts: HostFacts | None) -> AskedQuestion:
    """The pages with the host of the question in commands that choose; this machine needs no options."""
    words = host_words(facts)
    if not words and len(asked.gpus) == 1:
        words = f"--gpu {asked.gpus[0]}"
    pages = (
        row.replaced(do=f"{row.do} {words}")
        if row.do.startswith(_RESOLVE_COMMANDS) and "--gpu" not in row.do and words
        else row
        for row in asked.answers
    )
    return replace(asked, answers=tuple(pages))
