"""What every export has, and the export of a lock or a decision as a container."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import is_file, path_text
from cuenv.core.io.products import write_product
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.export.container import ContainerContent, Refused, Stages, content_of_decision, content_of_lock, stages
from cuenv.export.dockerfile import (
    WORK,
    Recipe,
    render_apptainer,
    render_devcontainer,
    render_dockerfile,
    render_dockerignore,
)
from cuenv.export.io.own_wheel import find_cuenv
from cuenv.export.tables import Delivery, Image, load_delivery
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.files import environment_files, lock_file_there, read_environment, read_lock, recorded_host
from cuenv.lockfile.formats import requirements_txt
from cuenv.resolver.solution_policy import edit_findings
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock, content_digest

if TYPE_CHECKING:  # types alone
    from cuenv.export.documents import ExportDocument, ExportFields, ExportKind

ContainerKind = Literal["apptainer", "devcontainer", "dockerfile"]
_DIGEST = regex(r"(?P<image>[^\s=@]+:[^\s=@/:]+)=(?P<digest>sha256:[0-9a-f]{64})")


def _nothing() -> ExportFields:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export."""

    kind: ExportKind  # the command that wrote it
    files: Mapping[str, str] = field(default_factory=dict)  # the texts by name, the first of them the product
    talk: tuple[str, ...] = ()  # what to say about it
    more: ExportFields = field(default_factory=_nothing)
    # of cuenv, by its name, for the files to install from; empty where a URL brings it
    wheel: tuple[str, bytes] | None = None
    refused: Refused | None = None  # why there is nothing, and what would help

    @property
    def product(self) -> str:
        """The text of the first file; empty if there is none."""
        return next(iter(self.files.values()), "")

    def plain(self, written: Iterable[Path] = ()) -> ExportDocument:
        """The result as JSON (schema ``cuenv/export/1``)."""
        because = self.refused.because if self.refused else None
        return {
            "schema": "cuenv/export/1",
            "kind": self.kind,
            "refused": because,
            **self.more,
            "files": dict(self.files),
            "written": [str(path) for path in written],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The request for a container."""

    kind: ContainerKind = "dockerfile"
    host: HostOptions
    request: Request = field(default_factory=Request)
    name: str = "cuenv"
    lock: Path | None = None  # its file; ``None`` for a decision
    folder: Path | None = None  # what the image is built from; ``None`` for the folder of the lock
    base: str = "auto"  # one of `cuenv.export.tables.BASES`
    cuenv: str | None = None  # a wheel, or a URL with its hash; the wheel of the running one when ``None``
    digests: tuple[str, ...] = ()  # ``IMAGE:TAG=sha256:...`` as it was typed


def export_container(asked: ExportRequest, knowledge: Knowledge) -> Exported:
    """A Dockerfile and its ``.dockerignore``, both with a ``devcontainer.json``, or a definition file of Apptainer.

    They are made from a lock or from a decision.

    Raises:
        UsageError: a digest or image that is none, or a lock outside of the folder.
        InputError: the lock cannot be read, or holds what no Dockerfile can.
    """
    delivery, digests = load_delivery(), parse_digests(asked.digests)
    made = _of_lock(asked.lock, asked, knowledge) if asked.lock else _of_decision(asked, knowledge)
    if isinstance(made, Refused):
        return Exported(kind=asked.kind, refused=made)
    content, about, files, notes = made
    chosen = stages(content, delivery, asked.base)
    if asked.kind != "dockerfile" and isinstance(chosen, Stages) and chosen.base == "pytorch":
        chosen = stages(content, delivery, "cuda")  # the check of the host lies beside an environment of its own
    if isinstance(chosen, Refused):
        return Exported(kind=asked.kind, refused=chosen)
    unused = sorted(set(digests) - {image.name for image in chosen.images})
    if unused:
        used = ", ".join(image.name for image in chosen.images)
        message = f"--digest {unused[0]}: that image is not used; used are {used}"
        raise UsageError(message, hint=f"cuenv export {asked.kind} --digest {chosen.images[0].name}=sha256:...")
    glibc = ("--glibc", str(chosen.build.glibc)) if content.host and chosen.build.glibc else ()
    mine = find_cuenv(asked.cuenv)
    recipe = Recipe(
        command=asked.kind,
        cuenv=mine.requirement(WORK),
        wheel=mine.name,
        content=replace(content, host=(*content.host, *glibc)),
        stages=chosen,
        sources={image.name: _source(image, delivery) for image in chosen.images},
        digests=digests,
        notes=notes,
        **(about if chosen.base != "pytorch" else {"origin": about["origin"]}),
    )
    texts = _texts(recipe, asked)
    return Exported(
        kind=asked.kind,
        files={**texts, **(files if chosen.base != "pytorch" else {})},
        wheel=mine.beside,
        talk=(
            *(f"warning {note}" for note in notes),
            f"from    {about['origin']}",
            f"base    {chosen.base}: {chosen.why[0]}",
            *(f"        {why}" for why in chosen.why[1:]),
            f"images  {', '.join(image.name for image in chosen.images)}",
            f"cuenv   {mine.url or f'{mine.name}, SHA-256 {mine.sha256[:16]}..., in the folder that it is built from'}",
        ),
        more={
            "cuenv": mine.plain(),
            "base": chosen.base,
            "why": list(chosen.why),
            "images": [{"image": image.name, "digest": digests.get(image.name)} for image in chosen.images],
        },
    )


def _texts(recipe: Recipe, asked: ExportRequest) -> dict[str, str]:
    """The files of a kind of container, the product first."""
    if asked.kind == "apptainer":
        return {"apptainer.def": render_apptainer(recipe)}
    if asked.kind == "devcontainer":
        return render_devcontainer(recipe, asked.name)
    return {"Dockerfile": render_dockerfile(recipe), ".dockerignore": render_dockerignore(recipe)}


def _source(image: Image, delivery: Delivery) -> str:
    first = delivery.sources[image.sources[0]]
    return f"{first.title} ({first.publisher}{', low confidence: ' + image.note if image.low else ''})"


_Made = tuple[ContainerContent, dict[str, str], dict[str, str], tuple[str, ...]]


def _of_lock(path: Path, asked: ExportRequest, knowledge: Knowledge) -> _Made | Refused:
    path, lock, spec = read_lock_with_spec(path)
    if not lock.solutions:
        raise InputError(f"{path_text(path)} holds no packages", hint="cuenv lock")
    facts = host_for_export(lock, asked.host, knowledge)
    try:
        content = content_of_lock(lock, spec, knowledge, host_words(facts) if facts else ())
    except ValueError as error:
        raise InputError(f"{path_text(path)}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    kind = "conda-lock" if lock.metadata or lock.channels or len(lock.solutions) > 1 else "explicit"
    folder = asked.folder or path.parent
    beside = requirements_txt.FORMAT.path(path.parent, content.platforms[0])
    requirements = _inside(beside, folder, asked.kind) if kind == "explicit" and is_file(beside) else ""
    origin = f"{path.name}, content {content_digest(lock.solutions)[:16]}"
    about = {"kind": kind, "file": _inside(path, folder, asked.kind), "requirements": requirements, "origin": origin}
    notes = [item.message for item in edit_findings(lock)]
    aside = [item.text for solution in lock.solutions[:1] for item in solution.aside]
    if aside:
        notes.append(f"the image lacks the pip requirements that the lock does not pin: {', '.join(aside)}")
    elif spec and spec.pip and not lock.pip:
        notes.append(f"the pip packages are not locked, so they are not in the image: {redact(', '.join(spec.pip))}")
    if content.cuda and not content.host:
        notes.append("neither the options nor the lock name a GPU, so the check ignores GPUs; add --gpu and --driver")
    return content, about, {}, tuple(notes)


def _of_decision(asked: ExportRequest, knowledge: Knowledge) -> _Made | Refused:
    from cuenv.resolver.explain import chosen_line, request_options  # noqa: PLC0415 - only without a lock
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - as above
    from cuenv.solve.environment_yml import render as environment  # noqa: PLC0415 - as above

    facts = host_facts(asked.host, knowledge, asked.request)
    answer = resolve(facts, asked.request, knowledge, name=asked.name)
    if answer.spec is None or not answer.fits:
        again = shlex.join(["cuenv", "resolve", *asked.host.words, *request_options(asked.request)])
        return Refused("no candidate fits this host and this request", again)
    if any(not item.isprintable() for item in answer.spec.pip):
        raise InputError("a pip requirement contains unprintable characters", hint="write --with 'pip:...' again")
    content = content_of_decision(answer.decision, answer.spec, host_words(facts))
    line = chosen_line(answer.decision)
    about = {"kind": "environment", "file": "environment.yml", "requirements": "", "origin": f"a decision: {line}"}
    return content, about, {"environment.yml": environment(answer.spec)}, ()


def read_lock_with_spec(path: Path) -> tuple[Path, Lock, EnvironmentSpec | None]:
    """A lock, its file, and its environment file if that lies beside it.

    Raises:
        InputError: one of them cannot be read.
    """
    path = lock_file_there(path)
    lock = read_lock(path)
    file = next(environment_files(lock, path.parent), None)
    return path, lock, read_environment(file)[0] if file else None


def host_for_export(lock: Lock, options: HostOptions, knowledge: Knowledge) -> HostFacts | None:
    """The host of the options, otherwise the host for which the lock was made; ``None`` if it names none."""
    if options.given:
        return host_facts(options, knowledge)
    return recorded_host(lock, HostFacts(label="", platform=""), knowledge)


def host_words(facts: HostFacts) -> tuple[str, ...]:
    """The options that name the GPUs and the driver of a host without a record of it."""
    words = [word for item in facts.capabilities for word in ("--gpu", str(item))]
    if words and facts.driver and facts.driver.version:
        words += ["--driver", facts.driver.version]
    return tuple(words)


def parse_digests(texts: Iterable[str]) -> dict[str, str]:
    """The digests of images, by image and tag.

    Raises:
        UsageError: one is not ``IMAGE:TAG=sha256:`` and 64 hex digits.
    """
    found = {}
    for text in texts:
        parts = _DIGEST.fullmatch(text)
        if not parts:
            message = f"--digest {text!r} is not IMAGE:TAG=sha256: and 64 hex digits"
            raise UsageError(message, hint="docker buildx imagetools inspect debian:12-slim")
        found[parts["image"]] = parts["digest"]
    return found


def _inside(path: Path, folder: Path, kind: str) -> str:
    """The path relative to the folder from which the image is built.

    Raises:
        UsageError: it lies outside.
    """
    place, root = path.resolve(), folder.resolve()
    if not place.is_relative_to(root):
        message = f"{path_text(path)} is outside {path_text(folder)}, from which the build copies files"
        hint = f"cuenv export {kind} {shlex.quote(str(path))} -o {shlex.quote(str(path.parent))}"
        raise UsageError(message, hint=hint)
    return str(place.relative_to(root))


def save(files: Mapping[Path, str], own: str) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """Write files atomically; a file that cuenv did not write is kept as ``.bak``.

    Returns:
        What was written, and what was kept aside as what.

    Raises:
        OutsideError: one cannot be written.
    """
    kept = [(path, write_product(path, text, own)) for path, text in files.items()]
    return tuple(files), tuple((path, aside) for path, aside in kept if aside)
