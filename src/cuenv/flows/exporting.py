"""Export: an environment as files that build it, check it, or find its compiler somewhere else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuenv import __version__
from cuenv.delivery.container import Content, Refused, Stages, stages
from cuenv.delivery.content import content_of_decision, content_of_lock
from cuenv.delivery.tables import Delivery, Image
from cuenv.environment import EnvironmentSpec
from cuenv.errors import InputError, UsageError
from cuenv.facts import HostFacts
from cuenv.flows.exporting_self import Own, own
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.lock_files import environment_files, lock_there, read_environment, read_lock, recorded_host
from cuenv.formats.dockerfile_write import WORK, Recipe, ignore, render
from cuenv.knowledge import Knowledge
from cuenv.lock_laws import edited
from cuenv.lockfile import Lock, content_digest
from cuenv.profile import Profile
from cuenv.urls import redact
from cuenv.world.delivery import load_delivery
from cuenv.world.files import is_file, shown
from cuenv.world.products import write_product

_DIGEST = re.compile(r"(?P<image>[^\s=@]+:[^\s=@/:]+)=(?P<digest>sha256:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What came of an export.

    Attributes:
        kind: ``dockerfile``, ``github-action`` or ``shell``.
        files: the texts by name, the first of them the product.
        talk: what to say about it.
        more: for JSON, besides.
        wheel: of cuenv, by its name, for the files to install from; empty where a URL brings it.
        refused: why there is nothing, and what would help.
    """

    kind: str
    files: Mapping[str, str] = field(default_factory=dict)
    talk: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    wheel: tuple[str, bytes] | None = None
    refused: Refused | None = None

    @property
    def product(self) -> str:
        """The text of the first file; empty when there is none."""
        return next(iter(self.files.values()), "")

    def plain(self, written: Iterable[Path] = ()) -> dict[str, Any]:
        """As plain data, schema ``cuenv/export/1``."""
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
class Asked:
    """What a container is asked for.

    Attributes:
        lock: its file; ``None`` for a decision.
        folder: what the image is built from; ``None`` for the folder of the lock.
        base: one of `cuenv.delivery.container.BASES`.
        cuenv: a wheel, or a URL with its hash; the wheel of the running one when ``None``.
        digests: ``IMAGE:TAG=sha256:...`` as it was typed.
    """

    host: HostOptions
    wish: Profile = field(default_factory=Profile)
    name: str = "cuenv"
    lock: Path | None = None
    folder: Path | None = None
    base: str = "auto"
    cuenv: str | None = None
    digests: tuple[str, ...] = ()


def export_dockerfile(asked: Asked, knowledge: Knowledge) -> Exported:
    """A Dockerfile and its ``.dockerignore``, from a lock or from a decision.

    Raises:
        UsageError: a digest or image that is none, or a lock outside of the folder.
        InputError: the lock cannot be read, or holds what no Dockerfile can.
    """
    delivery, digests = load_delivery(), parse_digests(asked.digests)
    made = _of_lock(asked.lock, asked, knowledge) if asked.lock else _of_decision(asked, knowledge)
    if isinstance(made, Refused):
        return Exported(kind="dockerfile", refused=made)
    content, about, files, notes = made
    chosen = stages(content, delivery, asked.base)
    if isinstance(chosen, Refused):
        return Exported(kind="dockerfile", refused=chosen)
    unused = sorted(set(digests) - {image.name for image in chosen.images})
    if unused:
        used = ", ".join(image.name for image in chosen.images)
        raise UsageError(
            f"--digest {unused[0]}: that image is not used; used are {used}",
            hint=f"cuenv export dockerfile --digest {chosen.images[0].name}=sha256:...",
        )
    glibc = ("--glibc", str(chosen.build.glibc)) if content.host and chosen.build.glibc else ()
    mine = own(asked.cuenv)
    recipe = Recipe(
        version=__version__,
        cuenv=mine.requirement(WORK),
        wheel=mine.name,
        content=replace(content, host=(*content.host, *glibc)),
        stages=chosen,
        sources={image.name: _source(image, delivery) for image in chosen.images},
        digests=digests,
        notes=notes,
        **(about if chosen.base != "pytorch" else {"origin": about["origin"]}),
    )
    texts = {"Dockerfile": render(recipe), ".dockerignore": ignore(recipe)}
    return Exported(
        kind="dockerfile",
        files={**texts, **(files if chosen.base != "pytorch" else {})},
        wheel=(mine.name, mine.data) if mine.name else None,
        talk=(*(f"warning {note}" for note in notes), *_choice(chosen, about["origin"]), own_line(mine)),
        more={
            "cuenv": {"url": mine.url or None, "wheel": mine.name or None, "sha256": mine.sha256 or None},
            "base": chosen.base,
            "why": list(chosen.why),
            "images": [{"image": image.name, "digest": digests.get(image.name)} for image in chosen.images],
        },
    )


def _choice(chosen: Stages, origin: str) -> Iterable[str]:
    yield f"from    {origin}"
    yield f"base    {chosen.base}: {chosen.why[0]}"
    yield from (f"        {why}" for why in chosen.why[1:])
    names = [image.name for image in chosen.images]
    yield f"images  {', '.join(names)}"


