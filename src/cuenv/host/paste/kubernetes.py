"""Read the nodes of Kubernetes by the labels of GPU Feature Discovery: ``kubectl get nodes -o json``, or text.

The labels name one GPU model of a node, even if it has several. The C library is that of each container's image, which
no label names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.reader import (
    DRIVER_VERSION,
    DocumentReader,
    PastedFact,
    PasteReader,
    as_text,
    evidence_text,
    numbered_lines,
)

MARKS = ("nvidia.com/",)
_LABEL = regex(
    r"(?:^|[\s,{\"'])((?:nvidia\.com/[\w./-]{2,60}|kubernetes\.io/(?:arch|hostname|os)))[\"']?[=:] ?[\"']?([\w.-]*)"
)
_NAME = regex(r"^Name: +(\S{1,253})\s*$")
_ROW = regex(r"^([a-z0-9][a-z0-9.-]{0,252}) +(?:Not)?Ready\b")
_SUFFIX = regex(r"(?:-SHARED|-MIG-[1-9]g\.[0-9]+gb(?:\.me)?)+$")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_VERSION = regex(DRIVER_VERSION)
_COUNT = regex(r"[0-9]{1,4}")
_GPU = "nvidia.com/gpu"


def looks_like(text: str) -> bool:
    """Whether the text contains labels of GPU Feature Discovery."""
    return "nvidia.com/gpu." in text or "nvidia.com/cuda." in text


def read(text: str) -> tuple[PastedFact, ...]:
    """The nodes of ``kubectl describe node``, of ``--show-labels``, or labels alone."""
    nodes: dict[str, tuple[int, dict[str, str]]] = {}
    host = ""
    for number, line in numbered_lines(text):
        named = _NAME.match(line) or _ROW.match(line)
        host = named[1] if named else host
        for key, value in _LABEL.findall(line):
            nodes.setdefault(host, (number, {}))[1].setdefault(key, value)
    return tuple(item for name, (line, labels) in nodes.items() for item in _node(name, line, labels, {}, {}))


def looks_like_document(data: object) -> bool:
    """Whether ``kubectl get nodes -o json`` printed it."""
    return bool(_nodes(data))


def read_document(data: Any, line: int) -> tuple[PastedFact, ...]:
    """The nodes of a document."""
    found: list[PastedFact] = []
    for node in _nodes(data):
        meta, status = _as_mapping(node.get("metadata")), _as_mapping(node.get("status"))
        labels = {key: as_text(value) for key, value in _as_mapping(meta.get("labels")).items()}
        name = as_text(meta.get("name")) or labels.get("kubernetes.io/hostname", "")
        found += _node(name, line, labels, _as_mapping(status.get("nodeInfo")), _as_mapping(status.get("capacity")))
    return tuple(found)


def _nodes(data: object) -> list[dict[str, Any]]:
    if not isinstance(data, dict):
        return []
    items = data.get("items") if data.get("kind") in ("List", "NodeList") else [data]
    rows = items if isinstance(items, list) else []
    return [
        item for item in rows if isinstance(item, dict) and item.get("kind", "Node") == "Node" and "metadata" in item
    ]


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _node(
    host: str, line: int, labels: Mapping[str, str], info: Mapping[str, Any], capacity: Mapping[str, Any]
) -> Iterator[PastedFact]:
    def told(fact: str, value: str, label: str, about: str = "") -> PastedFact:
        return PastedFact(fact, value, line, evidence_text(f"{host + ': ' if host else ''}{label}"), about, host)

    for fact, value, label in _host_facts(labels, info):
        yield told(fact, value, label)
    yield from _gpus(labels, capacity, told, line)
    image = as_text(info.get("osImage"))
    system = f" (the node's own system is {image})" if image else ""
    yield told("gap", f"a container has the C library of its image{system}", image or "labels", "libc")


def _host_facts(labels: Mapping[str, str], info: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    machine = _MACHINES.get(as_text(info.get("architecture")) or labels.get("kubernetes.io/arch", ""))
    if machine:
        yield "machine", machine, f"architecture {machine}"
    if labels.get("kubernetes.io/os", "linux") != "linux":
        yield "system", labels["kubernetes.io/os"].capitalize(), f"kubernetes.io/os={labels['kubernetes.io/os']}"
    kernel = as_text(info.get("kernelVersion"))
    if kernel:
        yield "kernel", kernel, f"kernelVersion {kernel}"
    for key, parts in (("driver-version", ("major", "minor", "revision")), ("driver", ("major", "minor", "rev"))):
        full = labels.get(f"nvidia.com/cuda.{key}.full") or ".".join(
            filter(None, (labels.get(f"nvidia.com/cuda.{key}.{part}", "") for part in parts))
        )
        if _VERSION.fullmatch(full):
            yield "driver.version", full, f"nvidia.com/cuda.{key}={full}"
            break
    for key in ("runtime-version", "runtime"):
        major, minor = (labels.get(f"nvidia.com/cuda.{key}.{part}", "") for part in ("major", "minor"))
        level = (
            f"{major}.{minor}"
            if major and minor
            else ".".join(labels.get(f"nvidia.com/cuda.{key}.full", "").split(".")[:2])
        )
        if level:
            yield "driver.cuda", level, f"nvidia.com/cuda.{key}={level}"
            break


def _gpus(labels: Mapping[str, str], capacity: Mapping[str, Any], told: Any, line: int) -> Iterator[PastedFact]:
    name = labels.get(f"{_GPU}.product", "")
    slices = sum(_count(as_text(value)) for key, value in capacity.items() if key.startswith("nvidia.com/mig-"))
    offered = _count(as_text(capacity.get(_GPU)))
    if not name:
        if offered or slices or labels.get(f"{_GPU}.present") == "true":
            yield told(
                "gap", f"line {line}: the node offers GPUs, but no label names them", f"capacity {offered}", "gpus"
            )
            yield told("gpu", "", f"capacity {_GPU}: {offered}", "0")
        else:
            yield told("gpus.none", "no GPU", f"capacity {_GPU}: {offered}")
        return
    count = max(_count(labels.get(f"{_GPU}.count", "")), 1)
    own = _SUFFIX.sub("", name)
    major, minor = (labels.get(f"{_GPU}.compute.{part}", "") for part in ("major", "minor"))
    for index in range(count):
        yield told("gpu.name", own, f"{_GPU}.product={name}, {_GPU}.count={count}", str(index))
        if major and minor:
            yield told("gpu.capability", f"{major}.{minor}", f"{_GPU}.compute={major}.{minor}", str(index))
        if labels.get(f"{_GPU}.memory") and "-MIG-" not in name:
            yield told("gpu.memory", labels[f"{_GPU}.memory"], f"{_GPU}.memory={labels[f'{_GPU}.memory']}", str(index))
    there = offered // max(_count(labels.get(f"{_GPU}.replicas", "")), 1)
    if there > count:
        reason = (
            f"a node's labels name only one of its models: they count {count} x {name}, but the node has {there} GPUs"
        )
        yield told("gap", reason, f"{_GPU}.count={count}, capacity {_GPU}: {offered}", "gpus")
        yield told("gpu", "", f"capacity {_GPU}: {offered}", str(count))


def _count(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


READER = PasteReader("labels of GPU Feature Discovery", MARKS, 40, looks_like, read)
DOCUMENT = DocumentReader("kubectl's JSON", looks_like_document, read_document)
