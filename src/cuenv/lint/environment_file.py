"""Lint of ``environment.yml``: the policy for environment files, and what clients read differently."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from cuenv.core.findings import Finding, Severity
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import host, redact, short_channel, strip_credentials
from cuenv.core.versions import parse_arch_list
from cuenv.host.describe import host_options
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Edit, Lint, Machine, Node, make_lint, place_of, replacement_entry, whole_lines, yaml_scalar
from cuenv.lockfile.file_check import judge_file
from cuenv.resolver.asked_cuda import named_cuda
from cuenv.resolver.policy import prefix_is_foreign, spec_findings
from cuenv.resolver.rules.device import device_code
from cuenv.resolver.torch_findings import asked_torch_not_in_tables
from cuenv.resolver.verdict import named_capability
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.environment_yml import OTHER_SYSTEMS, SELECTOR, two_colons
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.pip_lines import line_text

_FLOAT = regex(r"[0-9]+\.[0-9]+")


def number_lints(tree: Node) -> Iterator[Lint]:
    """Mistakes in the numbers of an environment file."""
    dependencies = tree.get("dependencies")
    for item in dependencies.items if dependencies else ():
        for key, value in item.entries:
            if is_mapping(key, value):
                yield _mapping_lint(item, key, value)
    variables = tree.get("variables")
    for key, value in variables.entries if variables else ():
        if _is_float(value):
            message = (
                f"{key.text}: {value.text} is the number {float(value.text)} in YAML, and some clients drop its zeros"
            )
            quoted = f'"{value.text}"'
            edit = Edit(start=value.start, end=value.end, text=quoted)
            yield make_lint("CU303", "warning", value.start, key.text, message, f"write {quoted}", edit)


def is_mapping(key: Node, value: Node) -> bool:
    """Whether a requirement is written ``name: version``; ``pip:`` may be empty, and a selector is not one."""
    if key.text == "pip":
        return value.text[:1].isdigit()
    return value.scalar and not key.text.startswith("sel(")


def _mapping_lint(item: Node, key: Node, value: Node) -> Lint:
    message = f"'{key.text}: {value.text}' is a mapping, not a requirement"
    if _is_float(value):
        message += f", and YAML reads {value.text} as {float(value.text)}"
    entry = _intended_requirement(key.text, value.text)
    fix = f"write {entry}" if entry else f"write {key.text}=VERSION"
    end = item.end if key.start > item.start else value.end  # braces end with themselves, a block with its last value
    edits = [Edit(start=item.start, end=end, text=yaml_scalar(entry, plain=True))] if entry else []
    return make_lint("CU303", "error", key.start, key.text, message, fix, *(edits if len(item.entries) == 1 else ()))


def _intended_requirement(name: str, version: str) -> str:
    """The requirement that a name and a version were meant to be; empty if that is not valid."""
    joint = "" if not version or version[0] in "<>=!~" else "="
    text = f"{name}{joint}{version}"
    try:
        parse_spec(text)
    except ValueError:
        return ""
    return "" if "#" in text else text


def _is_float(node: Node) -> bool:
    return node.kind == "plain" and _FLOAT.fullmatch(node.text) is not None


def empty_lints(text: str, tree: Node) -> Iterator[Lint]:
    """A dash with nothing but a comment, which is left where an entry was commented out behind its dash."""
    for item in _requirement_nodes(tree.get("dependencies")):
        if item.kind != "plain" or item.text or item.start != item.end:
            continue
        dash = text.rfind("-", 0, item.start)
        only = dash >= 0 and not text[dash + 1 : item.start].strip(" ")
        message = "nothing follows this dash: the entry is empty, and conda does not skip it"
        end = dash + 1 + text.startswith(" ", dash + 1)
        edits = [Edit(start=dash, end=end, text="")] if only else []
        yield make_lint("CU300", "error", dash if only else item.start, "file", message, "remove the dash", *edits)


_LOGIN = regex(r"://(?!git@)[^/\s@]+@")  # a user in a URL; git is the account of everybody on a server of repositories


def credential_lints(tree: Node) -> Iterator[Lint]:
    """Users, passwords and tokens in the URLs of channels and requirements."""
    channels, dependencies = tree.get("channels"), tree.get("dependencies")
    for item in channels.items if channels else ():
        if "://" in item.text and strip_credentials(item.text) != item.text:
            yield _login_lint(item, "channels", strip_credentials(item.text))
    for item in _requirement_nodes(dependencies):
        if has_login(item.text):
            yield _login_lint(item, "dependencies", redact(item.text))


def has_login(text: str) -> bool:
    """Whether a URL in a requirement contains a user, a password or a token."""
    return _LOGIN.search(text) is not None


def _requirement_nodes(dependencies: Node | None) -> Iterator[Node]:
    for item in dependencies.items if dependencies else ():
        yield item
        for _, value in item.entries:
            yield from value.items


def _login_lint(item: Node, subject: str, plain: str) -> Lint:
    return Lint(finding=login_finding(plain, subject), at=item.start)


def login_finding(plain: str, subject: str) -> Finding:
    """The finding on a login that everybody who has the file can read.

    Args:
        plain: the entry without it.
        subject: the part of the file.
    """
    place = host(plain[max(plain.find("://") - 5, 0) :].split(maxsplit=1)[0]) if "://" in plain else ""
    message = f"{plain} contains a login or token, which everyone who has this file or its history can read"
    fix = (
        f"write {plain}, keep the login in ~/.netrc (machine {place or 'HOST'} login USER password PASSWORD), "
        "and change a password that was committed"
    )
    return Finding(code="CU308", severity="error", subject=subject, message=message, fix=fix)


_EXACT = regex(r"==|\[")  # what makes a version exact for every client
_COMMA_BEFORE = regex(r",[ \t]*\Z")
_COMMA_AFTER = regex(r"[ \t]*,[ \t]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One requirement: its place and its name; ``pin`` if it is a conda package."""

    node: Node
    name: str
    pip: bool = False
    pin: Pin | None = None
    mapping: bool = False  # it is written ``name: version``; what mends that comes first

    @property
    def text(self) -> str:
        """The text by which a finding names it."""
        return self.pin.yaml_text() if self.pin else self.node.text.strip()