def own_line(mine: Own) -> str:
    """Which cuenv will be installed."""
    return f"cuenv   {mine.url or f'{mine.name}, SHA-256 {mine.sha256[:16]}..., in the folder that it is built from'}"


def _source(image: Image, delivery: Delivery) -> str:
    first = delivery.sources[image.sources[0]]
    return f"{first.title} ({first.publisher}{', low confidence: ' + image.note if image.low else ''})"


_Made = tuple[Content, dict[str, str], dict[str, str], tuple[str, ...]]


def _of_lock(path: Path, asked: Asked, knowledge: Knowledge) -> _Made | Refused:
    path, lock, spec = lock_at(path)
    if not lock.solutions:
        raise InputError(f"{shown(path)} holds no packages", hint="cuenv lock")
    facts = host_of(lock, asked.host, knowledge)
    try:
        content = content_of_lock(lock, spec, knowledge, host_words(facts) if facts else ())
    except ValueError as error:
        raise InputError(f"{shown(path)}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    kind = "conda-lock" if lock.metadata or lock.channels or len(lock.solutions) > 1 else "explicit"
    folder = asked.folder or path.parent
    beside = path.parent / f"requirements-{content.platforms[0]}.lock.txt"
    requirements = _inside(beside, folder) if kind == "explicit" and is_file(beside) else ""
    origin = f"{path.name}, content {content_digest(lock.solutions)[:16]}"
    about = {"kind": kind, "file": _inside(path, folder), "requirements": requirements, "origin": origin}
    notes = [item.message for item in edited(lock)]
    if spec and spec.pip and not lock.pip:
        notes.append(f"what pip adds is not locked, and not in the image: {redact(', '.join(spec.pip))}")
    if content.cuda and not content.host:
        notes.append("no GPU is named here or in the lock, so the check judges none; --gpu and --driver name them")
    return content, about, {}, tuple(notes)


def _of_decision(asked: Asked, knowledge: Knowledge) -> _Made | Refused:
    from cuenv.explain import chosen_line  # noqa: PLC0415 - only without a lock
    from cuenv.flows.resolving import resolve  # noqa: PLC0415 - as above
    from cuenv.formats.environment_yml import render as environment  # noqa: PLC0415 - as above

    facts = host_facts(asked.host, knowledge, asked.wish)
    answer = resolve(facts, asked.wish, knowledge, name=asked.name)
    if answer.spec is None or not answer.fits:
        return Refused("nothing fits this host and these wishes", "cuenv resolve says why")
    if any(not item.isprintable() for item in answer.spec.pip):
        raise InputError("a requirement for pip holds characters that do not print", hint="write --with 'pip:...' anew")
    content = content_of_decision(answer.decision, answer.spec, host_words(facts))
    line = chosen_line(answer.decision)
    about = {"kind": "environment", "file": "environment.yml", "requirements": "", "origin": f"a decision: {line}"}
    return content, about, {"environment.yml": environment(answer.spec)}, ()


def lock_at(path: Path) -> tuple[Path, Lock, EnvironmentSpec | None]:
    """A lock, its file, and the environment file that it names where that lies beside it.

    Raises:
        InputError: one of them cannot be read.
    """
    path = lock_there(path)
    lock = read_lock(path)
    file = next(environment_files(lock, path.parent), None)
    return path, lock, read_environment(file)[0] if file else None


def host_of(lock: Lock, options: HostOptions, knowledge: Knowledge) -> HostFacts | None:
    """The host of the options, else the one that the lock was made for; ``None`` when it remembers none."""
    if options.given:
        return host_facts(options, knowledge)
    return recorded_host(lock, HostFacts(label="", platform=""), knowledge)


def host_words(facts: HostFacts) -> tuple[str, ...]:
    """Options that name the GPUs and the driver of a host where none of its records is at hand."""
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
            raise UsageError(
                f"--digest {text!r} is not IMAGE:TAG=sha256: and 64 hex digits",
                hint="docker buildx imagetools inspect debian:12-slim",
            )
        found[parts["image"]] = parts["digest"]
    return found


def _inside(path: Path, folder: Path) -> str:
    """The path inside the folder that an image is built from.

    Raises:
        UsageError: it lies outside.
    """
    place, root = path.resolve(), folder.resolve()
    if not place.is_relative_to(root):
        raise UsageError(
            f"{shown(path)} lies outside of {shown(folder)}, and a build copies nothing from outside",
            hint=f"cuenv export dockerfile {shlex.quote(str(path))} -o {shlex.quote(str(path.parent))}",
        )
    return str(place.relative_to(root))


def save(files: Mapping[Path, str], own: str) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """Write files, each of them whole or not at all; one that somebody else wrote is kept beside as ``.bak``.

    Returns:
        What was written, and what was kept aside as what.

    Raises:
        OutsideError: one cannot be written.
    """
    kept = [(path, write_product(path, text, own)) for path, text in files.items()]
    return tuple(files), tuple((path, aside) for path, aside in kept if aside)
