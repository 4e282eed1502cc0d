"""Every JSON document that cuenv prints, as a type: the schemas that ship are made of these (``nox -s schemas``).

A document is a class whose ``schema`` is a literal; several may share one name. The comment behind a field describes it
in the schema and in docs/json.md. Modules import them for types alone, so that no command pays for them;
``typing_extensions`` is a requirement of the tests, not of cuenv.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.core.findings import How, Severity, Status

Confidence = Literal["high", "low"]


class EditFields(TypedDict):
    """A change of the entries of an environment."""

    how: Literal["add", "write", "remove"]  # write: in place of the entry of that name
    entries: list[str]
    pip: bool  # they are requirements of pip
    over: NotRequired[str]  # the name of what `write` replaces, where it is another one


class FindingFields(TypedDict):
    """One thing that is wrong, or worth knowing."""

    code: str  # stable, such as CU401; `cuenv why CODE` explains it
    severity: Severity
    subject: str  # what it is about: a package, a GPU, a file
    message: str
    evidence: list[str]  # the facts and table rows that it rests on
    fix: str | None  # one command or edit that mends it
    edits: NotRequired[list[EditFields]]  # where entries of the environment mend it: which


class CheckFields(TypedDict):
    """One check of an environment."""

    name: str
    status: Status
    says: str  # what was looked at, or why the check was skipped
    codes: list[str]  # of its findings


class LayerFields(TypedDict):
    """How one library supports the GPUs."""

    layer: str  # its name for people
    package: str  # as it is locked
    served: dict[str, How]  # the support for each compute capability
    because: str  # why, for the GPU that it supports worst


class ChangeFields(TypedDict):
    """What became of one entry of a file that was repaired."""

    entry: str
    fate: str
    became: str | None
    why: str | None


class InTheWay(TypedDict):
    """An entry of a file that nothing could repair, and why it is in the way."""

    entry: str
    why: str


class LeftOut(TypedDict):
    """A candidate that was tried, and why it was left out."""

    candidate: str
    why: str


class Unsolved(TypedDict):
    """Why the channels do not satisfy the file."""

    missing: list[str]
    text: str  # what the solver said
    command: str


class ReportDocument(TypedDict):
    """What `lock`, `check`, `install`, `bundle` and `kb audit` found."""

    schema: Literal["cuenv/report/1"]
    title: str  # what was checked
    ok: bool  # there is no error, and with --strict no warning
    findings: list[FindingFields]  # errors and warnings, the most severe first
    notes: list[FindingFields]  # findings that are information only
    host: NotRequired[str]  # of check: the host that was judged, in one line
    layers: NotRequired[list[LayerFields]]  # of check and of lock --repair: how each library supports the GPUs
    part: NotRequired[str]  # of check: the environment, extras and Python that were read of a lock that holds more
    checks: NotRequired[list[CheckFields]]  # of check: the checks of an environment
    environment: NotRequired[ReportDocument]  # of check with a lock and an environment: the report on the environment
    locked: NotRequired[bool]  # of lock: the lock was made
    written: NotRequired[list[str] | str | None]  # the files that were written; of bundle the bundle
    packages: NotRequired[dict[str, int] | int]  # how many; of lock and bundle for each platform
    pip: NotRequired[dict[str, int] | int]  # packages for pip: how many; of lock and bundle for each platform
    afterwards: NotRequired[dict[str, str] | str | None]  # installs what is set aside; of lock for each platform
    as_of: NotRequired[str]  # of lock: the day as of which channels and indexes were read
    host_of_file: NotRequired[str | None]  # of lock: the host that the environment file names
    unsatisfiable: NotRequired[Unsolved | None]  # of lock: why the channels do not satisfy the file
    repaired: NotRequired[bool]  # of lock --repair: there is a file that works
    changes: NotRequired[list[ChangeFields]]  # of lock --repair: what became of each entry
    dropped: NotRequired[str | None]  # of lock --repair: the entries that were dropped and why, in one sentence
    pins: NotRequired[list[str]]  # of lock --repair: pins that were added
    skipped: NotRequired[list[LeftOut]]  # of lock --repair: candidates that were tried before
    obstacles: NotRequired[list[InTheWay]]  # of lock --repair: where nothing locks, the entries in the way
    installed: NotRequired[bool]  # of install: the environment is there
    changed: NotRequired[bool]  # of install: it was not there before
    prefix: NotRequired[str]  # of install: its folder
    commands: NotRequired[list[str]]  # of install: what activates it
    bundled: NotRequired[bool]  # of bundle: the bundle was made
    size: NotRequired[int]  # of bundle: in bytes
    channel: NotRequired[str]  # of kb audit
    platform: NotRequired[str | None]  # of install and kb audit


class PlacedFinding(FindingFields):
    """A finding at a place of a file."""

    line: int  # from 1
    column: int  # from 1
    fixable: bool  # `cuenv lint --fix` mends it


class LintedFile(TypedDict):
    """A file and its findings."""

    path: str | None
    kind: str
    findings: list[PlacedFinding]


class LintDocument(TypedDict):
    """What `cuenv lint` found."""

    schema: Literal["cuenv/lint/1"]
    files: list[LintedFile]


class PackageFields(TypedDict):
    """A locked package."""

    version: str
    build: str
    channel: str
    url: str


class PackageDifference(TypedDict):
    """A package that differs."""

    platform: str
    name: str
    kind: Literal["added", "removed", "changed"]
    core: bool  # it is of the CUDA core
    what: list[str]  # of a changed package: version, build, channel, or hash
    old: PackageFields | None
    new: PackageFields | None


class AddedRemoved(TypedDict):
    """What only one of two locks has."""

    added: list[str]
    removed: list[str]


class GpuDifference(TypedDict):
    """A compute capability that two locks support differently."""

    platform: str
    capability: str
    old: How
    new: How


class BriefFinding(TypedDict):
    """A finding without its evidence."""

    code: str
    severity: Severity
    message: str
    fix: str | None


class OldNew(TypedDict):
    """A value of both locks; null where it is not known."""

    old: str | None
    new: str | None


class HostDifference(TypedDict):
    """What the difference means for one host."""

    host: str
    platform: str
    minimum_driver: OldNew
    appear: list[BriefFinding]  # findings that only the new lock has
    vanish: list[BriefFinding]  # findings that only the old lock has


class DiffDocument(TypedDict):
    """How two locks differ."""

    schema: Literal["cuenv/diff/1"]
    old: str  # where the first lock was read
    new: str  # where the second lock was read
    equal: bool  # both lock the same
    changes: list[PackageDifference]
    platforms: AddedRemoved
    pip: AddedRemoved  # packages for pip
    gpus: list[GpuDifference]
    hosts: list[HostDifference]


class SourceFields(TypedDict):
    """Where a fact was read; evidence of a host has only an id."""

    id: str
    title: NotRequired[str]
    publisher: NotRequired[str]
    locator: NotRequired[str]  # where in the source
    url: NotRequired[str]
    read_on: NotRequired[str]  # the day on which it was read


class SymptomFields(TypedDict):
    """A line of a log that is known."""

    symptom: str  # its id
    says: str
    line: int
    text: str
    count: int  # how often it stands in the log


class CauseFields(SymptomFields):
    """A cause and its remedy."""

    layer: str
    kind: str  # cause, effect, remark, raised (judged by the file that raised it), or words (only its words are known)
    rank: int  # place among the causes, from 1
    leads: str  # why it stands at this place
    told: dict[str, str]  # what the line says, by name
    why: str
    because: list[str]  # what of this host confirms it
    remedy: str
    command: str
    administrator: bool  # the command is for an administrator of the machine
    codes: list[str]  # findings that would have said it before
    followers: list[SymptomFields]  # what follows from it
    confidence: Confidence
    sources: list[SourceFields]
    seen: list[str]  # where the text was met


class UnknownLine(TypedDict):
    """A line that looks like a failure and is not known."""

    line: int
    text: str


class LogDiagnosisDocument(TypedDict):
    """What `cuenv diagnose LOG` found."""

    schema: Literal["cuenv/diagnosis/1"]
    verdict: Literal["known", "effect", "harmless", "unknown", "clean"]
    ok: bool  # nothing failed
    lines: int
    bytes: int
    host: str | None
    evidence: list[EvidenceFields]  # where each fact of the host is from
    contradictions: list[str]  # facts that are told in two ways, or that exclude each other
    mentions: dict[str, str]  # versions that the log names
    causes: list[CauseFields]  # the first leads; of an unknown log only one of the kind words does
    unknown: list[UnknownLine]
    send: str | None  # the command whose output helps to explain an unknown log


class ShownFinding(FindingFields):
    """A finding and the symptoms by which it would show."""

    shows_as: list[str]


class HostDiagnosisDocument(TypedDict):
    """What `cuenv diagnose` found without a log."""

    schema: Literal["cuenv/diagnosis/1"]
    verdict: Literal["fails", "fine"]
    ok: bool
    host: str
    findings: list[ShownFinding]
    fine: list[str]  # what works, one sentence each


class ChosenFields(TypedDict):
    """The chosen packages."""

    stack: str  # which channel's packages: conda-forge or pytorch; or wheels, those of pip
    channel: str | None  # of the CUDA packages of conda
    torch_channel: str  # of PyTorch; wheels: it comes by pip
    pytorch: str
    cuda: str | None
    build: str  # a pattern of PyTorch's build string
    python: str
    platform: str


class ServedGpu(TypedDict):
    """How PyTorch supports one GPU."""

    capability: str
    how: Literal["native", "jit"]


class MachineDriver(TypedDict):
    """The minimum driver of one machine."""

    host: str
    driver: str | None


class RuleNote(TypedDict):
    """A rule that warns, or does not know."""

    rule: str
    outcome: Literal["warn", "unknown"]
    because: str


class MissingCandidate(TypedDict):
    """A candidate that the channels could not satisfy."""

    candidate: str
    missing: str


class RejectedGroup(TypedDict):
    """Candidates that one rule rejected for one reason."""

    rule: str
    because: str
    count: int
    example: str


class HintFields(TypedDict):
    """What would open more, and the command for it."""

    text: str
    command: str


class DecisionDocument(TypedDict):
    """What `cuenv resolve` chose."""

    schema: Literal["cuenv/decision/1"]
    chosen: ChosenFields | None  # null when nothing fits
    host: str  # what the host is called
    gpus: list[ServedGpu]
    minimum_driver: str | None  # the oldest driver that runs it
    minimum_drivers: NotRequired[list[MachineDriver]]  # of a pool: for each machine
    proven: bool  # the channels have these packages
    notes: list[RuleNote]
    skipped: list[MissingCandidate]  # better candidates that the channels could not satisfy
    rejected: list[RejectedGroup]  # candidates that rules rejected
    hints: list[HintFields]
    warnings: list[BriefFinding]
    as_of: NotRequired[str]  # the day as of which builds were asked for
    records: NotRequired[str | None]  # the day of the channel records that were at hand
    lacking: NotRequired[str]  # the day of records at hand that do not satisfy a choice by the tables, and why
    platforms: NotRequired[list[str]]  # of a request for several platforms


class GroundFields(TypedDict):
    """A fact that a verdict rests on."""

    kind: Literal["host", "row", "wish"]
    says: str
    sources: list[SourceFields]
    confidence: Confidence


class VerdictFields(TypedDict):
    """What one rule says."""

    rule: str
    outcome: Literal["pass", "warn", "reject", "unknown"]
    because: str
    grounds: list[GroundFields]
    remedy: str | None
    count: int  # of how many candidates it says so


class LossFields(TypedDict):
    """A criterion by which something else was preferred."""

    criterion: str
    chosen: str
    other: str
    example: str


class WhyDocument(TypedDict):
    """What `cuenv why` and `cuenv why-not` answer."""

    schema: Literal["cuenv/why/1"]
    question: str
    answer: str
    verdicts: list[VerdictFields]
    losses: list[LossFields]


class DecisionFor(TypedDict):
    """A host and what is chosen for it."""

    host: str
    decision: DecisionDocument


class CandidateGroup(TypedDict):
    """Candidates that only one of two hosts can have."""

    stack: str
    pytorch: str
    cuda: str | None
    candidates: int


class BoundFields(TypedDict):
    """A version bound of the environment file that moves."""

    before: str | None
    after: str | None
    why: list[str]


class WhatIfDocument(TypedDict):
    """What another driver, or other GPUs, would change."""

    schema: Literal["cuenv/what-if/1"]
    before: DecisionFor
    after: DecisionFor
    appear: list[CandidateGroup]
    vanish: list[CandidateGroup]
    bounds: list[BoundFields]


class ErratumFields(TypedDict):
    """A statement of recipes, and what is true instead."""

    id: str
    topic: str
    says: str
    verdict: str
    true: str
    do: str | None
    codes: list[str]
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class AnswerFields(TypedDict):
    """The answer to a question."""

    id: str
    topic: str
    asks: str
    says: list[str]
    here: list[str]  # what the tables say for what the question names, and for the host
    do: str
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class KnownErrorFields(TypedDict):
    """An error that a question speaks of."""

    symptom: str
    says: str
    why: str
    remedy: str
    command: str
    codes: list[str]
    sources: list[SourceFields]


class ExplainDocument(TypedDict):
    """What is known about a topic or a question: answers, errors, and what recipes say."""

    schema: Literal["cuenv/explain/1"]
    question: str | None
    answers: list[AnswerFields]
    errors: list[KnownErrorFields]
    entries: list[ErratumFields]
    beside: list[str]  # topics and errors that come near


class AdviceFields(TypedDict):
    """What to know about a GPU."""

    about: str
    says: str
    do: str | None
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class ExplainGpuDocument(TypedDict):
    """What there is to say about a GPU."""

    schema: Literal["cuenv/explain/1"]
    gpu: str
    capability: str
    entries: list[AdviceFields]


class CodeSymptom(TypedDict):
    """How a finding shows in a log."""

    symptom: str
    layer: str
    says: str


class CodeErratum(TypedDict):
    """A recipe that leads to a finding."""

    id: str
    topic: str
    says: str


class CodeDocument(TypedDict):
    """What a finding code means."""

    schema: Literal["cuenv/code/1"]
    code: str
    severities: list[str]
    means: str
    why: str  # it hurts
    cure: str
    example: str
    found_by: list[str]  # the commands that look for it
    rule: str | None  # the rule of `cuenv resolve` that decides by the same
    symptoms: list[CodeSymptom]
    errata: list[CodeErratum]


class PtxFields(TypedDict):
    """PTX of one architecture and version, and how many objects hold it."""

    arch: str
    isa: str
    objects: int


class CodeObjects(TypedDict):
    """The device code that objects hold together."""

    sass: list[str]  # architectures of machine code
    ptx: list[PtxFields]
    lto: list[str]
    tile: list[str]
    objects: int  # how many there are
    everywhere: list[str]  # machine code that every object has
    partial: dict[str, int]  # machine code that only some objects have, and how many


class SectionObjects(CodeObjects):
    """Device code in a section where none is expected."""

    section: str


class ObjectPlace(TypedDict):
    """An object by its place in the file."""

    object: int
    section: str
    offset: int


class ScannedGpu(TypedDict):
    """What one GPU gets of a file."""

    capability: str
    outcome: Literal["native", "jit", "partly", "nothing"]
    native: int  # objects with machine code for it
    jit: int  # objects that the driver compiles
    beyond_driver: list[ObjectPlace]  # objects whose PTX is too new for the driver
    nothing: list[ObjectPlace]  # objects without code for it
    by: list[str]  # the targets that support it
    needs_cuda: str | None
    needs_driver: str | None
    unknown_isa: str | None  # the version of PTX that no table knows


class ScannedBinary(CodeObjects):
    """One file."""

    path: str
    machine: str  # the architecture of the file
    bare: int  # containers without a loader's entry
    possible: CodeObjects | None  # relocatable code, which a linker has to finish
    elsewhere: list[SectionObjects] | None  # with --deep: code outside of the usual sections
    gpus: list[ScannedGpu]


class SkippedFile(TypedDict):
    """A file that could not be read."""

    path: str
    fault: Literal["foreign", "unsupported", "damaged", "unreadable"]
    reason: str


class ScanDocument(TypedDict):
    """What `cuenv scan` found."""

    schema: Literal["cuenv/scan/1"]
    host: str
    files: list[ScannedBinary]
    skipped: list[SkippedFile]
    without_device_code: int  # how many ELF files have none
    other_files: int  # how many files are no ELF files


class CuenvFields(TypedDict):
    """The cuenv that an export installs."""

    url: str | None
    wheel: str | None
    sha256: str | None


class ImageFields(TypedDict):
    """A container image."""

    image: str
    digest: str | None


class UvGroupFields(TypedDict):
    """A set of GPUs, and the wheel of PyTorch that uv takes for it."""

    name: str | None  # of the dependency group; null where there is one set without a name
    gpus: list[str]
    pytorch: str
    build: str  # the tag of its index
    requirements: list[str]


class ActionFields(TypedDict):
    """An action of GitHub, by its commit."""

    action: str
    tag: str
    commit: str


class ToolkitFields(TypedDict):
    """A CUDA toolkit of the machine."""

    path: str
    release: str | None


class PixiEnvironmentFields(TypedDict):
    """An environment of a pixi workspace on one platform."""

    name: str
    platform: str
    subdir: str
    virtual_packages: list[str]  # what a machine must have at least, beside pixi's defaults
    packages: int
    pip: int


class ExportFields(TypedDict):
    """What only one kind of export says."""

    cuenv: NotRequired[CuenvFields]
    base: NotRequired[str]  # of dockerfile, devcontainer and apptainer
    why: NotRequired[list[str]]  # of the same: why this base
    images: NotRequired[list[ImageFields]]  # of the same, and of gitlab-ci
    actions: NotRequired[list[ActionFields]]  # of github-action
    needed: NotRequired[bool]  # of shell: builds need a toolkit
    toolkit: NotRequired[ToolkitFields | None]  # of shell: the one that is chosen
    because: NotRequired[list[str]]  # of shell: why; of pixi: what was left out
    groups: NotRequired[list[UvGroupFields]]  # of uv: the wheel of each set of GPUs
    environments: NotRequired[list[PixiEnvironmentFields]]  # of pixi: on each of its platforms


ExportKind = Literal[
    "apptainer", "devcontainer", "dockerfile", "github-action", "gitlab-ci", "pixi", "sbatch", "shell", "uv"
]


class ExportDocument(ExportFields):
    """What `cuenv export` made."""

    schema: Literal["cuenv/export/1"]
    kind: ExportKind
    refused: str | None  # why there is nothing
    files: dict[str, str]  # the texts by name
    written: list[str]


class PictureFields(TypedDict):
    """A picture of a report as its numbers: the first cell of a row names it."""

    name: str
    title: str
    description: str
    columns: list[str]
    rows: list[list[str]]


class PicturesDocument(TypedDict):
    """What `cuenv report` drew: the numbers of its pictures, and its findings."""

    schema: Literal["cuenv/pictures/1"]
    title: str
    verdict: str
    lead: list[str]
    findings: list[FindingFields]
    pictures: list[PictureFields]
    written: str | None  # the file of the report


class DriverFields(TypedDict):
    """The NVIDIA driver."""

    version: str | None
    cuda: str | None  # the highest CUDA release that it supports
    kernel_module: str | None  # the version of the loaded kernel module
    module_kind: str | None  # open or proprietary


class SwitchFields(TypedDict):
    """A mode of a GPU: now, and after the next reset."""

    on: bool
    pending: bool


class MigInstanceFields(TypedDict):
    """An instance of a GPU in MIG mode."""

    profile: str
    memory_mib: int | None


class MigFields(TypedDict):
    """The MIG mode of a GPU."""

    mode: SwitchFields
    instances: list[MigInstanceFields]


class GpuFields(TypedDict):
    """A GPU."""

    index: int
    name: str
    capability: str | None
    memory_mib: int | None
    mig: NotRequired[MigFields]
    ecc: NotRequired[SwitchFields]


class LibcFields(TypedDict):
    """The C library."""

    family: str
    version: str


class FoundToolkitFields(ToolkitFields):
    """A CUDA toolkit that was found."""

    on_path: bool  # PATH finds its nvcc first
    via: str  # how it was found


class CompilerFields(TypedDict):
    """A host compiler that PATH finds."""

    name: str
    path: str
    version: str


class FoundTorchFields(TypedDict):
    """A PyTorch that was found; it was not imported."""

    where: str
    path: str
    version: str
    cuda: str | None
    origin: str


class LibraryPathFields(TypedDict):
    """An entry of LD_LIBRARY_PATH with CUDA libraries."""

    path: str
    libraries: list[str]


class LibcudaFields(TypedDict):
    """The driver library that a program gets."""

    path: str
    version: str | None
    via: str
    forward: bool


class SurroundingsFields(TypedDict):
    """What encloses the process."""

    container: str | None
    wsl: bool
    conda_prefix: str | None
    virtual_env: str | None
    library_path: list[LibraryPathFields]
    driver_capabilities: NotRequired[str]  # NVIDIA_DRIVER_CAPABILITIES of a container
    device_nodes: NotRequired[list[str]]  # the device files of the driver
    libcuda: NotRequired[LibcudaFields]


class ResourceFields(TypedDict):
    """Memory and disk, in MiB."""

    memory_mib: NotRequired[int]
    shm_mib: NotRequired[int]
    disk_mib: NotRequired[int]


class GapFields(TypedDict):
    """A fact that could not be established."""

    fact: str
    source: str
    reason: str


class EvidenceFields(TypedDict):
    """Where a fact comes from."""

    fact: str
    source: str
    text: str


class FeatureFields(TypedDict):
    """What GPUs can do."""

    tensor: dict[str, bool]  # number formats of the tensor cores
    bf16: bool
    fp64: str | None  # the rate of FP64, as a part of FP32's
    confidence: Confidence
    sources: list[str]


class HostFields(TypedDict):
    """One machine."""

    label: str  # what it is called
    name: NotRequired[str]  # of the machine: SLURMD_NODENAME, else its host name; not in what is recorded or redacted
    detected: bool  # a real machine, and not options
    platform: Literal["linux-64", "linux-aarch64"]
    kernel: str | None  # the release of the Linux kernel
    archspec: NotRequired[str]  # the microarchitecture, where it was set
    driver: DriverFields | None
    gpus: list[GpuFields]
    libc: LibcFields | None
    toolkits: list[FoundToolkitFields]
    compilers: list[CompilerFields]
    torch: list[FoundTorchFields]
    environment: SurroundingsFields
    resources: NotRequired[ResourceFields]
    gaps: list[GapFields]  # what could not be established
    evidence: list[EvidenceFields]


class HostDocument(HostFields):
    """What `cuenv inspect` found; `--host FILE` reads it back."""

    schema: Literal["cuenv/host/1"]
    features: NotRequired[dict[str, FeatureFields]]  # what the tables say that its GPUs can do
    members: NotRequired[list[HostFields]]  # of a pool: its machines


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


class RowFields(TypedDict):
    """What a row of a table says."""

    table: str
    says: str
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class KnowledgeDocument(TypedDict):
    """What `cuenv kb` says."""

    schema: Literal["cuenv/kb/1"]
    edition: str
    tables: NotRequired[dict[str, int]]  # without a topic: the rows of each table
    title: NotRequired[str]
    entries: NotRequired[list[RowFields]]


class FormattedDocument(TypedDict):
    """What `cuenv kb format` did."""

    schema: Literal["cuenv/formatted/1"]
    folder: str
    files: list[str]
    changed: list[str]  # those that were not in canonical form
    written: bool


class LearnedDocument(TypedDict):
    """What `cuenv kb learn` read."""

    schema: Literal["cuenv/learned/1"]
    day: str
    tables: dict[str, Any]  # new rows, in the form of the table files


class ProfileFields(TypedDict):
    """A profile."""

    name: str
    origin: str | None  # where it stands
    ok: bool  # it is valid
    story: NotRequired[str]
    fault: NotRequired[str | None]
    fits: NotRequired[bool | None]  # the host can have what it asks for


class ProfileDocument(TypedDict):
    """What `cuenv profile` says."""

    schema: Literal["cuenv/profile/1"]
    profiles: NotRequired[list[ProfileFields]]  # of list and validate
    name: NotRequired[str]
    origin: NotRequired[str]
    profile: NotRequired[dict[str, Any]]  # of show: its keys
    written: NotRequired[str | None]  # of new: the file
    text: NotRequired[str]  # of new: the template


class NextCommand(TypedDict):
    """A command and what it does."""

    command: str
    does: str


class NextDocument(TypedDict):
    """What lies in a folder, and the commands that lead on."""

    schema: Literal["cuenv/next/1"]
    found: list[str]
    next: list[NextCommand]


class SettingFields(TypedDict):
    """A setting, its value, and where the value comes from."""

    name: str
    value: str | bool | list[str] | None
    origin: str


class ConfigDocument(TypedDict):
    """What `cuenv config` says."""

    schema: Literal["cuenv/config/1"]
    file: str | None
    settings: list[SettingFields]
    profiles: list[str]
    warnings: list[str]


class ShellHookDocument(TypedDict):
    """What `cuenv shell-hook` would have a shell do."""

    schema: Literal["cuenv/shell-hook/1"]
    prefix: str
    sets: dict[str, str]
    removes: list[str]
    leaving: dict[str, list[str]]  # scripts that leave the active environment, by ending
    scripts: dict[str, list[str]]  # scripts that enter this one, by ending


class HookScripts(TypedDict):
    """The scripts of one shell."""

    activate: str
    deactivate: str


class HookDocument(TypedDict):
    """What `cuenv hook` did."""

    schema: Literal["cuenv/hook/1"]
    prefix: str
    removed: NotRequired[list[str]]  # of --remove
    kept: NotRequired[list[str]]  # of --remove: files that are not cuenv's
    written: NotRequired[list[str]]
    sets: NotRequired[list[str]]  # the names of variables
    notes: NotRequired[list[str]]
    activate: NotRequired[str]
    deactivate: NotRequired[str]
    fish: NotRequired[HookScripts]  # the scripts for fish


class DemoDocument(TypedDict):
    """What `cuenv demo` did."""

    schema: Literal["cuenv/demo/1"]
    ok: bool
    decision: DecisionDocument
    reports: list[ReportDocument]


class CacheKind(TypedDict):
    """One kind of files in the cache."""

    kind: str
    files: int
    bytes: int


class CacheDocument(TypedDict):
    """What the cache holds, or what was removed from it."""

    schema: Literal["cuenv/cache/1"]
    folder: str
    kinds: list[CacheKind]
    bytes: int
    removed: NotRequired[bool]  # of clean: false with --dry-run


class CompletionDocument(TypedDict):
    """The completion script of a shell, and where it goes."""

    schema: Literal["cuenv/completion/1"]
    shell: str
    place: str
    script: str


class FleetGpuFields(TypedDict):
    """A GPU of a kind of hosts."""

    name: str
    capability: str


class FleetKindFields(TypedDict):
    """Hosts of a fleet that no rule can tell apart."""

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
    """A rule that keeps a host from most of what serves another."""

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
    """Why fewer environments do not do: hosts that cannot be divided into fewer groups."""

    environments: int  # so many are needed
    well: bool  # for all GPUs to get what they get on their best; else for all to get something
    kinds: list[int]  # places in `kinds`
    pairs: list[FleetPairFields]


class FleetUnknownFields(TypedDict):
    """Hosts of which facts are missing."""

    nodes: str
    hosts: int
    lacks: list[str]


class FleetHopelessFields(TypedDict):
    """Hosts that nothing serves."""

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
    """What is wanted on all hosts of a fleet."""

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
    """Hosts that a lock does not serve, and why."""

    nodes: str
    hosts: int
    code: str
    because: str


class FleetLockFields(TypedDict):
    """A lock, and the hosts that it serves."""

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


class ErrorFields(TypedDict):
    """An error."""

    code: str
    message: str
    hint: str | None  # what to do next


class ErrorDocument(TypedDict):
    """What any command prints with --json when it fails."""

    schema: Literal["cuenv/error/1"]
    error: ErrorFields


class SchemasDocument(TypedDict):
    """What `cuenv schema` lists: each document and what it is."""

    schema: Literal["cuenv/schemas/1"]
    schemas: dict[str, str]


Document = (
    ReportDocument
    | LintDocument
    | DiffDocument
    | LogDiagnosisDocument
    | HostDiagnosisDocument
    | DecisionDocument
    | WhyDocument
    | WhatIfDocument
    | ExplainDocument
    | ExplainGpuDocument
    | CodeDocument
    | ScanDocument
    | ExportDocument
    | PicturesDocument
    | HostDocument
    | GatherDocument
    | KnowledgeDocument
    | FormattedDocument
    | LearnedDocument
    | ProfileDocument
    | NextDocument
    | ConfigDocument
    | ShellHookDocument
    | HookDocument
    | DemoDocument
    | CacheDocument
    | CompletionDocument
    | FleetPlanDocument
    | FleetVerifyDocument
    | FleetCheckDocument
    | FleetDiffDocument
    | ErrorDocument
    | SchemasDocument
)
