"""The JSON of `cuenv fleet`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.host.documents import HostDocument, LibcFields


class NotGathered(TypedDict):
    """Nodes or files from which no host could be read, and why."""

    nodes: str  # a set of nodes, such as gpu[004-006], or the place in a file
    count: int
    reason: str
    command: str | None  # asks only these nodes again


class GatherDocument(TypedDict):
    """What `cuenv fleet gather` gathered."""

    schema: Literal["cuenv/gather/1"]
    output: str | None  # the fleet file
    hosts: int  # all records that are there now
    asked: int  # the nodes and records that were asked or read now
    kept: int  # the nodes that were in the fleet file already, and were not asked again
    failed: list[NotGathered]
    records: NotRequired[list[HostDocument]]  # without -o: the records themselves


class FleetGpuFields(TypedDict):
    """A GPU of a kind of hosts."""

    name: str
    capability: str


class FleetKindFields(TypedDict):
    """Hosts of a fleet that no rule can distinguish."""

    nodes: str  # their names, folded: gpu[001-012]
    hosts: int  # how many they are
    platform: str
    gpus: list[FleetGpuFields]
    driver: str | None
    cuda: str | None  # the highest CUDA release that the driver supports
    libc: LibcFields | None
    wsl: bool
    environment: str | None  # the one that serves them; null where none does


class FleetEnvironmentFields(TypedDict):
    """An environment of a fleet."""

    name: str
    nodes: str  # that use it, folded
    hosts: int
    pytorch: str
    build: str
    stack: str
    cuda: str | None
    python: str
    label: str | None  # of the nvidia channel
    platform: str


class FleetLessFields(TypedDict):
    """Hosts that get less than their best."""

    nodes: str
    hosts: int
    gets: str
    best: str
    worse: bool  # their GPUs get less: PTX in place of machine code, or a library that nobody vouches for


class FleetPriceFields(TypedDict):
    """What a number of environments costs."""

    environments: int
    possible: bool
    choice: list[str]  # the best so many; empty where so few cannot serve all
    hosts_with_less: int
    less: list[FleetLessFields]
    exact: bool  # no other choice of so many costs less


class FleetRuleFields(TypedDict):
    """A rule that rejects, for one host, most builds that support another host."""

    rule: str
    code: str
    because: str


class FleetPairFields(TypedDict):
    """Two kinds of hosts that share no environment, by their places in `kinds`."""

    one: int
    other: int
    says: str
    rules: list[FleetRuleFields]


class FleetProofFields(TypedDict):
    """The proof that fewer environments are not enough: hosts that cannot be divided into fewer groups."""

    environments: int  # so many are needed
    well: bool  # for all GPUs to get what they get on their best; else for all to get something
    kinds: list[int]  # places in `kinds`
    pairs: list[FleetPairFields]


class FleetUnknownFields(TypedDict):
    """Hosts with missing facts."""

    nodes: str
    hosts: int
    lacks: list[str]


class FleetHopelessFields(TypedDict):
    """Hosts that no environment supports."""

    nodes: str
    hosts: int
    says: str
    rule: str
    because: str
    would_help: str | None


class FleetDriverFields(TypedDict):
    """A driver, and the hosts that would need it."""

    driver: str
    nodes: str
    hosts: int


class FleetHintFields(TypedDict):
    """Drivers that would save an environment."""

    saves: str
    drivers: list[FleetDriverFields]
    text: str


class FleetRequestFields(TypedDict):
    """The request for all hosts of a fleet."""

    name: str
    stack: str | None
    pytorch: str | None
    cuda: str | None
    python: str | None
    packages: list[str]
    pip: list[str]
    dev: bool
    cpu: bool
    prefer: str
    offload: str
    as_of: NotRequired[str]  # the day as of which builds were asked for


class FleetPlanDocument(TypedDict):
    """What `cuenv fleet plan` found, and `cuenv fleet verify` reads: the fewest environments of a fleet, with proof."""

    schema: Literal["cuenv/fleet-plan/1"]
    knowledge: str  # the edition of the tables
    request: FleetRequestFields
    hosts: int
    at_most: int | None
    assumed_glibc: str | None  # of hosts whose glibc is not known
    environments: list[FleetEnvironmentFields]
    kinds: list[FleetKindFields]
    prices: list[FleetPriceFields]
    proofs: list[FleetProofFields]
    unknown: list[FleetUnknownFields]
    hopeless: list[FleetHopelessFields]
    hints: list[FleetHintFields]
    broken: list[str]  # parts of the input that could not be read, and nodes that contradict themselves
    written: list[str]


class FleetVerdictFields(TypedDict):
    """One statement of a plan, and whether it holds."""

    says: str
    holds: bool
    because: str | None  # why not


class FleetVerifyDocument(TypedDict):
    """What `cuenv fleet verify` found."""

    schema: Literal["cuenv/fleet-verify/1"]
    plan: str
    holds: bool
    checked: list[FleetVerdictFields]


class FleetRefusedFields(TypedDict):
    """Hosts that a lock does not support, and the reason."""

    nodes: str
    hosts: int
    code: str
    because: str


class FleetLockFields(TypedDict):
    """A lock, and the hosts that it supports."""

    lock: str
    nodes: str
    hosts: int
    refused: list[FleetRefusedFields]


class FleetCheckDocument(TypedDict):
    """What `cuenv fleet check` found."""

    schema: Literal["cuenv/fleet-check/1"]
    hosts: int
    locks: list[FleetLockFields]
    unserved: str  # the hosts that no lock serves, folded
    unserved_hosts: int
    without_gpu: str  # hosts that are not judged, folded
    unknown: list[FleetUnknownFields]
    broken: list[str]


class FleetMoveFields(TypedDict):
    """Hosts that a change gives another environment."""

    nodes: str
    hosts: int
    before: str | None  # null: they were not there, or nothing served them
    after: str | None
    why: str


class FleetDiffDocument(TypedDict):
    """What `cuenv fleet diff` found."""

    schema: Literal["cuenv/fleet-diff/1"]
    before: int  # how many environments
    after: int
    moves: list[FleetMoveFields]
    added: str  # hosts that are new, folded
    removed: str
    broken: list[str]
