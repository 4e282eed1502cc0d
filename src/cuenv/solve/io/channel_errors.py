"""What went wrong with a channel, in one sentence: which channel, which subdir, where it was read, what to do."""

from __future__ import annotations

import shlex

from cuenv.core.errors import ChannelError, NoChannelError, OfflineError
from cuenv.core.io.files import ls_command
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact, short_channel, strip_credentials

_URL = regex(r"https?://[^\s'\"()<>]+")
_STATUS = regex(r"\((\d{3}) ([A-Za-z -]+)\)")
_GARBAGE = ("parse", "decode", "frame", "EOF", "invalid type", "expected")
_CONNECTION = ("(Connect)", "dns error", "timed out", "error sending request", "connection", "too many redirects")


def about_shards(text: str) -> bool:
    """Whether a server answered the request for sharded repodata with something else, so that plain may do."""
    status = _STATUS.search(text)
    return "shard" in text and not unreachable(text) and not (status and status[1].startswith("5"))


def unreachable(text: str) -> bool:
    """Whether the words of the gateway tell of a connection rather than of an answer."""
    return any(mark in text for mark in _CONNECTION) and not _STATUS.search(text)


def garbage(*texts: str) -> bool:
    """Whether the words of the gateway tell of an answer that cannot be read."""
    return any(word in text for text in texts for word in _GARBAGE) and not any(map(unreachable, texts))


def from_gateway(text: str, *, channel: str, subdir: str, target: str, offline: bool) -> ChannelError:
    """The error for a channel on the network.

    Args:
        text: the gateway's own words.
        channel: canonical URL.
        target: the URL that is read instead, or the canonical one.
        offline: nothing was asked of the network.
    """
    if offline:
        reason = f"--offline was given, but the cache has nothing of {strip_credentials(target)}"
        mirror = _mirror(short_channel(channel), "/path/to")
        hint = f"run the same command once without --offline, or read a folder: {mirror}"
        return _error(OfflineError, reason, hint, channel=channel, subdir=subdir)
    url = _url(text, channel, subdir, target)
    status = _STATUS.search(text)
    kind = NoChannelError if status and status[1] in ("404", "410") else ChannelError
    hint = _hint(text, short_channel(channel), url)
    return _error(kind, _reason(text), hint, channel=channel, subdir=subdir, address=f" ({printable(url)})")


def from_folder(error: OSError, *, channel: str, subdir: str, path: str) -> ChannelError:
    """The error for a channel in a folder: ``path`` is the file that was opened."""
    if isinstance(error, FileNotFoundError):
        hint = (
            f"index the folder (conda index {path.removesuffix(f'/{subdir}/repodata.json')}), "
            "or point --mirror at the folder that holds the channel"
        )
        return _error(NoChannelError, f"{path} is missing", hint, channel=channel, subdir=subdir)
    if error.errno is not None:
        return _error(
            ChannelError,
            f"cannot read {path}: {error.strerror}",
            ls_command(path, error),
            channel=channel,
            subdir=subdir,
        )
    reason = f"{path} is not valid repodata: {printable(str(error))}"
    return _error(ChannelError, reason, _copy_again(channel, subdir), channel=channel, subdir=subdir)


def only_compressed(*, channel: str, subdir: str, path: str) -> ChannelError:
    """The error for a folder with ``repodata.json.zst`` alone."""
    reason = f"{path} is missing; only {path}.zst exists"
    return _error(ChannelError, reason, f"zstd -d {shlex.quote(path)}.zst", channel=channel, subdir=subdir)


def from_records(text: str, *, channel: str, subdir: str, path: str) -> ChannelError:
    """The error for a file that opens and holds a record that is none."""
    reason = printable(redact(text.splitlines()[-1].removeprefix("Caused by: "))) if text else "no record"
    reason = f"{path} holds an invalid record: {reason}"
    return _error(ChannelError, reason, _copy_again(channel, subdir), channel=channel, subdir=subdir)


def _copy_again(channel: str, subdir: str) -> str:
    return f"copy it again from {channel}/{subdir}/repodata.json"


def _error(
    kind: type[ChannelError], reason: str, hint: str | None, *, channel: str, subdir: str, address: str = ""
) -> ChannelError:
    name = short_channel(channel)
    return kind(f"channel {name}, {subdir}: {reason}{address}", hint=hint, channel=name, reason=reason)


def _url(text: str, channel: str, subdir: str, target: str) -> str:
    """The URL that was really asked: rattler tells the mirror's in some errors, the canonical one in others."""
    place = strip_credentials(target)
    for found in _URL.findall(text):
        url = strip_credentials(found).rstrip(".,;:")
        for prefix in (f"{place}/{subdir}/", f"{channel}/{subdir}/"):
            if url.startswith(prefix):
                return f"{place}/{subdir}/{url.removeprefix(prefix)}"
    return f"{place}/{subdir}/repodata.json"


def _reason(text: str) -> str:
    status = _STATUS.search(text)
    if status:
        return f"HTTP {status[1]} {status[2]}"
    lines = [line.removeprefix("Caused by: ").strip() for line in text.splitlines() if line.strip()] or ["no reason"]
    last = printable(redact(lines[-1]))
    if unreachable(text):
        return last
    return f"the server sends invalid repodata: {last}" if any(word in text for word in _GARBAGE) else last


_ANACONDA = "https://repo.anaconda.com/pkgs"


def _mirror(name: str, folder: str = "") -> str:
    """The option that reads a channel elsewhere; Anaconda's own come together, and so does their mirror."""
    if name.startswith(f"{_ANACONDA}/"):
        return f"--mirror {_ANACONDA}={f'{folder}/pkgs' if folder else 'URL'}"
    return f"--mirror {name}={f'{folder}/channel' if folder else 'URL'}"


def _hint(text: str, name: str, url: str) -> str:
    status = _STATUS.search(text)
    code = status[1] if status else ""
    if code in {"401", "403", "407"}:
        return f"give the credentials with the mirror: --mirror {name}=https://USER:PASSWORD@HOST/PATH"
    if code == "304":
        return f"the proxy or mirror does not have the channel; read it elsewhere: {_mirror(name)}"
    if code == "404":
        return f"check the channel's name, or read it elsewhere: {_mirror(name)}"
    if code:
        return f"try again later, or read the channel elsewhere: {_mirror(name)}"
    if "certificate" in text:
        return "set your company's certificate authorities: ssl_verify: /path/to/ca.pem in .condarc"
    if "the answer" in text:
        return f"read the channel elsewhere: {_mirror(name)}"
    if unreachable(text):
        return f"check the network and its proxy, or read the channel elsewhere: {_mirror(name)}"
    return f"check what the server sends: curl -sSL {url} | head -c 300"
