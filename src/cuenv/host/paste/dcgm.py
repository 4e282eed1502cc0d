"""What dcgm-exporter tells of the GPUs of many hosts: its metrics as text, or series of Prometheus in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.told import DocumentReader, PasteReader, Told, numbered, shown, textual

MARKS = ("DCGM_FI_",)
_METRIC = regex(r"^(?:[0-9:.TZ+-]+ )?(DCGM_FI_\w{2,80})\{(.*)\}")
_LABEL = regex(r'([A-Za-z_]\w{0,60})="((?:[^"\\]|\\.){0,300})"')
_HOSTS = ("Hostname", "hostname", "node", "kubernetes_node", "nodename", "exported_node", "instance")
_POD = regex(r"(?:nvidia-)?dcgm-exporter-\w+")


def looks_like(text: str) -> bool:
    """Whether metrics of dcgm-exporter stand in it."""
    return "DCGM_FI_" in text and "{" in text


def read(text: str) -> tuple[Told, ...]:
    """Driver and GPUs of each host."""
    found: dict[tuple[str, str], None] = {}
    told: list[Told] = []
    for number, line in numbered(text):
        metric = _METRIC.match(line.strip())
        if metric:
            told += _one(dict(_LABEL.findall(metric[2])), number, found)
    return tuple(told)


def looks_like_document(data: object) -> bool:
    """Whether Prometheus answered with series of dcgm-exporter."""
    return any(_named(labels) or labels.get("__name__", "").startswith("DCGM_FI_") for labels in _series(data))


def read_document(data: Any, line: int) -> tuple[Told, ...]:
    """Driver and GPUs of each host."""
    found: dict[tuple[str, str], None] = {}
    return tuple(item for labels in _series(data) for item in _one(labels, line, found))


def _series(data: object) -> list[Mapping[str, str]]:
    inner = data.get("data") if isinstance(data, dict) else None
    rows = inner.get("result") if isinstance(inner, dict) else inner
    found: list[Mapping[str, str]] = []
    for row in rows if isinstance(rows, list) else ():
        labels = row.get("metric", row) if isinstance(row, dict) else None
        if isinstance(labels, dict):
            found.append({textual(key): textual(value) for key, value in labels.items()})
    return found


def _named(labels: Mapping[str, str]) -> str:
    return labels.get("modelName") or labels.get("model_name") or ""


def _one(labels: Mapping[str, str], line: int, found: dict[tuple[str, str], None]) -> Iterator[Told]:
    """What one series says of a GPU; the same GPU is seen by many series and pods."""
    host = next((value for key in _HOSTS if (value := labels.get(key)) and not _POD.fullmatch(value)), "")
    says = shown(", ".join(f'{key}="{value}"' for key, value in labels.items() if key not in ("__name__", "UUID")))
    driver = labels.get("DCGM_FI_DRIVER_VERSION")
    if driver and (host, "driver " + driver) not in found:
        found[host, "driver " + driver] = None
        yield Told("driver.version", driver, line, says, "", host)
    name = _named(labels)
    index = labels.get("gpu") or labels.get("UUID", "")
    if index and (host, index) not in found:
        found[host, index] = None
        yield Told("gpu.name" if name else "gpu", name, line, says, index, host)
        if not name:
            yield Told("gap", f"line {line} counts a GPU without its model", line, says, "gpus", host)


READER = PasteReader("dcgm-exporter", MARKS, 0, looks_like, read)
DOCUMENT = DocumentReader("Prometheus", looks_like_document, read_document)