def environment_lints(
    text: str,
    tree: Node,
    spec: EnvironmentSpec | None,
    knowledge: Knowledge,
    machine: Machine,
    *,
    folder: Path | None = None,
) -> Iterator[Lint]:
    """Mistakes in an environment file.

    Args:
        spec: what it says, with each ``name: version`` as what it means; ``None`` when it cannot be read.
        folder: where it lies; ``None`` where nobody knows.
    """
    entries = tuple(_entries(tree))
    yield from number_lints(tree)
    yield from empty_lints(text, tree)
    yield from _colon_lints(tree)
    yield from _nodefaults_lints(tree)
    yield from credential_lints(tree)
    yield from _selector_lints(text, tree)
    yield from _ambiguous_version_lints(entries)
    yield from _variable_lints(tree)
    if spec is None:
        return
    # where a host is known, the rules say it
    unlisted = None if machine.gpus else asked_torch_not_in_tables(spec, knowledge)
    judged = (*spec_findings(spec, knowledge), *((unlisted,) if unlisted else ()))
    yield from _host_lints(tree, entries, spec, machine, knowledge)
    for item in _policy_lints(text, tree, entries, judged):
        yield _without_macos_edit(item, text, spec)
    yield from _set_aside_lints(tree, spec, folder, knowledge)
    if frozen := frozen_channel_finding(spec, knowledge, machine):
        yield Lint(finding=frozen, at=(tree.get("channels") or tree).start)
    yield from _post_link_lints(entries, judged, knowledge)
    variables = tree.get("variables")
    if variables is not None and variables.kind == "map":
        cuda = named_cuda(spec)
        for key, value in variables.entries:
            if key.text == "TORCH_CUDA_ARCH_LIST":
                yield from arch_list_lints(value.text, value.start, machine, cuda, knowledge)
            elif key.text == "DS_BUILD_SPARSE_ATTN" and value.text == "1" and spec.pin("pytorch"):
                yield sparse_attention_lint(key.start)


