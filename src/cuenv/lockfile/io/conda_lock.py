"""The only user of conda-lock: runs it whole, with the user's own client, in a scratch folder.

It is never imported: that costs several solves. What it would pick up unasked (a ``virtual-packages.yml``, an older
``conda-lock.yml``, ``CONDA_*`` variables) is not there where it runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cuenv.core.errors import ChannelError, CuenvError, InputError, OutsideError, Progress, UsageError
from cuenv.core.io.files import ls_command, private_folder
from cuenv.core.io.process import Completed, run
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import channel_url, credentials, printable, redact, short_channel, strip_credentials
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.formats.conda_lock import parse
from cuenv.lockfile.io.conda_client import Client
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, together
from cuenv.solve.io.sources import HOST, Sources, place
from cuenv.solve.model import LockedPackage, Solution, SolveRequest, Unsatisfiable


def environment_input(spec: EnvironmentSpec, channels: Iterable[str], names: Mapping[str, str], platform: str) -> str:
    """The conda part of an environment file. The pip part stays with uv, and virtual packages are no requirement here.

    Args:
        channels: as conda is told of them.
        names: what conda calls the channels that pins name.
    """
    pins = [pin for pin in joined(spec.pins) if not pin.name.startswith("__")]
    renamed = (replace(pin, channel=names.get(pin.channel, pin.channel)) for pin in pins)
    document = {
        "channels": list(channels),
        "platforms": [platform],
        "dependencies": [pin.yaml_text() for pin in renamed],
    }
    return json.dumps(document, indent=1) + "\n"


def virtual_packages(packages: Iterable[VirtualPackage], platform: str) -> str:
    """The virtual packages of a platform, as ``--virtual-package-spec`` reads them."""
    known = {package.name: _version(package) for package in packages}
    return json.dumps({"subdirs": {platform: {"packages": known}}}, indent=1) + "\n"


def joined(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """The pins with one for each name, which holds what all on that name demand of the version.

    Of several channels and builds only one can be told to conda-lock; whether its answer meets the others is asked
    afterwards.
    """
    found: dict[str, list[Pin]] = {}
    for pin in pins:
        found.setdefault(pin.name, []).append(pin)
    return tuple(same[0] if len(same) == 1 else _join(same) for same in found.values())


def _join(pins: list[Pin]) -> Pin:
    return Pin(
        name=pins[0].name,
        version=together(pin.condition() for pin in pins),
        build=max((pin.build for pin in pins), key=len),
        channel=next((pin.channel for pin in pins if pin.channel), ""),
    )


def _version(package: VirtualPackage) -> str:
    """``1 x86_64`` where the build says something; conda-lock fills in the build 0 by itself."""
    return package.version if package.build in ("", "0") else f"{package.version} {package.build}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaChannels:
    """How conda reaches channels."""

    channels: tuple[str, ...]  # what it is told to read, in order of priority
    names: Mapping[str, str]  # what it calls each channel of a requirement
    # the content of its settings file; credentials included, so never shown
    settings: Mapping[str, Any] = field(repr=False)
    links: tuple[tuple[Path, Path], ...]  # links to make, and the folders that they lead to
    origins: tuple[tuple[str, str], ...]  # pairs of a URL that conda will name and the canonical one that it stands for

    def canonical(self, package: LockedPackage) -> LockedPackage:
        """The package with the canonical URL of its channel."""
        for seen, url in self.origins:
            if package.channel == seen:
                return replace(package, channel=url, url=url + package.url[len(seen) :])
        return package


def reach(channels: Sequence[str], named: Sequence[str], sources: Sources, scratch: Path) -> CondaChannels:
    """Plan how conda reaches channels.

    Args:
        named: channels that requirements name.

    Raises:
        UsageError: a mirror is of a kind that conda cannot be told of.
        ChannelError: offline, and a channel is not a folder.
    """
    sources = sources.reaching((*channels, *named))
    plan = _Plan(sources, scratch)
    told = tuple(dict.fromkeys(plan.told(name) for name in channels))
    names = {name: plan.told(name) for name in named}
    return CondaChannels(
        channels=told,
        names=names,
        settings={**dict(_settings(sources)), "custom_channels": plan.bases, **plan.defaults},
        links=tuple(plan.links),
        origins=tuple(plan.origins),
    )


class _Plan:
    """Names channels one by one, and collects what that takes."""

    def __init__(self, sources: Sources, scratch: Path) -> None:
        self.sources = sources
        self.scratch = scratch
        self.bases: dict[str, str] = {}
        self.defaults: dict[str, list[str]] = {}
        self.links: list[tuple[Path, Path]] = []
        self.origins: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def told(self, name: str) -> str:
        if name != "defaults":
            return self.name(name)
        names = [self.name(url) for url in self.sources.default_channels]
        self.defaults = {"default_channels": [f"{self.bases[item]}/{item}" for item in names]}  # no name is looked up
        return name

    def name(self, channel: str) -> str:
        """What conda is to call a channel."""
        url = strip_credentials(channel_url(channel)).rstrip("/")
        if url not in self._names:
            self._names[url] = self._planned(url)
        return self._names[url]

    def _planned(self, url: str) -> str:
        target = self.sources.target(url)
        path = short_channel(url)
        name = path if "://" not in path else path.partition("://")[2].partition("/")[2]
        if {"", ".", ".."} & set(name.split("/")):  # a link of that name would lie elsewhere
            message = f"--engine conda-lock: {printable(path)} is not a channel that conda can use"
            raise UsageError(message, hint="leave out --engine conda-lock")
        if "://" not in target or target.startswith("file://"):
            return self._folder(url, Path(place(target)), name)
        if self.sources.offline:
            raise ChannelError(
                "--offline was given, but conda-lock does not cache "
                f"channels, and {short_channel(url)} is on the network",
                hint="leave out --engine conda-lock, or name folders with --mirror",
            )
        self.origins.append((strip_credentials(target).rstrip("/"), url))
        base, mark, last = target.rpartition(f"/{name}")
        if not mark or last or "://" not in base:
            raise UsageError(
                f"--engine conda-lock: conda reaches a mirror of {printable(path)} only where the URL ends with "
                f"/{printable(name)}, and this one is {printable(strip_credentials(target))}",
                hint="leave out --engine conda-lock, or make the mirror's last part the name of the channel",
            )
        return self._named(name, base)

    def _folder(self, url: str, folder: Path, name: str) -> str:
        if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises where a folder above cannot be searched
            message = f"channel {printable(short_channel(url))}: {printable(str(folder))} is not a folder"
            raise ChannelError(message, hint=ls_command(folder))
        base = self.scratch / str(len(self.links))
        self.links.append((base / name, folder))
        self.origins.append((f"file://{quote(str(base / name))}", url))
        return self._named(name, f"file://{quote(str(base))}")

    def _named(self, name: str, base: str) -> str:
        # Said of every channel: conda-lock would cut a channel's URL in a requirement down to its last part.
        if self.bases.get(name, base) != base:  # another host's channel of that name
            raise UsageError(
                f"--engine conda-lock: conda cannot distinguish two channels that are both called {printable(name)}",
                hint="leave out --engine conda-lock",
            )
        self.bases[name] = base
        return name


def _settings(sources: Sources) -> Iterator[tuple[str, Any]]:
    yield "channel_alias", HOST
    yield "channel_priority", "strict"
    if sources.proxies:
        yield "proxy_servers", dict(sources.proxies)
    if sources.certificates or not sources.verify:
        yield "ssl_verify", sources.certificates or False
    if sources.offline:
        yield "offline", True


_KEPT = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
    *("CONDA_SSL_VERIFY", "MAMBA_SSL_VERIFY"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CONDA_ROOT", "CONDA_SOLVER", "MAMBA_ROOT_PREFIX"),
)
"""The user's variables that conda needs to reach channels as it always does."""
_OUT = "conda-lock.yml"
_NO_MD5 = regex(r"^ +md5: ''\n", re.MULTILINE)
_UNSOLVABLE = regex(
    r"Unsatisfiable|PackagesNotFound|ResolvePackageNotFound|SpecsConfigurationConflict|Could not solve for environment|"
    r"nothing provides|incompatible with each other|not available from current channels|solver_problems"
)
_FAR = regex(
    r"CondaHTTPError|CondaSSLError|ProxyError|UnavailableInvalidChannel|ChannelDenied|OfflineError|ConnectionFailed|"
    r"Could not resolve host|Could not connect|Failed to connect|Download error|HTTP (?:000|4\d\d|5\d\d)|"
    r"status code: [45]\d\d|Transfer finalized|Timeout was reached|timed out|File not found"
)
_USER = regex(r"//[^\s/@'\"]*@")
_TOKEN = regex(r"/t/[\w-]{8,}")  # credentials in what is nearly a URL: conda mangles some when it says them
_FRAMES = (
    " ",
    "Traceback",
    "Locking dependencies",
    "The above exception",
    "During handling",
    "subprocess.CalledProcessError",
)
_HINT = "leave out --engine conda-lock: the embedded solver explains more"


