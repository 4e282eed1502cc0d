"""The embedded solver. Import this module lazily: it imports rattler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

from rattler import (
    ChannelPriority,
    Gateway,
    GenericVirtualPackage,
    MatchSpec,
    PackageName,
    PackageRecord,
    RepoDataRecord,
    Version,
)
from rattler import __version__ as _rattler_version
from rattler import solve as _solve
from rattler.exceptions import InvalidMatchSpecError, SolverError
from rattler.package import BuildString

from cuenv.core.errors import ChannelError, InputError, NoHashError, OutsideError, Progress
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact, short_channel, strip_credentials
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import Pin, with_named
from cuenv.solve.io.channels import Channels, Part, Source, channels_of, rattler_errors, record_day
from cuenv.solve.io.sources import Sources
from cuenv.solve.match_spec import split_name
from cuenv.solve.model import LockedPackage, Solution, SolveRequest, Unsatisfiable, parse_package_url

_BUILD_NUMBER = regex(r"_?(\d+)$")


def record_of(package: LockedPackage) -> RepoDataRecord:
    """The package for rattler. A lock does not keep the build number; by convention it ends the build string.

    Raises:
        InputError: a field is none: a name with spaces, a hash of the wrong length.
    """
    number = _BUILD_NUMBER.search(package.build)
    try:
        base = PackageRecord(
            package.name,
            package.version,
            BuildString.new_unchecked(package.build),
            int(number[1]) if number else 0,
            package.subdir,
            depends=list(package.depends),
            constrains=list(package.constrains),
            size=package.size,
            sha256=bytes.fromhex(package.sha256) if package.sha256 else None,
            md5=bytes.fromhex(package.md5) if package.md5 else None,
        )
        return RepoDataRecord(base, package.url.rpartition("/")[2], package.url, package.channel)
    except Exception as error:
        shown = printable(redact(f"{package.name} {package.version} {package.build} ({package.url})"))
        raise InputError(f"{shown} is not a package: {printable(str(error))}") from error


_NOWHERE = "https://virtual.invalid"  # the channel of virtual packages: a record needs one


def unmet(pins: Iterable[Pin], solution: Solution, channels: Sequence[str], sources: Sources) -> Iterator[str]:
    """Say what a solved environment does not meet: requirements of the file, of its packages, and where they come from.

    A requirement that rattler cannot read is not judged.

    Args:
        pins: of the environment file.
        solution: the answer, with its packages as their channels record them.
        channels: of the environment file.
        sources: what ``defaults`` stands for.
    """
    there = {package.name: package for package in solution.packages}
    there |= {package.name: _as_package(package, solution.platform) for package in solution.virtual_packages}
    for pin in pins:
        text = pin.match_spec().rpartition("::")[2] if pin.name.startswith("__") else pin.match_spec()
        package = there.get(pin.name)
        if package is None or not matches(text, package):
            yield f"{pin.yaml_text()}: {_found_text(package)}"
    known = sources.reaching(channels).urls(channels)
    for package in solution.packages:
        if package.channel not in known:
            yield f"{package.name} comes from {short_channel(strip_credentials(package.channel))}"
        yield from _unmet_by_package(package, there)


def _unmet_by_package(package: LockedPackage, there: Mapping[str, LockedPackage]) -> Iterator[str]:
    """What the requirements of one package do not get."""
    for text in package.depends:
        other = there.get(split_name(text)[0])
        if is_match_spec(text) and (other is None or not matches(text, other)):
            yield f"{package.name} needs {text}: {_found_text(other)}"
    for text in package.constrains:
        other = there.get(split_name(text)[0])
        if other and is_match_spec(text) and not matches(text, other):
            yield f"{package.name} allows {text}: {_found_text(other)}"


def _as_package(package: VirtualPackage, platform: str) -> LockedPackage:
    return LockedPackage(
        name=package.name,
        version=package.version,
        build=package.build,
        subdir=platform,
        channel=_NOWHERE,
        url=f"{_NOWHERE}/{platform}/{package.name}-{package.version}-{package.build}.conda",
        md5=None,
        sha256=None,
    )


def _found_text(package: LockedPackage | None) -> str:
    if package is None:
        return "it does not exist"
    home = f"{package.channel_name}::" if not package.name.startswith("__") else ""
    return f"there is {home}{package.name} {package.version} {package.build}"


SOLVER = f"py-rattler {_rattler_version}"  # what `Solution.solver` says

_INDEX = "index the channel again: conda index DIR, or read it elsewhere: --mirror"
_UNSOLVABLE = "Cannot solve the request because of:"


def solve(request: SolveRequest, sources: Sources, *, progress: Progress | None = None) -> Solution | Unsatisfiable:
    """Solve for one platform, channel priority strict, existing packages preferred.

    Raises:
        InputError: rattler does not understand a pin.
        ChannelError: a channel cannot be read, or a chosen record has no hash.
        OutsideError: the solver failed.
    """
    names = with_named(request.channels, request.spec.pins)
    channels = channels_of(sources.reaching(names))
    specs = [parse_spec(pin) for pin in request.spec.pins]
    virtual = [virtual_package(package) for package in request.virtual_packages]
    with rattler_errors("the solver failed"):
        parts = channels.open(names, request.platform, progress)
        locked = _preferred_records(channels, parts, request)
        frozen = [spec for item in request.frozen if (spec := match_spec_or_none(_exact_spec(item))) is not None]
        if progress:
            progress(f"solving for {request.platform}")

        async def question(gateway: Gateway, handles: list[Source], *, undated: bool = False) -> list[RepoDataRecord]:
            return await _solve(
                handles,
                specs,
                gateway=gateway,
                platforms=[request.platform, "noarch"],  # type: ignore[list-item] # any subdir
                locked_packages=locked,
                virtual_packages=virtual,
                constraints=frozen,
                channel_priority=ChannelPriority.Strict,
                channel_relations="disabled",
                exclude_newer=channels.cutoff,
                timestamp_policy="allow-missing" if undated else "require-timestamp",
            )

        try:
            records = channels.ask(parts, question)
        except SolverError as error:
            more = partial(question, undated=bool(sources.as_of))  # what tells no day counts where nothing else does
            if not (channels.removed_wrong_shards() or sources.as_of):
                return _unsatisfiable(request, channels, parts, error)
            try:
                records = channels.ask(parts, more)
            except SolverError as again:
                return _unsatisfiable(request, channels, parts, again)
    undated = [item for item in records if sources.as_of and record_day(item) is None]
    found = (locked_package(record, request.platform, channels.sources) for record in records)
    packages = sorted(found, key=lambda package: package.name)
    return Solution(
        platform=request.platform,
        packages=tuple(packages),
        virtual_packages=request.virtual_packages,
        solver=SOLVER,
        undated=tuple(sorted(f"{item.name.normalized} {item.version}" for item in undated)),
    )


def open_ahead(channels: Sequence[str], platform: str, sources: Sources) -> None:
    """Begin to read the channels that are folders, for a solve that will come."""
    channels_of(sources.reaching(channels)).open_ahead(channels, platform)


def pins_without_record(
    pins: Iterable[Pin], channels: Sequence[str], platform: str, sources: Sources
) -> tuple[Pin, ...]:
    """The pins that no record of the channels satisfies: a cheap answer before a solve.

    Answers are kept for the life of the process, so that many candidates cost little. Virtual packages are not asked.
    """
    asked = tuple(pins)
    names = with_named(channels, asked)
    opened = channels_of(sources.reaching(names))
    with rattler_errors("the channels cannot be asked"):
        parts = opened.open(names, platform)
        return tuple(
            pin for pin in asked if not pin.name.startswith("__") and not _exists(opened, parts, platform, pin)
        )


def matches(match_spec: str, package: LockedPackage) -> bool:
    """Whether a locked package satisfies a match spec, by rattler's own rules; ``False`` where one of them is none."""
    spec = match_spec_or_none(match_spec)
    try:
        return spec is not None and is_from_channel(spec, package.channel) and spec.matches(record_of(package))
    except InputError:
        return False