def _host_lints(
    tree: Node, entries: tuple[_Entry, ...], spec: EnvironmentSpec, machine: Machine, knowledge: Knowledge
) -> Iterator[Lint]:
    """Why nothing that the file allows runs on the host, at the entry of torch or of a program."""
    if machine.facts is None:
        return
    torch = next((entry.node for entry in entries if entry.name == ("torch" if entry.pip else "pytorch")), None)
    place = torch or tree.get("dependencies") or tree
    facts = replace(machine.facts, platform=next(iter(spec.platforms), machine.facts.platform))
    for finding in judge_file(spec, facts, knowledge, alone=True):
        own = (entry.node for entry in entries if finding.subject == entry.name or entry.text in finding.about)
        yield Lint(finding=finding, at=(torch or next(own, place)).start)


def _set_aside_lints(tree: Node, spec: EnvironmentSpec, folder: Path | None, knowledge: Knowledge) -> Iterator[Lint]:
    """Requirements of the pip part that ``cuenv lock`` sets aside or refuses, each at its line."""
    if not spec.pip:
        return
    from cuenv.lockfile.pip import beforehand  # noqa: PLC0415 - most files have no pip part

    dependencies = tree.get("dependencies") or tree
    lines = [
        node for item in dependencies.items for key, value in item.entries if key.text == "pip" for node in value.items
    ]
    places = {line_text(node.text.strip()): node for node in reversed(lines)}
    for finding in beforehand(spec, folder, knowledge):
        yield Lint(finding=finding, at=(place_of(finding, places) or dependencies).start)


def _colon_lints(tree: Node) -> Iterator[Lint]:
    """One colon between a channel and a package, where two are meant."""
    dependencies = tree.get("dependencies")
    for item in dependencies.items if dependencies else ():
        two = two_colons(item.text) if item.scalar else ""
        if two:
            message = f"conda ignores what precedes a single colon: {item.text} may come from any channel"
            subject = two.partition("::")[0]
            yield make_lint(
                "CU305", "warning", item.start, subject, message, f"write {two}", *_replacement_edit(item, two)
            )


def _entries(tree: Node) -> Iterator[_Entry]:
    dependencies = tree.get("dependencies")
    for item in dependencies.items if dependencies else ():
        if item.scalar:
            try:
                pin = parse_spec(two_colons(item.text) or item.text)
            except ValueError:
                continue
            yield _Entry(node=item, name=pin.name, pin=pin)
        for key, value in item.entries:
            if is_mapping(key, value):
                yield _Entry(node=key, name=key.text.lower(), mapping=True)
            elif key.text == "pip":
                for requirement in value.items:
                    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement.text)
                    if found:
                        name = re.sub(r"[-_.]+", "-", found[1]).lower()
                        yield _Entry(node=requirement, name=name, pip=True)


def _replacement_edit(node: Node, new: str) -> tuple[Edit, ...]:
    return (Edit(start=node.start, end=node.end, text=yaml_scalar(new, plain=node.kind == "plain")),)


def _removal_edit(text: str, node: Node, siblings: int) -> tuple[Edit, ...]:
    """The edit that removes an entry of a list with its line or its comma; the last entry stays."""
    if siblings < 2:
        return ()
    first, last = whole_lines(text, node.start, node.end)
    if text[first : node.start].strip() == "-":
        return (Edit(start=first, end=last, text=""),)
    before, behind = _COMMA_BEFORE.search(text[first : node.start]), _COMMA_AFTER.match(text, node.end)
    if before:
        return (Edit(start=first + before.start(), end=node.end, text=""),)
    return (Edit(start=node.start, end=behind.end(), text=""),) if behind else ()


def _make_finding(code: str, severity: Severity, subject: str, message: str, fix: str | None = None) -> Finding:
    return Finding(code=code, severity=severity, subject=subject, message=message, fix=fix)


def _policy_lints(text: str, tree: Node, entries: tuple[_Entry, ...], found: tuple[Finding, ...]) -> Iterator[Lint]:
    """Findings of the policy of ``cuenv lock``, each at the entry that it is about."""
    pip = tuple(entry for entry in entries if entry.pip)
    for finding in found:
        subject = finding.subject.split(", ")[0]
        meant = [item for item in entries if item.name == subject and _is_about(item, finding)]
        entry = place_of(finding, {item.text: item for item in reversed(meant)}) or next(iter(meant), None)
        if entry is None:
            yield Lint(finding=finding, at=_node_of_finding(tree, entries, finding).start)
        elif entry.mapping:
            yield Lint(finding=finding, at=entry.node.start)
        elif finding.code == "CU502":
            yield Lint(finding=finding, at=entry.node.start, edits=_removal_edit(text, entry.node, len(pip)))
        elif (better := replacement_entry(finding)) and finding.subject == entry.name:
            yield Lint(finding=finding, at=entry.node.start, edits=_replacement_edit(entry.node, better))
        else:
            yield Lint(finding=finding, at=entry.node.start)