def solve(
    request: SolveRequest,
    sources: Sources,
    client: Client,
    *,
    environ: Mapping[str, str],
    progress: Progress | None = None,
) -> Solution | Unsatisfiable:
    """Solve for one platform by conda-lock, channel priority strict. It knows no packages to prefer or to freeze.

    Raises:
        UsageError: a mirror is of a kind that conda cannot be told of.
        ChannelError: a channel cannot be read.
        OutsideError: conda-lock or the client failed.
    """
    with private_folder("conda-lock") as folder:
        scratch = folder.resolve()
        named = tuple(dict.fromkeys(pin.channel for pin in request.spec.pins if pin.channel))
        plan = reach(request.channels, named, sources, scratch / "channels")
        _prepare(scratch, request, plan)
        done = _run(scratch, request, client, environ, progress)
        text = _read(scratch / _OUT) if done.reason is None else None
    if text is None:
        return _failed(done, request, plan, client, sources)
    return _solution(text, request, plan, client)


def version() -> str:
    """The version of conda-lock."""
    from importlib import metadata  # noqa: PLC0415 - 20 ms that only this engine needs

    try:
        return metadata.version("conda-lock")
    except metadata.PackageNotFoundError as error:
        raise OutsideError("conda-lock is not installed", hint="pip install conda-lock") from error


