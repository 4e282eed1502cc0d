"""Taking what names a person or a machine out of a record: home folders, user and host names, serials, UUIDs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuenv.core.findings import Check, CheckResult, Finding
from cuenv.host.facts import HostFacts

_UUID = re.compile(r"\b(?:(?:GPU|MIG|PDI)-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_BUILDER = re.compile(r"\([^()\s@]*@[^()\s]*\)")
_HOMES = re.compile(r"(/(?:home|Users)/)[^/\s:,'\"]+")

# What of `nvidia-smi -q` may be kept: what a resolver or a reader of a bug report needs. All else is dropped, since
# every new driver adds fields, and some of them are serials, UUIDs or names of processes.
_KEYS = frozenset(
    {
        "Driver Version",
        "KMD Version",
        "CUDA Version",
        "CUDA UMD Version",
        "Attached GPUs",
        "Product Name",
        "Product Brand",
        "Product Architecture",
        "Persistence Mode",
        "Addressing Mode",
        "Virtualization Mode",
        "Host VGPU Mode",
        "GSP Firmware Version",
        "Device Id",
        "Compute Mode",
        "Current",
        "Total",
    }
)
_SECTIONS = frozenset(
    {"MIG Mode", "GPU Virtualization Mode", "PCI", "FB Memory Usage", "BAR1 Memory Usage", "ECC Mode"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The words that must not stand in a record; empty ones are ignored."""

    home: str = ""
    user: str = ""
    host: str = ""

    def scrub(self, text: str) -> str:
        """The text with the words replaced by ``~``, ``USER`` and ``HOST``."""
        text = _UUID.sub("UUID", _BUILDER.sub("(builder)", text))
        if len(self.home) > 1:
            text = re.sub(re.escape(self.home.rstrip("/")) + r"(?![\w.-])", "~", text)
        if self.user and self.user != "root":
            text = re.sub(rf"(?<![\w.-]){re.escape(self.user)}(?![\w.-])", "USER", text)
        text = _HOMES.sub(r"\1USER", text)
        if self.host and self.host != "localhost":
            text = re.sub(rf"(?<![\w-]){re.escape(self.host)}(?![\w-])", "HOST", text)
        return text


def private(environ: Mapping[str, str], host: str) -> Private:
    """The private words of a process: its home, its user, the machine's name without its domain."""
    user = environ.get("USER") or environ.get("LOGNAME") or environ.get("HOME", "").rstrip("/").rpartition("/")[2]
    return Private(home=environ.get("HOME", ""), user=user, host=host.partition(".")[0])


def scrub_facts(facts: HostFacts, words: Private) -> HostFacts:
    """The facts with every free text and path scrubbed; versions, names of GPUs and the like stay.

    How much disk is free is no fact of the machine, and is left out.
    """
    scrub = words.scrub
    around = facts.environment
    return replace(
        facts,
        toolkits=tuple(replace(item, path=scrub(item.path)) for item in facts.toolkits),
        compilers=tuple(replace(item, path=scrub(item.path)) for item in facts.compilers),
        torch=tuple(replace(item, path=scrub(item.path)) for item in facts.torch),
        environment=replace(
            around,
            conda_prefix=around.conda_prefix and scrub(around.conda_prefix),
            virtual_env=around.virtual_env and scrub(around.virtual_env),
            library_path=tuple(replace(item, path=scrub(item.path)) for item in around.library_path),
            libcuda=around.libcuda and replace(around.libcuda, path=scrub(around.libcuda.path)),
        ),
        resources=replace(facts.resources, disk_mib=None),
        evidence=tuple(
            replace(item, source=scrub(item.source), text=scrub(item.text))
            for item in facts.evidence
            if item.fact != "resources.disk_mib"
        ),
        gaps=tuple(replace(item, source=scrub(item.source), reason=scrub(item.reason)) for item in facts.gaps),
    )


def scrub_report(told: CheckResult, words: Private) -> CheckResult:
    """A report with every free text scrubbed."""
    scrub = words.scrub

    def finding(one: Finding) -> Finding:
        return replace(
            one,
            subject=scrub(one.subject),
            message=scrub(one.message),
            evidence=tuple(map(scrub, one.evidence)),
            fix=one.fix and scrub(one.fix),
        )

    def check(one: Check) -> Check:
        return replace(one, says=scrub(one.says), findings=tuple(map(finding, one.findings)))

    report = told.report
    return replace(
        told,
        report=replace(
            report,
            title=scrub(report.title),
            findings=tuple(map(finding, report.findings)),
            looked_at=tuple(map(scrub, report.looked_at)),
        ),
        host=scrub(told.host),
        file=told.file and scrub(told.file),
        checks=tuple(map(check, told.checks)),
    )


def parse_smi_log(text: str) -> str:
    """The lines of ``nvidia-smi -q`` that a record may hold."""
    kept = []
    for line in text.splitlines():
        stripped = line.strip()
        key = stripped.partition(" : ")[0].strip()
        heading = stripped in _SECTIONS or re.fullmatch(r"GPU [0-9A-F:.]{7,16}", stripped)
        if heading or (" : " in stripped and key in _KEYS):
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n" if kept else ""