def _node_of_finding(tree: Node, entries: tuple[_Entry, ...], finding: Finding) -> Node:
    """The place of a finding whose subject is no requirement: the entry that it is about, or the list."""
    node = tree.get("channels" if finding.subject == "channels" else "dependencies") or tree
    places = {item.text: item for item in reversed(node.items) if item.scalar}
    places |= {entry.text: entry.node for entry in reversed(entries)}
    return place_of(finding, places) or node


def _without_macos_edit(lint: Lint, text: str, spec: EnvironmentSpec) -> Lint:
    """A lint without the edit that requests CUDA on macOS, if the line is for Linux and macOS."""
    first, last = whole_lines(text, lint.at, lint.at)
    elsewhere = any(platform.startswith("osx") for platform in spec.platforms) or prefix_is_foreign(spec)
    if lint.finding.code != "CU104" or not elsewhere or "[linux" in text[first:last]:
        return lint
    fix = f"{lint.finding.fix} in a line for Linux only, which ends with # [linux]"
    return replace(lint, edits=(), finding=replace(lint.finding, fix=fix))


def _is_about(entry: _Entry, finding: Finding) -> bool:
    """Whether a finding is about this entry and not about one of the same name in the other part."""
    if finding.code == "CU503":
        return entry.text in finding.about
    return entry.pip == (finding.code == "CU502") or finding.code.startswith("CU5")


def _nodefaults_lints(tree: Node) -> Iterator[Lint]:
    channels = tree.get("channels")
    items = channels.items if channels else ()
    for item in items:
        if item.text == "nodefaults":
            yield Lint(
                finding=_make_finding(
                    "CU301",
                    "warning",
                    "channels",
                    "conda 26.7 and later read nodefaults as a channel name "
                    "and fail; earlier releases and micromamba exclude the default channels",
                    "remove nodefaults from the channels if conda 26.7 or later reads the file",
                ),
                at=item.start,
            )


def _selector_lints(text: str, tree: Node) -> Iterator[Lint]:
    """Entries with a comment for another system, which only conda-lock obeys."""
    if tree.get("platforms") is not None:
        return
    for found in SELECTOR.finditer(text):
        what = found["what"]
        if what in OTHER_SYSTEMS:
            yield make_lint(
                "CU302",
                "warning",
                found.start("what") - 1,
                what,
                f"the comment [{what}] selects a system only for conda-lock; conda, micromamba and pixi install "
                f"{found['entry'].strip().removeprefix('-').strip()} on Linux too",
                f"put the packages for {what} in a separate file",
            )


def _ambiguous_version_lints(entries: tuple[_Entry, ...]) -> Iterator[Lint]:
    """``pytorch=2.7=cuda*``: conda reads exactly 2.7, other clients a prefix."""
    for entry in entries:
        pin = entry.pin
        written = entry.node.text
        if pin and pin.ambiguous and not _EXACT.search(written):
            better = pin.exact_text()
            yield Lint(
                finding=_make_finding(
                    "CU305",
                    "warning",
                    pin.name,
                    (
                        f"{written}: {pin.version} beside a build string is an exact version for conda and a prefix "
                        "for some other clients"
                    ),
                    f"write {better}",
                ),
                at=entry.node.start,
                edits=_replacement_edit(entry.node, better),
            )


def _variable_lints(tree: Node) -> Iterator[Lint]:
    variables = tree.get("variables")
    for key, value in variables.entries if variables else ():
        if value.scalar and "$" in value.text:
            yield Lint(
                finding=_make_finding(
                    "CU304",
                    "warning",
                    key.text,
                    f"{key.text}: {value.text} is not expanded: conda does not expand variables",
                    "cuenv hook writes an activation script that sets such variables",
                ),
                at=value.start,
            )


