"""The types of the commands' option values. They are imported only for type checking.

A test compares the options of each command with the type of its function.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class OutputValues(TypedDict):
    """The options of every command."""

    as_json: bool
    quiet: bool
    verbose: bool
    color: str


class FormValue(TypedDict):
    """``--format``."""

    form: str


class TablesValue(TypedDict):
    """``--knowledge``."""

    tables: Path | None


class HostValues(TypedDict):
    """The options that name a host, except its platform."""

    hosts: tuple[str, ...]
    gpus: tuple[str, ...]
    driver: str | None
    glibc: str | None


class OneHostValues(HostValues):
    """The options that name a host."""

    platform: str | None


class SeveralHostValues(HostValues):
    """The options that name a host, for a command that takes several platforms."""

    platforms: tuple[str, ...]


class RequestValues(TypedDict):
    """The options of the request."""

    profile: str | None
    stack: str | None
    pytorch: str | None
    cuda: str | None
    python: str | None
    packages: tuple[str, ...]
    as_of: str
    dev: bool | None
    cpu: bool
    prefer: str | None


class ChannelValues(TypedDict):
    """The options of a command that reads channels."""

    mirrors: tuple[str, ...]
    offline: bool
    no_progress: bool


class PartValues(TypedDict):
    """The options that select a part of a lock."""

    environment: str
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    python: str


class ResolvingValues(SeveralHostValues, RequestValues, TablesValue, ChannelValues, OutputValues):
    """The options that ``resolve`` and ``lock`` share."""

    name: str | None
    output: Path | None


class ResolveValues(ResolvingValues):
    """``cuenv resolve``."""

    prove: bool


class LockValues(ResolvingValues, FormValue):
    """``cuenv lock``, but for the file."""

    check: bool
    allow: tuple[str, ...]
    allow_builds: bool
    strict: bool
    update: tuple[str, ...]
    resolve_first: bool
    repair: bool
    engine: str
    conda: str | None


class FleetPlanValues(RequestValues, TablesValue, OutputValues):
    """``cuenv fleet diff``, but for the fleets."""

    at_most: int | None
    assume_glibc: str | None


class FleetDeliverValues(FleetPlanValues, ChannelValues):
    """``cuenv fleet plan``, but for the fleet."""

    output: Path | None
    no_lock: bool
    prove: bool


class FleetCheckValues(TablesValue, PartValues, OutputValues):
    """``cuenv fleet check``, but for the locks."""

    fleet: str


class FleetVerifyValues(TablesValue, OutputValues):
    """``cuenv fleet verify``, but for the plan."""


class HostCommandValues(OneHostValues, TablesValue, OutputValues):
    """The options of a command that is about one host."""


class LintValues(HostCommandValues, FormValue):
    """``cuenv lint``, but for the files."""

    fix: bool
    diff: bool
    kind: str | None
    strict: bool


class CheckValues(HostCommandValues, FormValue, PartValues):
    """``cuenv check``, but for the lock."""

    prefix: Path | None
    name: str | None
    lock: Path | None
    running: bool
    timeout: int | None
    strict: bool
    redact: bool
    profile: str | None
    no_progress: bool


class DiffValues(HostCommandValues, FormValue, PartValues):
    """``cuenv diff``, but for the locks."""


class ReportValues(HostCommandValues, RequestValues, ChannelValues):
    """``cuenv report``, but for the lock."""

    prefix: Path | None
    name: str | None
    plan: Path | None
    environment: str
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    form: str
    picture: str | None
    output: Path | None


class ScanValues(HostCommandValues):
    """``cuenv scan``, but for the paths."""

    no_progress: bool


class DiagnoseValues(ScanValues, FormValue):
    """``cuenv diagnose``, but for the log."""


class HookValues(HostCommandValues):
    """``cuenv hook``, but for the environment."""

    lock: Path | None
    remove: bool
    show: bool
    shell: str


class GatherValues(TablesValue, OutputValues):
    """``cuenv fleet gather``."""

    ssh: tuple[str, ...]
    slurm: bool
    nodes: str
    ansible: tuple[Path, ...]
    paths: tuple[str, ...]
    again: bool
    program: str
    ssh_options: str
    srun_options: str
    timeout: float
    fanout: int
    output: Path | None
    no_progress: bool


class InstallValues(ChannelValues, OutputValues):
    """``cuenv install``, but for the lock."""

    prefix: Path | None
    name: str | None
    environment: str
    replace: bool
    platform: str | None
    jobs: int


class BundleValues(ChannelValues, OutputValues):
    """``cuenv bundle``, but for the lock."""

    output: Path
    platforms: tuple[str, ...]
    jobs: int


class ChannelCommandValues(HostCommandValues, RequestValues, ChannelValues):
    """``cuenv why``, ``why-not`` and ``what-if``, but for the question."""

    prove: bool


class WhatIfValues(ChannelCommandValues):
    """``cuenv what-if``."""

    driver_now: str | None
    add: tuple[str, ...]
    remove: tuple[str, ...]


class VendorValues(TypedDict):
    """The options on how an export installs cuenv."""

    cuenv: str | None
    vendor: bool


class DockerfileValues(HostCommandValues, RequestValues, VendorValues):
    """``cuenv export dockerfile``, ``devcontainer`` and ``apptainer``, but for the lock."""

    base: str
    digests: tuple[str, ...]
    output: Path | None


class ActionValues(HostCommandValues, VendorValues):
    """``cuenv export github-action``, but for the lock."""

    output: Path | None


class GitlabValues(ActionValues):
    """``cuenv export gitlab-ci``, but for the lock."""

    tags: tuple[str, ...]


class SbatchValues(OutputValues):
    """``cuenv export sbatch``, but for the command."""

    prefix: Path
    lock: Path
    slots: str
    options: tuple[str, ...]
    output: Path | None


class UvValues(HostCommandValues, RequestValues):
    """``cuenv export uv``."""

    sets: tuple[str, ...]
    output: Path | None


class PixiValues(ResolvingValues):
    """``cuenv export pixi``, but for the file."""

    twin: bool
    lock_version: str
    allow: tuple[str, ...]
    allow_builds: bool


class ShellValues(HostCommandValues):
    """``cuenv export shell``, but for the lock."""

    release: str | None
    off: bool
    output: Path | None


class KbValues(TablesValue, OutputValues):
    """The options of a command that reads the tables."""


class LearnValues(KbValues, ChannelValues):
    """``cuenv kb learn``, but for its own options."""


class AuditValues(LearnValues, FormValue):
    """``cuenv kb audit``, but for the channel."""