def is_match_spec(match_spec: str) -> bool:
    """Whether rattler reads a match spec at all."""
    return match_spec_or_none(match_spec) is not None


def records_of_packages(
    packages: Sequence[LockedPackage], channels: Sequence[str], platform: str, sources: Sources
) -> dict[str, LockedPackage]:
    """The records of packages that another solver chose, by `url_stem`: a record may be of the other archive format."""
    wanted = {url_stem(package.url) for package in packages}
    opened = channels_of(sources.reaching(channels))
    with rattler_errors("the channels cannot be asked"):
        parts = opened.open(channels, platform)
        specs = [spec for item in packages if (spec := match_spec_or_none(_exact_spec(item))) is not None]
        records = opened.find(parts, platform, specs)
        mine = [item for item in records if url_stem(_url(item, opened.sources)) in wanted]
        found = [locked_package(item, platform, opened.sources) for item in mine]
    return {url_stem(package.url): package for package in found}


def url_stem(url: str) -> str:
    """The URL of a package without the ending that names its archive format."""
    return url.removesuffix(".conda").removesuffix(".tar.bz2")


def parse_spec(pin: Pin) -> MatchSpec:
    """A pin as a match spec of rattler."""
    text = pin.match_spec()
    try:
        return MatchSpec(text, strict=True)
    except (InvalidMatchSpecError, ValueError) as error:
        message = f"{printable(pin.yaml_text())!r} is not a package requirement: {printable(str(error))}"
        raise InputError(message, hint="write name, name=1.2, name>=1.2,<2 or name=1.2.3=build*") from error


def _exists(channels: Channels, parts: tuple[Part, ...], platform: str, pin: Pin) -> bool:
    key = (parts, pin.match_spec())
    if key not in channels.answers:
        spec = parse_spec(pin)
        found = channels.find(parts, platform, [spec])
        channels.answers[key] = any(is_from_channel(spec, record.channel) for record in found)
    return channels.answers[key]


