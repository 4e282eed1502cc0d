"""``cuenv inspect`` as it is typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from packaging.version import Version

from commands import hold_to_schema
from cuenv.cli.inspect import command
from cuenv.core.errors import UsageError
from cuenv.host.describe import host_lines
from cuenv.host.facts import Driver, FoundToolkit, HostFacts


def typed(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=text, env={"CONDA_OVERRIDE_CUDA": None})


def test_it_answers_on_any_machine() -> None:
    result = typed()
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("this machine (linux-")
    titles = [line[2:13].strip() for line in result.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    titles = [title for title in titles if title != "features"]  # only where there is a GPU
    assert titles[:8] == ["driver", "GPUs", "C library", "kernel", "toolkits", "compilers", "torch", "environment"]
    assert "resources" in titles


def test_json_keeps_to_its_schema_and_is_read_back() -> None:
    result = typed("--json")
    assert result.exit_code == 0, result.output
    hold_to_schema(["--json"], result.stdout)
    again = typed("--json", "--host", "-", text=result.stdout)
    facts, back = json.loads(result.stdout), json.loads(again.stdout)
    assert back.pop("label") == "standard input"
    facts.pop("label")
    assert back == facts


def test_a_recorded_host_is_shown_and_its_sources_with_v() -> None:
    result = typed("--host", "rtx4090-535", "-v")
    line = (
        "driver      535.129.03 supports CUDA 12.2: the highest CUDA version that the "
        "driver supports, not an installed toolkit"
    )
    assert line in result.stdout
    assert "driver.cuda: 12020 (nvml:nvmlSystemGetCudaDriverVersion)" in result.stdout
    pooled = typed("--host", "pool-v100", "--host", "pool-rtx5090", "--json")
    assert [member["label"] for member in json.loads(pooled.stdout)["members"]] == ["pool-rtx5090", "pool-v100"]


def test_overrides_are_shown_and_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "12.4")
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA_ARCH", "8.9")
    result = CliRunner().invoke(command, ["--record", str(tmp_path / "node")])
    assert result.exit_code == 0, result.output
    assert "overridden  CONDA_OVERRIDE_CUDA: a driver that supports CUDA 12.4" in result.stdout
    assert f"recorded in {tmp_path / 'node'}: host.json" in result.stderr
    kept = (tmp_path / "node/host.json").read_text()
    assert "override:" not in kept
    quiet = CliRunner().invoke(command, ["--record", str(tmp_path / "node"), "-q"])
    assert quiet.stderr == ""


def test_record_and_host_exclude_each_other(tmp_path: Path) -> None:
    result = typed("--record", str(tmp_path / "x"), "--host", "no-gpu")
    assert isinstance(result.exception, UsageError)
    assert not (tmp_path / "x").exists()


def test_it_says_what_each_gpu_can_do_and_where_that_is_from() -> None:
    result = typed("--host", "v100-rtx5090-575")
    assert "  features    compute capability 7.0: tensor cores for fp16, not for bf16" in result.stdout
    assert "12.0: tensor cores for tf32, bf16, fp16, fp8, fp6, fp4, int8; bf16 arithmetic" in result.stdout
    features = json.loads(typed("--host", "v100-rtx5090-575", "--json").stdout)["features"]
    assert list(features) == ["7.0", "12.0"]
    assert features["12.0"]["tensor"]["fp8"] is True
    assert features["7.0"]["sources"]
    assert "features" not in json.loads(typed("--host", "no-gpu", "--json").stdout)
    assert "(low confidence)" in typed("--gpu", "GTX 1650", "--driver", "535").stdout


def test_a_record_keeps_memory_and_not_the_disk_of_the_moment(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["--record", str(tmp_path / "node")])
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "node/host.json").read_text())
    assert kept["resources"]["memory_mib"] > 0
    assert "disk_mib" not in kept["resources"]
    assert not any("disk" in item["fact"] for item in kept["evidence"])
    assert "free disk here" in result.stdout


def test_a_toolkit_that_micromamba_takes_for_the_driver_is_named() -> None:
    """micromamba reads /usr/local/cuda/version.json, conda asks the driver."""
    here = HostFacts(
        label="x",
        platform="linux-64",
        driver=Driver(version="535.129.03", cuda=Version("12.2")),
        toolkits=(FoundToolkit(path="/usr/local/cuda-13.0", release="13.0.1", on_path=False, via="directory"),),
    )
    said = "\n".join(host_lines(here))
    assert "micromamba reads __cuda=13.0" in said
    assert "CONDA_OVERRIDE_CUDA=12.2 sets both" in said
    for path, release in (("/usr/local/cuda-12.2", "12.2.1"), ("/opt/cuda", "13.0"), ("/usr/local/cuda", None)):
        other = FoundToolkit(path=path, release=release, on_path=False, via="directory")
        assert "micromamba" not in "\n".join(host_lines(replace(here, toolkits=(other,))))
