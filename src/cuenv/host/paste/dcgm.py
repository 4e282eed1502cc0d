"""Read dcgm-exporter's GPUs of many hosts: its metrics as text, or as series of Prometheus in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.reader import DocumentReader, PastedFact, PasteReader, as_text, evidence_text, numbered_lines

MARKS = ("DCGM_FI_",)
_METRIC = regex(r"^(?:[0-9:.TZ+-]+ )?(DCGM_FI_\w{2,80})\{(.*)\}")
_LABEL = regex(r'([A-Za-z_]\w{0,60})="((?:[^"\\]|\\.){0,300})"')
_HOSTS = ("Hostname", "hostname", "node", "kubernetes_node", "nodename", "exported_node", "instance")
_POD = regex(r"(?:nvidia-)?dcgm-exporter-\w+")


def looks_like(text: str) -> bool:
    """Whether the text contains metrics of dcgm-exporter."""
    return "DCGM_FI_" in text and "{" in text


def read(text: str) -> tuple[PastedFact, ...]:
    """Driver and GPUs of each host."""
    found: dict[tuple[str, str], None] = {}
    told: list[PastedFact] = []
    for number, line in numbered_lines(text):
        metric = _METRIC.match(line.strip())
        if metric:
            told += _facts_of_series(dict(_LABEL.findall(metric[2])), number, found)
    return tuple(told)


def looks_like_document(data: object) -> bool:
    """Whether the document is an answer of Prometheus with series of dcgm-exporter."""
    return any(_model_name(labels) or labels.get("__name__", "").startswith("DCGM_FI_") for labels in _series(data))


def read_document(data: Any, line: int) -> tuple[PastedFact, ...]:
    """Driver and GPUs of each host."""
    found: dict[tuple[str, str], None] = {}
    return tuple(item for labels in _series(data) for item in _facts_of_series(labels, line, found))


def _series(data: object) -> list[Mapping[str, str]]:
    inner = data.get("data") if isinstance(data, dict) else None
    rows = inner.get("result") if isinstance(inner, dict) else inner
    found: list[Mapping[str, str]] = []
    for row in rows if isinstance(rows, list) else ():
        labels = row.get("metric", row) if isinstance(row, dict) else None
        if isinstance(labels, dict):
            found.append({as_text(key): as_text(value) for key, value in labels.items()})
    return found


def _model_name(labels: Mapping[str, str]) -> str:
    return labels.get("modelName") or labels.get("model_name") or ""


def _facts_of_series(labels: Mapping[str, str], line: int, found: dict[tuple[str, str], None]) -> Iterator[PastedFact]:
    """The facts of one series that no earlier one contained; many series and pods describe the same GPU."""
    host = next((value for key in _HOSTS if (value := labels.get(key)) and not _POD.fullmatch(value)), "")
    says = evidence_text(
        ", ".join(f'{key}="{value}"' for key, value in labels.items() if key not in ("__name__", "UUID"))
    )
    driver = labels.get("DCGM_FI_DRIVER_VERSION")
    if driver and (host, "driver " + driver) not in found:
        found[host, "driver " + driver] = None
        yield PastedFact("driver.version", driver, line, says, "", host)
    name = _model_name(labels)
    index = labels.get("gpu") or labels.get("UUID", "")
    if index and (host, index) not in found:
        found[host, index] = None
        yield PastedFact("gpu.name" if name else "gpu", name, line, says, index, host)
        if not name:
            yield PastedFact("gap", f"line {line} counts a GPU without its model", line, says, "gpus", host)


READER = PasteReader("dcgm-exporter", MARKS, 0, looks_like, read)
DOCUMENT = DocumentReader("Prometheus", looks_like_document, read_document)