def is_from_channel(spec: MatchSpec, channel: str | None) -> bool:
    """Whether the spec names no channel or this one. ``MatchSpec.matches`` does not look (rattler 0.28)."""
    wanted = spec.channel
    return wanted is None or strip_credentials(wanted.base_url).rstrip("/") == strip_credentials(channel or "").rstrip(
        "/"
    )


def _unsatisfiable(
    request: SolveRequest, channels: Channels, parts: tuple[Part, ...], error: SolverError
) -> Unsatisfiable:
    """The solver's refusal, with the entries that no record satisfies."""
    text = str(error)
    if not text.startswith(_UNSOLVABLE):
        message = f"the solver failed: {printable(redact(text))}"
        raise OutsideError(message, hint="cuenv lock --engine conda-lock") from error
    missing = [
        pin.yaml_text()
        for pin in request.spec.pins
        if not pin.name.startswith("__") and not _exists(channels, parts, request.platform, pin)
    ]
    return Unsatisfiable(
        platform=request.platform,
        missing=tuple(missing),
        text=printable(redact(text)).strip(),
        as_of=channels.sources.as_of,
    )


def _preferred_records(channels: Channels, parts: tuple[Part, ...], request: SolveRequest) -> list[RepoDataRecord]:
    """The channel records of the packages to prefer. Those whose record is gone are dropped."""
    wanted = {package.url for package in request.prefer}
    specs = [spec for item in request.prefer if (spec := match_spec_or_none(_exact_spec(item))) is not None]
    return [
        record for record in channels.find(parts, request.platform, specs) if _url(record, channels.sources) in wanted
    ]


def _exact_spec(package: LockedPackage) -> str:
    return f"{package.name}[version='=={package.version}',build='{package.build}']"


def _url(record: RepoDataRecord, sources: Sources) -> str:
    """The canonical URL of a record. A mirror may name itself in its repodata (``base_url``, CEP 15)."""
    url, channel = strip_credentials(record.url), strip_credentials(record.channel or "").rstrip("/")
    if url.startswith(f"{channel}/{record.subdir}/") or sources.target(channel) == channel:
        return url
    return f"{channel}/{record.subdir}/{url.rpartition('/')[2]}"


def locked_package(record: RepoDataRecord, platform: str, sources: Sources) -> LockedPackage:
    """A record as a lock keeps it.

    Raises:
        ChannelError: a lock cannot keep it: it has no hash, or is not what its file name says.
    """
    channel = strip_credentials(record.channel or "").rstrip("/")
    package = LockedPackage(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        subdir=record.subdir,
        channel=channel,
        url=_url(record, sources),
        md5=record.md5.hex() if record.md5 else None,
        sha256=record.sha256.hex() if record.sha256 else None,
        size=record.size,
        depends=tuple(record.depends),
        constrains=tuple(record.constrains),
    )
    where = (
        f"channel {short_channel(channel)}, {printable(package.subdir)}: {printable(package.name)} {package.version}"
    )
    texts = (package.build, package.url, *package.depends, *package.constrains)
    if not all(text.isprintable() for text in texts) or " " in package.build + package.url:
        raise ChannelError(f"{where} has control characters or spaces in its record", hint=_INDEX)
    if _parts_of_file_name(package.url) != (package.name, package.version.lower(), package.build):
        file = printable(package.url.rpartition("/")[2])
        raise ChannelError(f"{where} {package.build} does not match its file name: {file}", hint=_INDEX)
    if package.subdir not in {platform, "noarch"}:
        raise ChannelError(f"{where} says that it is for {printable(package.subdir)}, not for {platform}", hint=_INDEX)
    if not (package.sha256 or package.md5):
        message = f"{where} has neither sha256 nor md5: a lock file cannot pin it"
        hint = f"index the channel again, or exclude the package: --with '{package.name}!={package.version}'"
        raise NoHashError(message, hint=hint)
    return package


def _parts_of_file_name(url: str) -> tuple[str, str, str] | None:
    """What the file name of a package says that it is (CEP 26); a lock that says otherwise would not be read again."""
    try:
        parts = parse_package_url(url)
    except ValueError:
        return None
    return parts.name.lower(), parts.version.lower(), parts.build


@lru_cache(maxsize=4096)
def match_spec_or_none(text: str) -> MatchSpec | None:
    """A match spec; ``None`` where rattler cannot read it."""
    try:
        return MatchSpec(text)
    except (InvalidMatchSpecError, ValueError):
        return None


def virtual_package(package: VirtualPackage) -> GenericVirtualPackage:
    """A virtual package for rattler."""
    try:
        return GenericVirtualPackage(
            PackageName(package.name), Version(package.version), BuildString.new_unchecked(package.build)
        )
    except Exception as error:
        raise InputError(f"virtual package {printable(str(package))}: {printable(str(error))}") from error