def _prepare(scratch: Path, request: SolveRequest, plan: CondaChannels) -> None:
    """Write conda-lock's inputs and the client's settings, which may hold credentials: the folder is this user's."""
    environment = environment_input(request.spec, plan.channels, plan.names, request.platform)
    virtual = virtual_packages(request.virtual_packages, request.platform)
    (scratch / "environment.yml").write_text(environment, encoding="utf-8")
    (scratch / "virtual.yml").write_text(virtual, encoding="utf-8")
    (scratch / "condarc").write_text(json.dumps(dict(plan.settings), indent=1), encoding="utf-8")
    for link, folder in plan.links:
        link.parent.mkdir(parents=True)
        link.symlink_to(folder, target_is_directory=True)


def _run(
    scratch: Path, request: SolveRequest, client: Client, environ: Mapping[str, str], progress: Progress | None
) -> Completed:
    began = time.monotonic()

    def tick() -> None:
        if progress:
            progress(f"conda-lock with {client} is solving for {request.platform}: {time.monotonic() - began:.0f} s")

    settings = str(scratch / "condarc")
    more = {name: environ[name] for name in _KEPT if name in environ}
    more |= {"CONDARC": settings, "MAMBARC": settings, "TMPDIR": str(scratch)}
    more |= {"CONDA_CHANNEL_PRIORITY": "strict", "MAMBA_CHANNEL_PRIORITY": "strict"}
    if client.kind == "conda":
        more["CONDA_FLAGS"] = (
            "--no-default-packages"  # create_default_packages of the user's settings are not asked for
        )
    command = [sys.executable, "-m", "conda_lock", "lock", "--conda", client.path, "--platform", request.platform]
    command += ["--file", "environment.yml", "--virtual-package-spec", "virtual.yml"]
    command += ["--kind", "lock", "--lockfile", _OUT, "--log-level", "ERROR"]
    tick()
    return run(command, None, environ, more=more, folder=str(scratch), tick=tick)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutsideError("conda-lock succeeded but wrote no lock", hint=_HINT) from error


