"""What people hand to the public API, as the flows take it; `cuenv` and `cuenv.ask` read it alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from cuenv.flows.hosts import HostOptions


def several(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One text, or several: a text is never taken for its letters."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def host_options(
    host: str | Sequence[str],
    gpus: str | Sequence[str],
    driver: str | None,
    glibc: str | None = None,
    platform: str | None = None,
) -> HostOptions:
    """The options of the command line that name the same host."""
    from cuenv.flows.hosts import HostOptions  # noqa: PLC0415 - whoever imports this module may ask nothing

    return HostOptions(hosts=several(host), gpus=several(gpus), driver=driver, glibc=glibc, platform=platform)