def frozen_channel_finding(spec: EnvironmentSpec, knowledge: Knowledge, machine: Machine) -> Finding | None:
    """The finding that torch without a version comes from the channel pytorch, which ends at 2.5.1."""
    torch, row = spec.pin("pytorch"), knowledge.discontinued("pytorch")
    channels = [short_channel(item) for item in spec.channels]
    if torch is None or row is None or torch.version not in ("", "*"):
        return None
    if torch.channel != "pytorch" and (torch.channel or channels[:1] != ["pytorch"]):
        return None
    host = host_options(machine.facts) if machine.facts else ()
    message = f"pytorch is requested from the channel pytorch without a version: {row.says}"
    fix = shlex.join(["cuenv", "resolve", *host, "--stack", "conda-forge", "-o", "environment.new.yml"])
    return Finding(code="CU306", severity="warning", subject="channels", message=message, evidence=row.sources, fix=fix)


def _post_link_lints(entries: tuple[_Entry, ...], found: tuple[Finding, ...], knowledge: Knowledge) -> Iterator[Lint]:
    judged = {finding.subject for finding in found if finding.code == "CU110"}
    for entry in entries:
        if not entry.pip and entry.name not in judged:
            finding = post_link_finding(entry.name, entry.node.text, knowledge)
            if finding:
                yield Lint(finding=finding, at=entry.node.start)


def post_link_finding(name: str, text: str, knowledge: Knowledge) -> Finding | None:
    """The finding that cudatoolkit-dev unpacks a download that no lock covers."""
    row = knowledge.discontinued("cudatoolkit-dev")
    if row is None or name != row.package:
        return None
    message = f"{text}: {row.says}"
    fix = f"use {row.instead}"
    return Finding(code="CU307", severity="warning", subject=name, message=message, evidence=row.sources, fix=fix)


_ARCHITECTURE_NAME = regex(r"(?i)\b[a-z]{3,}")
"""torch takes names of architectures as well (``Ampere``, ``all``); what they stand for changes with its releases."""


def arch_list_lints(
    value: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge
) -> Iterator[Lint]:
    """``TORCH_CUDA_ARCH_LIST``: nvcc must support each entry, and every GPU needs code.

    Names of architectures and references to other variables are not judged.

    Args:
        nvcc: the release of the compiler; ``None`` when it is not known.
    """
    if _ARCHITECTURE_NAME.search(value) or "$" in value:
        return
    try:
        code = parse_arch_list(value, nvcc)
    except ValueError as error:
        yield Lint(finding=_arch_list_finding(f"TORCH_CUDA_ARCH_LIST: {error}", None), at=at)
        return
    row = knowledge.cuda(nvcc) if nvcc else None
    refused = [item for item in code.sass if row and row.targets and item.capability not in row.targets]
    if refused:
        names = ", ".join(str(item) for item in refused)
        yield Lint(
            finding=_arch_list_finding(
                f"TORCH_CUDA_ARCH_LIST names compute capability {names}, which nvcc {nvcc} cannot compile for",
                f"set TORCH_CUDA_ARCH_LIST={';'.join(str(item) for item in code.sass if item not in refused)}",
            ),
            at=at,
        )
    lacking = [gpu for gpu in sorted(set(machine.gpus)) if device_code(code, gpu, None, knowledge).outcome == "reject"]
    if lacking:
        yield Lint(
            finding=_arch_list_finding(
                f"TORCH_CUDA_ARCH_LIST {value} leaves out {named_capability(machine.facts, *lacking)}",
                f"set TORCH_CUDA_ARCH_LIST={';'.join(map(str, sorted(set(machine.gpus))))}",
            ),
            at=at,
        )


def sparse_attention_lint(at: int) -> Lint:
    """``DS_BUILD_SPARSE_ATTN=1`` beside torch 2."""
    return Lint(
        finding=Finding(
            code="CU311",
            severity="error",
            subject="DS_BUILD_SPARSE_ATTN",
            message="DS_BUILD_SPARSE_ATTN=1: sparse_attn needs torch below 2.0 and triton 1.0.0; torch 2 does "
            "not build it",
            fix="remove DS_BUILD_SPARSE_ATTN; cuenv explain fused-ops",
        ),
        at=at,
    )


def _arch_list_finding(message: str, fix: str | None) -> Finding:
    return Finding(code="CU310", severity="error", subject="TORCH_CUDA_ARCH_LIST", message=message, fix=fix)