def _solution(text: str, request: SolveRequest, plan: CondaChannels, client: Client) -> Solution:
    try:
        read = parse(_NO_MD5.sub("", text), "the lock of conda-lock")
    except InputError as error:
        raise OutsideError(f"conda-lock wrote what cuenv cannot read: {error.message}", hint=_HINT) from error
    found = read.solution(request.platform)
    return Solution(
        platform=request.platform,
        packages=tuple(map(plan.canonical, found.packages)) if found else (),
        virtual_packages=request.virtual_packages,
        solver=f"conda-lock {version()} with {client}",
    )


def _failed(
    done: Completed, request: SolveRequest, plan: CondaChannels, client: Client, sources: Sources
) -> Unsatisfiable:
    """The value or the error that a failed run stands for."""
    said = _Said(done, plan, sources)
    if _UNSOLVABLE.search(said.kind):
        missing = [pin.yaml_text() for pin in request.spec.pins if pin.name in said.packages]
        return Unsatisfiable(platform=request.platform, missing=tuple(missing), text=said.message)
    last = " ".join(said.message.partition("\n\n")[0].split()) or done.reason
    error: CuenvError = OutsideError(f"conda-lock with {client} failed: {last}", hint=_HINT)
    if _FAR.search(said.kind):
        error = ChannelError(f"{client} cannot read a channel: {last}", hint=_HINT)
    raise error


class _Said:
    """What conda-lock passed on of the client's words, without credentials and control characters.

    Attributes:
        kind: the text that tells one failure from another.
        message: for people.
        packages: names that the client did not find at all.
    """

    _LINES, _WIDTH = 40, 500

    def __init__(self, done: Completed, plan: CondaChannels, sources: Sources) -> None:
        self._secrets = _secrets(plan, sources)
        answer = _answer(done.err)
        message = answer.get("message") or answer.get("error")
        name = answer.get("exception_name")
        self.kind = f"{name or ''} {message or ''} {' '.join(answer)}" if answer else done.err
        problems = answer.get("solver_problems")
        if isinstance(problems, list):
            message = "\n".join(str(item) for item in problems)
        # else the last lines that are no traceback: what failed, and not where in conda-lock
        last = [line for line in done.err.splitlines() if line.strip() and not line.startswith(_FRAMES)][-3:]
        lines = message.strip().splitlines() if isinstance(message, str) else last
        kept = [line for line in lines if "conda-lock-fake-repodata" not in line]
        cleaned = (self._clean(line[: 2 * self._WIDTH], plan)[: self._WIDTH] for line in kept[: self._LINES])
        self.message = "\n".join(cleaned).strip()
        listed = answer.get("packages")
        texts = [str(item) for item in listed] if isinstance(listed, list) else []
        self.packages = {re.split(r"[\s=<>!~\[]", text.rpartition("::")[2], maxsplit=1)[0] for text in texts}

    def _clean(self, text: str, plan: CondaChannels) -> str:
        for seen, url in plan.origins:
            text = text.replace(seen, url)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return printable(_TOKEN.sub("/t/***", _USER.sub("//", redact(text)))).rstrip()


def _answer(text: str) -> dict[str, object]:
    """The JSON in which the client said what is wrong; empty when there is none."""
    _, mark, rest = text.partition("    STDOUT:\n")
    try:
        found = json.JSONDecoder().raw_decode(rest[rest.index("{") :])[0] if mark else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _secrets(plan: CondaChannels, sources: Sources) -> list[str]:
    urls = [*plan.settings.get("custom_channels", {}).values(), *(url for _, url in sources.proxies)]
    pairs = [pair for url in urls if (pair := credentials(url))]
    return [secret for _, secret in pairs if len(secret) > 3]
