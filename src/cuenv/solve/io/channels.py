"""Channels opened through rattler, once per process. Import this module lazily: rattler costs 30 to 60 ms.

Folders become `SparseRepoData` under their canonical channel, so that ``channel::package`` pins match and the lock
keeps canonical URLs; a ``file://`` channel would break both, and rattler's mirror middleware refuses it. Channels on
the network go through rattler's gateway, a mirror through its mirror middleware.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import finalize

from rattler import Channel, Gateway, MatchSpec, PackageName, RepoDataRecord, SourceConfig, SparseRepoData
from rattler.exceptions import GatewayError
from rattler.networking import Client

from cuenv.core.errors import ChannelError, CuenvError, InputError, OutsideError, Progress
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact, short_channel, strip_credentials
from cuenv.solve.io import channel_errors
from cuenv.solve.io.cache import unwritable, use
from cuenv.solve.io.sources import Sources

if TYPE_CHECKING:
    from cuenv.solve.io.relay import Relay

_SHARD = regex(r"([0-9a-f]{64})\.msgpack")
_BIN32 = b"\xc4\x20"
_MAX_NAME = 128


IN_USE = ".cuenv-in-use"  # the file in a folder of repodata that everybody holds who reads channels into it
_ABANDONED = ".tmp*"  # what rattler leaves behind when it is stopped
_PARTIAL = "coming/*"  # downloads that broke off, which the next run goes on with
_PARTIAL_DAYS = 7  # days after which nobody does
_cache_locks: dict[Path, int] = {}


def use_repodata_cache(sources: Sources) -> None:
    """Use the cache of repodata; what was left by others who were stopped goes, if nobody else is at work there."""
    folder = sources.repodata_folder()
    if folder in _cache_locks:
        return
    use(sources)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise unwritable(folder, error) from error
    _cache_locks[folder] = handle
    with contextlib.suppress(OSError):  # somebody is at work, or the file system knows no locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in folder.glob(_ABANDONED):
            with contextlib.suppress(OSError):
                path.unlink()
        for path in folder.glob(_PARTIAL):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _PARTIAL_DAYS * 86400:
                    path.unlink()
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_SH)  # who sweeps is done at once


def remove_repodata(folder: Path, channel: str, subdir: str) -> bool:
    """Remove the repodata of one subdir, so that it is fetched anew.

    Args:
        channel: canonical URL.

    Returns:
        whether there was something to remove.
    """
    found = False
    for state in folder.glob("*.info.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if str(json.loads(state.read_bytes()).get("url")).startswith(f"{channel}/{subdir}/"):
                state.unlink()
                state.with_name(state.name.replace(".info.json", ".json")).unlink()
                found = True
    return found


def remove_wrong_shards(folder: Path) -> bool:
    """Remove the shards that are not of the package that the indexes of the cache say (CEP 16).

    Returns:
        whether there was one.
    """
    indexes = [data for path in folder.glob("*.shards-cache-v1") if (data := _content(path))]
    found = False
    for path in (folder / "shards-v1").glob("*.msgpack"):
        name = _SHARD.fullmatch(path.name)
        package = (
            next(filter(None, (_package_of_shard(data, bytes.fromhex(name[1])) for data in indexes)), None)
            if name
            else None
        )
        if package is None:
            continue
        shard = _content(path)
        if b"\xa4name" in shard and b"\xa4name" + _packed(package) not in shard:
            with contextlib.suppress(OSError):
                path.unlink()
                found = True
    return found


def _package_of_shard(index: bytes, digest: bytes) -> bytes | None:
    """The name that an index gives a shard: a MessagePack string right before its hash."""
    end = index.find(_BIN32 + digest)
    if end < 0:
        return None
    for length in range(1, min(_MAX_NAME, end)):
        name = index[end - length : end]
        if index[: end - length].endswith(_packed(name)[:-length]):
            return name
    return None


def _packed(text: bytes) -> bytes:
    return (bytes([0xA0 | len(text)]) if len(text) < 32 else bytes([0xD9, len(text)])) + text


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


T = TypeVar("T")


class FolderRecords:
    """The records of one subdir of a folder, each package of which is read once; a source as rattler takes it."""

    def __init__(self, source: SparseRepoData, subdir: str) -> None:
        self._source, self.subdir = source, subdir
        self._records: dict[str, list[RepoDataRecord]] = {}
        self.empty = not source.package_names()

    def records(self, name: str) -> list[RepoDataRecord]:
        """Those of one package."""
        found = self._records.get(name)
        if found is None:
            found = self._records[name] = self._source.load_records(PackageName(name))
        return found

    def matching(self, spec: MatchSpec) -> list[RepoDataRecord]:
        """Those that match a spec for one name."""
        return [item for item in self.records(spec.name.normalized) if spec.matches(item)]

    async def fetch_package_records(self, platform: object, name: PackageName) -> list[RepoDataRecord]:
        """Those of one package, for rattler."""
        return self.records(name.normalized) if str(platform) == self.subdir else []

    def package_names(self, platform: object) -> list[str]:
        """All names, for rattler."""
        return self._source.package_names() if str(platform) == self.subdir else []


Opened: TypeAlias = SparseRepoData | Channel
Source: TypeAlias = Opened | FolderRecords
Question: TypeAlias = Callable[[Gateway, list[Source]], Coroutine[Any, Any, T]]
_COMPRESSED = "repodata.json.zst"
_SETTLE_SECONDS = 0.05

# Whoever uses cuenv as a library leaves the interpreter in the ordinary way, and rattler's threads may still be letting
# go of Python objects then: 18 of 100 short scripts crashed at exit without this pause, none of 300 with it. The
# command line does not come here, it leaves by os._exit.
atexit.register(time.sleep, _SETTLE_SECONDS)


@dataclass(frozen=True, slots=True)
class Part:
    """One subdir of one channel: where it is read, and the handle that rattler takes."""

    channel: str
    subdir: str
    place: str
    source: Opened


class Channels:
    """The channels of one `Sources`, for any thread. Files are opened once; the gateway keeps what it has fetched."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._sharded = True
        self._remote: tuple[str, ...] = ()
        self._relay: Relay | None = None
        self._gateways: dict[tuple[bool, tuple[str, ...]], Gateway] = {}
        self.answers: dict[tuple[tuple[Part, ...], str], bool] = {}
        self.keeps_records = False
        """Whether records of folders stay in memory once they were read: many questions will be asked."""
        self._memories: dict[SparseRepoData, FolderRecords] = {}
        self._files: dict[tuple[str, str, int, int], SparseRepoData] = {}
        self._ahead: Thread | None = None
        self._making = Lock()

    def open_ahead(self, channels: Sequence[str], platform: str) -> None:
        """Begin to open the channels in a thread, and a gateway for folders, while the caller thinks; `open` waits."""
        ahead = Thread(target=self._open_quietly, args=(channels, platform), daemon=True)
        ahead.start()
        self._ahead = ahead  # begun: another thread may wait for it at once
        import asyncio  # noqa: F401, PLC0415 - `run` needs it, and here it costs no time of its own

    def _open_quietly(self, channels: Sequence[str], platform: str) -> None:
        # whoever asks next meets it again, and says it
        with suppress(CuenvError, OSError), rattler_errors("the channels cannot be opened"):
            self._open(channels, platform, None)
            if not self._remote:
                self._gateway()

    def open(self, channels: Sequence[str], platform: str, progress: Progress | None = None) -> tuple[Part, ...]:
        """Open channels for a platform, in order of priority.

        Raises:
            ChannelError: a folder does not hold what a channel must hold.
        """
        ahead = self._ahead
        if ahead:
            ahead.join()
        return self._open(channels, platform, progress)

    def _open(self, channels: Sequence[str], platform: str, progress: Progress | None) -> tuple[Part, ...]:
        parts: list[Part] = []
        for url in self.sources.urls(channels):
            if progress:
                progress(f"reading {short_channel(url)}")
            folder = self.sources.folder(url)
            if folder is None:
                self._remote = tuple(dict.fromkeys((*self._remote, url)))
                handle = Channel(url)
                parts.extend(Part(url, subdir, self.sources.target(url), handle) for subdir in (platform, "noarch"))
            else:
                parts.extend(self._folder(url, folder, platform))
        return tuple(parts)

    def ask(self, parts: Sequence[Part], question: Question[T]) -> T:
        """Ask the gateway about opened channels.

        A mirror that does not know sharded repodata may answer that request with anything; then the plain
        ``repodata.json`` is asked for.
        """
        try:
            return self._ask_gateway(parts, question)
        except GatewayError as error:
            self._raise_relay_fault(parts, error)
            if not (self._sharded and channel_errors.about_shards(str(error))):
                return self._ask_again(parts, question, error)
        self._sharded = False
        try:
            return self._ask_gateway(parts, question)
        except GatewayError as error:
            self._raise_relay_fault(parts, error)
            return self._ask_again(parts, question, error)

    def handle(self, part: Part) -> Source:
        """What rattler reads a part from."""
        source = part.source
        if not self.keeps_records or not isinstance(source, SparseRepoData):
            return source
        if source not in self._memories:
            self._memories[source] = FolderRecords(source, part.subdir)
        return self._memories[source]

    def _raise_relay_fault(self, parts: Sequence[Part], error: Exception) -> None:
        """Say what the relay met, if it met anything: it knows more than rattler."""
        fault = self._relay.fault() if self._relay else None
        if fault is None:
            return
        if fault.error:
            raise fault.error from error
        mine = [part for part in parts if fault.url.startswith(f"{part.channel}/{part.subdir}/")]
        part = next(iter(mine or [part for part in parts if isinstance(part.source, Channel)]))
        place = fault.url.replace(part.channel, strip_credentials(part.place), 1)
        raise self._network_error(part, f"{place}\n{fault.text}") from error

    def _ask_gateway(self, parts: Sequence[Part], question: Question[T]) -> T:
        known = list(dict.fromkeys(map(self.handle, parts)))
        # each costs a call for each name
        handles = [item for item in known if not (isinstance(item, FolderRecords) and item.empty)] or known
        gateway = self._gateway()
        if self._relay:
            self._relay.begin()
        return run(question(gateway, handles))

    def _ask_again(self, parts: Sequence[Part], question: Question[T], error: GatewayError) -> T:
        """Ask once more without what cannot be read of the cache; else say whose fault it is."""
        blamed, part = self._error_of_channel(parts, error)
        if part is None or self.sources.offline or not channel_errors.garbage(str(error), blamed.message):
            raise blamed from error
        if not remove_repodata(self.sources.repodata_folder(), part.channel, part.subdir):
            raise blamed from error
        self._gateways.clear()
        try:
            return self._ask_gateway(parts, question)
        except GatewayError as again:
            self._raise_relay_fault(parts, again)
            remove_repodata(self.sources.repodata_folder(), part.channel, part.subdir)  # it came the same way again
            raise self._error_of_channel(parts, again)[0] from again

    def removed_wrong_shards(self) -> bool:
        """Whether the cache held shards that are not what their index says; they are gone now: asking again helps."""
        if not (self._remote and self._sharded) or self.sources.offline:
            return False
        if not remove_wrong_shards(self.sources.repodata_folder()):
            return False
        self._gateways.clear()
        self.answers.clear()
        return True

    def find(self, parts: Sequence[Part], platform: str, specs: Sequence[MatchSpec]) -> list[RepoDataRecord]:
        """The records that match any of the specs.

        Folders are read without the gateway, which takes three times as long for them.
        """

        async def question(gateway: Gateway, handles: list[Source]) -> list[RepoDataRecord]:
            found = await gateway.query(
                handles,  # type: ignore[arg-type] # the stubs forget SparseRepoData, which the gateway takes
                [platform, "noarch"],  # type: ignore[list-item] # any subdir, not only those rattler lists
                specs,
                recursive=False,
                channel_relations="disabled",
            )
            return [record for records in found for record in records]

        online = [part for part in parts if isinstance(part.source, Channel)]
        folders = dict.fromkeys(part for part in parts if not isinstance(part.source, Channel))
        found = [item for part in folders for item in self._in_folder(part, specs)]
        found += self.ask(online, question) if specs and online else []
        cutoff = self.cutoff
        return found if cutoff is None else [item for item in found if (record_day(item) or cutoff) <= cutoff]

    def _in_folder(self, part: Part, specs: Sequence[MatchSpec]) -> list[RepoDataRecord]:
        source = self.handle(part)
        try:
            if isinstance(source, FolderRecords):
                return [item for spec in specs for item in source.matching(spec)]
            assert isinstance(source, SparseRepoData)  # noqa: S101 - a folder
            return source.load_matching_records(specs)
        except (OSError, ValueError) as error:
            raise channel_errors.from_records(
                str(error), channel=part.channel, subdir=part.subdir, path=part.place
            ) from error

    @property
    def cutoff(self) -> datetime | None:
        """The end of the day, in UTC, by which a build must have been there; a record without a day is found too."""
        day = self.sources.as_of
        return datetime.fromisoformat(f"{day}T23:59:59.999999+00:00") if day else None

    def names(self, parts: Sequence[Part], platform: str) -> list[str]:
        """The names of all packages. The gateway knows none of a folder's."""
        folders = [part.source for part in parts if isinstance(part.source, SparseRepoData)]
        found = {name for source in folders for name in source.package_names()}
        online = [part for part in parts if isinstance(part.source, Channel)]

        async def question(gateway: Gateway, handles: list[Source]) -> set[str]:
            names = await gateway.names(handles, [platform, "noarch"], channel_relations="disabled")  # type: ignore[arg-type,list-item] # as in find
            return {name.normalized for name in names}

        return sorted(found | (self.ask(online, question) if online else set()))

    def _gateway(self) -> Gateway:
        with self._making:
            kind = (self._sharded, self._remote)
            gateway = self._gateways.get(kind)
            if gateway is None:
                config = SourceConfig(
                    sharded_enabled=self._sharded,
                    cache_action="force-cache-only" if self.sources.offline else "cache-or-fetch",
                )
                client = _idle_client()
                folder = self.sources.repodata_folder()
                if self._remote:
                    if self._relay is None:
                        from cuenv.solve.io.relay import Relay as New  # noqa: PLC0415 - HTTP servers cost 10 ms

                        self._relay = New(self.sources)
                        finalize(self, self._relay.close)
                    client = self._relay.client(self._remote)
                    if not self.sources.offline:
                        use_repodata_cache(self.sources)
                gateway = self._gateways[kind] = Gateway(cache_dir=folder, default_config=config, client=client)
        return gateway

    def _folder(self, url: str, folder: Path, platform: str) -> Iterator[Part]:
        for subdir in (platform, "noarch"):
            path = folder / subdir / "repodata.json"
            if subdir == "noarch" and not path.exists() and not path.with_name(_COMPRESSED).exists():
                continue  # a channel may be without packages for every platform
            yield Part(url, subdir, str(path), self._file(url, subdir, path))

    def _file(self, url: str, subdir: str, path: Path) -> SparseRepoData:
        try:
            about = path.stat()
            if not path.is_file():
                raise IsADirectoryError(21, "not a file")
            key = (url, str(path), about.st_mtime_ns, about.st_size)
            with self._making:
                if key not in self._files:
                    with rattler_errors(f"rattler cannot open {path}"):
                        self._files[key] = SparseRepoData(Channel(url), subdir, path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and path.with_name(_COMPRESSED).exists():
                raise channel_errors.only_compressed(channel=url, subdir=subdir, path=str(path)) from error
            raise channel_errors.from_folder(error, channel=url, subdir=subdir, path=str(path)) from error
        return self._files[key]

    def _error_of_channel(self, parts: Sequence[Part], error: GatewayError) -> tuple[ChannelError, Part | None]:
        """Find the channel that the gateway's error is about, by asking each alone if the error does not say."""
        text = self._relay.translate(str(error)) if self._relay else str(error)
        for part in parts:
            if any(f"{place}/{part.subdir}/" in text for place in (part.place, redact(part.place), part.channel)):
                return self._network_error(part, text), part
        for part in parts:
            found = self._error_of_part(part)
            if found:
                return found, part
        names = ", ".join(dict.fromkeys(short_channel(part.channel) for part in parts))
        said = f"channels {names}: {printable(redact(text))}"
        return ChannelError(said, hint="try again, or read the channel elsewhere: --mirror"), None

    def _error_of_part(self, part: Part) -> ChannelError | None:
        try:
            if isinstance(part.source, SparseRepoData):
                part.source.load_all_records()
            else:
                run(self._names(part.source, part.subdir))
        except (GatewayError, OSError, ValueError) as error:
            if isinstance(part.source, Channel):
                return self._network_error(part, self._relay.translate(str(error)) if self._relay else str(error))
            return channel_errors.from_records(str(error), channel=part.channel, subdir=part.subdir, path=part.place)
        return None

    async def _names(self, channel: Channel, subdir: str) -> object:
        return await self._gateway().names([channel], [subdir], channel_relations="disabled")  # type: ignore[list-item] # as in find

    def _network_error(self, part: Part, text: str) -> ChannelError:
        return channel_errors.from_gateway(
            text, channel=part.channel, subdir=part.subdir, target=part.place, offline=self.sources.offline
        )


def record_day(record: RepoDataRecord) -> datetime | None:
    """When the channel took a package, where the record says it, else when the package was built."""
    found = record.indexed_timestamp or record.timestamp
    return found if found is None or found.tzinfo else found.replace(tzinfo=timezone.utc)


_KNOWN = Lock()


def channels_of(sources: Sources) -> Channels:
    """The opened channels of this process for one `Sources`, also where several threads ask at once."""
    with _KNOWN:
        return _channels_of(sources)


@lru_cache(maxsize=1)
def _idle_client() -> Client:
    """The client of all who read folders alone, which they never ask: a gateway would make one each, in 4 ms."""
    return Client([])


@lru_cache(maxsize=16)
def _channels_of(sources: Sources) -> Channels:
    return Channels(sources)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of rattler to its end, in a thread of its own.

    So a running loop (a notebook) is no obstacle, and a signal does not land within the loop: there it could lose the
    wake-up of a task, which then waits for ever. After Ctrl-C the coroutine is cancelled, and waited for a moment.
    """
    import asyncio  # noqa: PLC0415 - not needed for folders that are only asked for records
    from concurrent.futures import Future, wait  # noqa: PLC0415 - as above

    answer: Future[T] = Future()
    stop: Future[None] = Future()

    async def stoppable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(coroutine)

        def cancel(_: object) -> None:
            with suppress(RuntimeError):  # the loop was closed this moment
                loop.call_soon_threadsafe(task.cancel)

        stop.add_done_callback(cancel)
        return await task

    def work() -> None:
        try:
            answer.set_result(asyncio.run(stoppable()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            answer.set_exception(error)

    try:
        Thread(target=work, name="cuenv-rattler", daemon=True).start()
        return answer.result()
    except BaseException:
        if not answer.done():
            stop.set_result(None)
            wait([answer], _PATIENCE)
        raise


_PATIENCE = 2  # seconds in which what was cancelled tidies up


@contextmanager
def rattler_errors(what: str) -> Iterator[None]:
    """Turn whatever rattler throws into `OutsideError`; errors of ours, OSError and Ctrl-C pass.

    A panic of its Rust core arrives as a BaseException that no other ``except`` catches.
    """
    try:
        yield
    except (CuenvError, OSError):
        raise
    except UnicodeEncodeError as error:
        message = f"the solver takes no path that is not UTF-8: {printable(error.object)}"
        hint = "work in another folder, or use another home, cache or mirror if one of these has the path"
        raise InputError(message, hint=hint) from error
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        kind = type(error).__name__
        raise OutsideError(f"{what}: {kind}: {printable(redact(str(error)))}") from error
