"""Options that several commands share, and the values that are made from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from cuenv.cli.command import (
    OUTPUT,
    PATH,
    combined,
    completes,
    name_option,
    no_progress_option,
    offline_option,
    prefix_option,
)
from cuenv.cli.defaults import configuration, setting_value, was_typed, without_replaced
from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import FORMS
from cuenv.core.io.files import is_folder, read_stdin
from cuenv.core.record import replace
from cuenv.core.urls import redact, short_channel
from cuenv.core.versions import parse_version_spec
from cuenv.host.request import PREFER, Request
from cuenv.host.select import HostOptions, check_day
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import EVERY_STACK, PLATFORMS

if TYPE_CHECKING:  # commands that read no channel and no lock do not pay for it
    from cuenv.cli.values import (
        ChannelValues,
        OneHostValues,
        PartValues,
        ReportValues,
        RequestValues,
        ResolvingValues,
        SeveralHostValues,
        TablesValue,
    )
    from cuenv.lockfile.formats import LockPart
    from cuenv.solve.io.local_records import LocalRecords
    from cuenv.solve.io.sources import Sources


F = TypeVar("F", bound=Callable[..., Any])


def _single(_: click.Context, option: click.Parameter, value: tuple[str, ...]) -> str | None:
    """The single value of an option; click itself would silently take the last of several.

    Raises:
        UsageError: two values that differ.
    """
    if len(set(value)) > 1:
        flag = option.opts[0]
        message = f"{flag} is given as {' and '.join(map(repr, value))}, but an environment has only one"
        raise UsageError(message, hint="cuenv profile new both")
    return value[0] if value else None


def _driver_option(text: str) -> Callable[[F], F]:
    return click.option("--driver", metavar="VERSION", shell_complete=completes("driver"), help=text)


_host, _gpu, _glibc = (
    click.option(
        "--host",
        "hosts",
        multiple=True,
        metavar="DIR|FILE|NAME|-",
        shell_complete=completes("host"),
        help="A recorded host, or what another tool printed about it; repeat for a pool of hosts.",
    ),
    click.option(
        "--gpu",
        "gpus",
        multiple=True,
        metavar="NAME|X.Y",
        shell_complete=completes("gpu"),
        help="A GPU by name or compute capability; repeatable.",
    ),
    click.option("--glibc", metavar="VERSION", help="The version of the C library, such as 2.31."),
)
_host_options = (_host, _gpu, _driver_option("The version of the NVIDIA driver, such as 535.129.03."), _glibc)
PLATFORM_HELP = "The platform: linux-64 or linux-aarch64."
host_options = combined(
    *_host_options,
    click.option("--platform", metavar="PLATFORM", shell_complete=completes("platform"), help=PLATFORM_HELP),
)

changed_host_options = combined(
    _host,
    _gpu,
    _driver_option("The new driver: a version, or a branch such as 580."),
    _glibc,
    click.option("--platform", metavar="PLATFORM", shell_complete=completes("platform"), help=PLATFORM_HELP),
)
"""The host options of ``what-if``, whose ``--driver`` is the new driver."""

platforms_option = click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="PLATFORM",
    shell_complete=completes("platform"),
    help="The platform: linux-64 or linux-aarch64; repeat for both.",
)
"""The option of a command that takes several platforms."""

knowledge_option = click.option(
    "--knowledge", "tables", type=PATH, metavar="DIR", help="Directory with additional knowledge-base tables."
)

environment_options = combined(
    prefix_option,
    name_option,
    click.option("--lock", type=PATH, metavar="FILE", help="The lock that the environment was made from."),
)
"""The options that name an installed environment and its lock."""


part_name_options = combined(
    click.option(
        "--environment",
        default="",
        metavar="NAME",
        help="Read this environment of a pixi.lock.",
    ),
    click.option(
        "--extra",
        "extras",
        multiple=True,
        metavar="NAME",
        help="Read this extra of a uv.lock or pylock.toml; repeatable.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME",
        help="Read this dependency group of a uv.lock or pylock.toml; repeatable.",
    ),
)
part_options = combined(
    part_name_options,
    click.option("--python", default="", metavar="X.Y", help="The Python version for which a lock of wheels is read."),
)
"""The options that select one of several environments in a lock."""


def part_from(values: PartValues | ReportValues) -> LockPart:
    """The part of a lock that the options select."""
    from cuenv.lockfile.formats import LockPart  # noqa: PLC0415 - only to check and compare

    environment, python = values["environment"], values["python"] or ""
    return LockPart(environment=environment, extras=values["extras"], groups=values["groups"], python=python)


output_option = click.option(
    "-o", "--output", type=OUTPUT, metavar="FILE", help="Write to this file or folder instead of stdout."
)
prove_option = click.option(
    "--prove", is_flag=True, help="Run the solver now and pick the best candidate that your channels can satisfy."
)

jobs_option = click.option(
    "--jobs", type=click.IntRange(1, 32), default=4, metavar="N", help="Number of files to download at the same time."
)

several_host_options = combined(*_host_options, platforms_option)
"""The host options of a command that can make one environment for several platforms."""

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="text",
    help="The format of the report; github, sarif and codequality are for code hosts.",
)
"""The option of commands that print findings."""

channel_options = combined(
    click.option(
        "--mirror",
        "mirrors",
        multiple=True,
        metavar="FROM=TO",
        help="Read the channel FROM at the URL or folder TO; repeatable.",
    ),
    offline_option,
    no_progress_option,
)

one_channel_options = combined(
    click.option(
        "--channel", default="conda-forge", metavar="NAME", help="The channel: conda-forge (default) or pytorch."
    ),
    click.option(
        "--platform", default="linux-64", metavar="PLATFORM", shell_complete=completes("platform"), help=PLATFORM_HELP
    ),
)
"""The options that name the channel with which the tables are compared."""


def _day(_: click.Context, __: click.Parameter, value: str | None) -> str:
    """The day of ``--as-of``; empty without that option.

    Raises:
        UsageError: the text is not a day, or a day in the future or before the tables begin.
    """
    if value is None:
        return ""
    from cuenv.knowledge.io.load import load  # noqa: PLC0415 - as above

    return check_day(value, load(None))


request_options = combined(
    click.option(
        "--profile",
        multiple=True,
        callback=_single,
        metavar="NAME|FILE",
        shell_complete=completes("profile"),
        help="Take the request from this profile.",
    ),
    click.option(
        "--stack",
        type=click.Choice(EVERY_STACK),
        help="The source of PyTorch: a conda channel, with its CUDA packages, or pip wheels.",
    ),
    click.option(
        "--pytorch",
        metavar="SPEC",
        shell_complete=completes("pytorch"),
        help="Version of PyTorch: 2.5 (prefix), ==2.5.1 (exact) or '>=2.4,<2.6' (range).",
    ),
    click.option(
        "--cuda", metavar="SPEC", shell_complete=completes("cuda"), help="CUDA release, written as for --pytorch."
    ),
    click.option("--python", metavar="SPEC", help="Version of Python, written as for --pytorch."),
    click.option(
        "--with",
        "packages",
        multiple=True,
        metavar="SPEC",
        help="Another conda package, or pip:REQ for pip; repeatable.",
    ),
    click.option(
        "--dev/--no-dev",
        default=None,
        help="Include compiler and headers to build extensions (default), or leave them out.",
    ),
    click.option(
        "--as-of",
        metavar="DAY",
        callback=_day,
        help="Use only builds that existed on this day (YYYY-MM-DD, UTC, inclusive).",
    ),
    click.option("--cpu", is_flag=True, help="Choose a CPU build; cuenv never does so by itself."),
    click.option(
        "--prefer",
        type=click.Choice(PREFER),
        help="Prefer the newest PyTorch (default), or a toolkit within the driver's CUDA version.",
    ),
    knowledge_option,
)


def host_from(values: OneHostValues | SeveralHostValues) -> HostOptions:
    """The host that the options of a command describe."""
    values = without_replaced(values)
    if "platforms" in values:
        platform = next(iter(cast("SeveralHostValues", values)["platforms"]), None)
    else:
        platform = values["platform"]
    return HostOptions(
        hosts=values["hosts"],
        gpus=values["gpus"],
        driver=values["driver"],
        glibc=values["glibc"],
        platform=platform,
        environ=dict(os.environ),  # a copy: reading channels sets some variables for rattler
        stdin=read_standard_input,
    )


def several_platforms(values: SeveralHostValues) -> tuple[str, ...]:
    """The platforms of a command that takes several, in a fixed order; empty if at most one is given.

    Raises:
        UsageError: a platform is not supported.
    """
    asked = without_replaced(values)["platforms"]
    for text in asked:
        if text not in PLATFORMS:
            message = f"--platform {text!r} is not supported: cuenv resolves for {' and '.join(PLATFORMS)}"
            raise UsageError(message, hint=f"cuenv resolve --platform {PLATFORMS[0]}")
    found = tuple(item for item in PLATFORMS if item in asked)
    return found if len(found) > 1 else ()


def read_standard_input() -> str:
    """The text of standard input, in which hosts are described."""
    from cuenv.host.io.record import LIMIT  # noqa: PLC0415 - as above

    return read_stdin(limit=LIMIT, lenient=True)


def knowledge_from(values: TablesValue) -> Knowledge:
    """The tables, including those of ``--knowledge``."""
    from cuenv.knowledge.io.load import load  # noqa: PLC0415 - commands that need no tables do not pay for them

    return load(values["tables"])


def request_from(values: RequestValues) -> Request:
    """The request of the profile, changed by the other options."""
    values, request = without_replaced(values), Request()
    if values["profile"]:
        from cuenv.config.io.profiles import read_profile  # noqa: PLC0415 - YAML is read only then

        request = read_profile(values["profile"], configuration())
        request = replace(request, origin=(values["profile"], request))
    versions = {"pytorch": values["pytorch"], "cuda": values["cuda"], "python": values["python"]}
    changes: dict[str, Any] = {
        name: parse_version_spec(text, what=f"--{name}") for name, text in versions.items() if text
    }
    changes |= {"as_of": values["as_of"]} if values["as_of"] else {}
    plain = {"stack": values["stack"], "prefer": values["prefer"], "dev": values["dev"]}
    changes |= {name: value for name, value in plain.items() if value is not None}
    pip = tuple(item.removeprefix("pip:").strip() for item in values["packages"] if item.startswith("pip:"))
    conda = tuple(item for item in values["packages"] if not item.startswith("pip:"))
    if not all((*pip, *(item.strip() for item in conda))):
        raise UsageError("--with: an empty requirement", hint="cuenv resolve --with 'transformers>=4.36'")
    if values["cpu"]:
        changes |= {"cpu": True, "dev": False if values["dev"] is None else values["dev"]}
        if values["cuda"]:
            raise UsageError("--cpu and --cuda exclude each other", hint="cuenv resolve --cpu")
    return replace(request, **changes, packages=(*request.packages, *conda), pip=(*request.pip, *pip))


def local_records(values: ChannelValues, platform: str) -> LocalRecords | None:
    """The channel records in the cache or in a mirror on this machine; ``None`` without any.

    Raises:
        InputError: the folder of a mirror does not exist.
    """
    from cuenv.solve.io.local_records import cache_is_empty, read_local_records  # noqa: PLC0415 - resolve alone asks

    if not values["mirrors"] and cache_is_empty(setting_value("cache-dir")):
        return None
    sources = channel_sources(values)
    for mirror in sources.mirrors if was_typed("mirrors") else ():
        if "://" not in mirror.target and not is_folder(mirror.target):
            raise InputError(
                f"--mirror: {mirror.target} is not a folder, so it has no records of {short_channel(mirror.origin)}",
                hint="point --mirror at the folder that holds the channel",
            )
    return read_local_records(sources, platform)


def channel_words(values: ResolvingValues) -> tuple[str, ...]:
    """The options on channels and tables as they were typed, without passwords, for the command in a hint."""
    words: list[str] = []
    for text in values["mirrors"] if was_typed("mirrors") else ():
        origin, equals, target = text.partition("=")
        shown = redact(target) if "://" in target else target  # a folder called t is not a conda token
        words += ["--mirror", f"{redact(origin)}{equals}{shown}"]
    words += ["--knowledge", str(values["tables"])] if values["tables"] and was_typed("tables") else []
    return (*words, *(["--offline"] if values["offline"] and was_typed("offline") else []))


def channel_sources(values: ChannelValues) -> Sources:
    """The sources of channels: the mirrors of the options, then ``.condarc``; as of a day, if one is given."""
    from cuenv.solve.io.sources import sources_here  # noqa: PLC0415 - commands that read no channel do not pay for it

    sources = sources_here(values["mirrors"], os.environ, offline=values["offline"])
    cache, timeout = setting_value("cache-dir"), setting_value("timeout")
    return replace(
        sources,
        as_of=cast("RequestValues", values).get("as_of", ""),
        cache=cache or sources.cache,
        timeout=int(timeout) if timeout else sources.timeout,
    )
