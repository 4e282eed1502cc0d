"""A host from pastes, alone and joined: `--host`, `cuenv inspect --from`, the API; and texts that tell of no host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

import cuenv
from cases import collect
from cuenv.cli.main import cli
from cuenv.core.errors import InputError
from cuenv.host.facts import HostFacts
from cuenv.host.paste.all_hosts import read_pasted_hosts
from given import shipped_base
from thorough import examples

TABLE = """\
Tue Jul 14 09:00:26 2026
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                   On |
| N/A   42C    P0             98W /  700W |      59MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
"""
LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)
  MIG 3g.40gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000000)
"""
LOG = """\
==============NVSMI LOG==============
Driver Version                                         : 610.57.04 [Deprecated; use KMD Version instead]
KMD Version                                            : 610.57.04
CUDA UMD Version                                       : 13.3
Attached GPUs                                          : 2
GPU 00000000:01:00.0
    Product Name                                       : NVIDIA L40S
    MIG Mode
        Current                                        : N/A
    FB Memory Usage
        Total                                          : 46068 MiB
    BAR1 Memory Usage
        Total                                          : 65536 MiB
GPU 00000000:02:00.0
    Product Name                                       : NVIDIA L40S
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <driver_version>535.54.03</driver_version>
 <cuda_version>12.2</cuda_version>
 <gpu id="00000000:01:00.0">
  <product_name>Graphics Device</product_name>
  <pci><pci_device_id>268410DE</pci_device_id></pci>
  <fb_memory_usage><total>24564 MiB</total></fb_memory_usage>
  <processes><process_info><process_name>a, b</process_name></process_info></processes>
 </gpu>
</nvidia_smi_log>
"""
ENVIRONMENT = """\
PyTorch version: 2.3.0+cu118
OS: Ubuntu 20.04.6 LTS (x86_64)
Libc version: glibc-2.31
Python platform: Linux-5.15.0-x86_64-with-glibc2.31
GPU models and configuration:
GPU 0: Tesla P40
GPU 1: Tesla P40

Nvidia driver version: 470.223.02
"""
COMPAT = "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 12.2     |\n"
CUT = """\
| NVIDIA-SMI 535.161.07             Driver Version: 535.161.07   CUDA Version: 12.2     |
|   0  NVIDIA GeForce GTX ...         Off | 00000000:01:00.0  On |                  N/A |
|  0%   28C    P8               9W / 150W |      4MiB /  4044MiB |      0%      Default |
"""


def host(text: str) -> HostFacts:
    (found,) = read_pasted_hosts(text, shipped_base(), "the paste").hosts
    return found


def said(facts: HostFacts) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    driver = facts.driver
    level = str(driver.cuda) if driver and driver.cuda else None
    return driver.version if driver else None, level, [(gpu.name, str(gpu.capability)) for gpu in facts.gpus]


def typed(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["--no-config", *arguments] if arguments[:1] == ("x",) else arguments, input=text)


def test_the_table_and_the_list_are_joined() -> None:
    facts = host(TABLE + LIST + "ldd (Debian GLIBC 2.36-9+deb12u7) 2.36\nx86_64\n")
    assert said(facts) == ("610.57.04", "13.3", [("NVIDIA H100 80GB HBM3", "9.0")])
    mig = facts.gpus[0].mig
    assert mig is not None
    assert (mig.mode.on, [item.profile for item in mig.instances]) == (True, ["3g.40gb"])
    assert (str(facts.libc and facts.libc.version), facts.gaps) == ("2.36", ())


def test_the_log_of_nvidia_smi_counts_its_gpus() -> None:
    facts = host(LOG)
    assert said(facts) == ("610.57.04", "13.3", [("NVIDIA L40S", "8.9")] * 2)
    assert [gpu.memory_mib for gpu in facts.gpus] == [46068, None]


def test_xml_names_a_gpu_by_its_device_id() -> None:
    facts = host(XML)
    assert said(facts) == ("535.54.03", "12.2", [("GeForce RTX 4090", "8.9")])
    assert facts.gpus[0].memory_mib == 24564
    assert said(host(XML[: XML.index("<processes>")])) == said(facts)


@collect(
    "odd",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
        "<gpu>" * 100_000,
        "&a;",
    ],
)
def test_hostile_xml_tells_nothing_more(odd: str) -> None:
    text = XML.replace("<gpu id", f"{odd}<gpu id").replace("Graphics Device", "&a;")
    facts = host(text)
    assert facts.driver is not None
    assert not any(gpu.name.startswith("aaa") for gpu in facts.gpus)


def test_a_cut_name_is_a_gap_until_another_paste_has_it_whole() -> None:
    assert said(host(CUT))[2] == [("NVIDIA GeForce GTX ...", "None")]
    assert any("may be several GPUs" in gap.reason for gap in host(CUT).gaps)
    whole = "GPU 0: NVIDIA GeForce GTX 960M (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert said(host(CUT + whole))[2] == [("NVIDIA GeForce GTX 960M", "5.0")]


def test_the_level_of_a_libcuda_of_an_image_is_not_the_drivers() -> None:
    facts = host(COMPAT)
    assert said(facts)[:2] == ("470.82.01", "11.4")
    assert any("forward-compatibility" in gap.reason for gap in facts.gaps)


def test_what_is_not_told_is_a_gap_with_its_reason() -> None:
    gaps = {gap.fact: gap.reason for gap in host(LIST).gaps}
    assert gaps == {
        "driver": "no line names a driver",
        "libc": "no line names a C library",
        "platform": "no line names the processor: linux-64 is assumed",
    }
    orin = "| NVIDIA-SMI 540.4.0   Driver Version: 540.4.0  CUDA Version: 12.6 |\n|   0  Orin (nvgpu)   N/A  | N/A |\n"
    assert (host(orin).platform, said(host(orin))[1]) == ("linux-aarch64", "12.6")


@collect("change", [lambda text: text, lambda text: json.dumps({"body": text}), lambda text: text.replace("\n", " ")])
def test_collect_env_in_three_shapes(change: object) -> None:
    assert callable(change)
    assert said(host(change(ENVIRONMENT))) == ("470.223.02", "11.4", [("Tesla P40", "6.1")] * 2)


def test_conda_as_json_and_as_strings() -> None:
    for rows in ([["__cuda", "12.4", "0"], ["__glibc", "2.28", "0"]], ["__cuda=12.4=0", "__glibc=2.28=0"]):
        for key in ("virtual_pkgs", "virtual packages", "virtual_packages"):
            facts = host(json.dumps({key: rows, "platform": "linux-64"}))
            assert said(facts) == (None, "12.4", [])
            assert str(facts.libc and facts.libc.version) == "2.28"


@collect(
    ("text", "says"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "cannot reach the driver",
        ),
        (
            "DeepSpeed C++/CUDA extension op report\n",
            "the part of ds_report that names neither driver nor GPU",
        ),
        ("PyTorch version: 2.1\nROCM used to build PyTorch: 6.0\n+rocm6.0", "AMD GPUs"),
        ("PyTorch version: 2.1\nOS: macOS 14.1 (arm64)\n", "from a Mac|neither driver, GPU nor Linux"),
        ("gpu1      gpu:a100:4    a100\n", "sinfo table"),
        ("dependencies:\n  - pytorch\n", "conda environment file"),
        ("#SBATCH --gres=gpu:1\n", "Slurm batch script"),
        ("<!DOCTYPE html><html>", "web page"),
        ('{"a": 1, "b": 2}', "the JSON of something else: keys a, b"),
        ("hello", "the text describes no host"),
        ("", "it is empty"),
        ("{", "not JSON"),
    ],
)
def test_what_tells_of_no_host_is_named(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_pasted_hosts(text, shipped_base(), "the paste")


WHOLE = (TABLE, LIST, LOG, XML, ENVIRONMENT, COMPAT, CUT)


@given(st.sampled_from(WHOLE), st.integers(0, 2000), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]))
@example(TABLE, TABLE.index("13.3") + 3, "\n", "")
@examples(150)
def test_a_paste_that_is_cut_anywhere_tells_no_other_gpu(text: str, at: int, end: str, mark: str) -> None:
    known = {gpu.capability for gpu in host(text).gpus}
    try:
        found = read_pasted_hosts(mark + text[:at].replace("\n", end), shipped_base(), "the paste").hosts
    except InputError:
        return
    assert {gpu.capability for facts in found for gpu in facts.gpus} <= {*known, None}


@given(st.text(max_size=200), st.sampled_from(WHOLE), st.integers(0, 2000))
@examples(150)
def test_anything_in_the_middle_of_a_paste_is_read_or_refused(odd: str, text: str, at: int) -> None:
    try:
        read_pasted_hosts(text[:at] + odd + text[at:], shipped_base(), "the paste")
    except InputError as error:
        assert error.message.replace("\n", " ").isprintable()  # noqa: PT017 - where there is one


def test_the_command_line_and_the_api_take_the_same(tmp_path: Path) -> None:
    paste = tmp_path / "smi.txt"
    paste.write_bytes(TABLE.encode("utf-16"))
    shown = typed("inspect", "--from", str(paste), "--json", "--compact")
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("\n") == 1
    assert json.loads(shown.output)["driver"]["version"] == "610.57.04"
    piped = typed("resolve", "--host", "-", "--glibc", "2.35", "--json", text=TABLE)
    assert piped.exit_code == 0, piped.output
    for facts in (cuenv.read_host(paste), cuenv.make_host(paste=TABLE), cuenv.read_hosts(paste)[0]):
        assert said(facts) == ("610.57.04", "13.3", [("NVIDIA H100 80GB HBM3", "9.0")])
    assert str(cuenv.make_host(paste=TABLE, glibc="2.31").libc) != str(cuenv.make_host(paste=TABLE).libc)


def test_a_log_of_lines_that_begin_as_json_is_read_in_time() -> None:
    line = "[2024-05-15 15:13:52,120] [INFO] [engine.py:123:step] loss=0.123, lr=1e-5, step 1000\n"
    assert said(host(line * 5_000 + COMPAT + line * 5_000))[:2] == ("470.82.01", "11.4")
    with pytest.raises(InputError, match="the text describes no host"):
        read_pasted_hosts(line * 5_000, shipped_base(), "the log")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_a_file_that_is_cut_within_a_character_is_read(tmp_path: Path, codec: str) -> None:
    paste = tmp_path / "smi.txt"
    paste.write_bytes((TABLE + "\u00e9").encode(codec)[:-1])
    assert said(cuenv.read_host(paste)) == ("610.57.04", "13.3", [("NVIDIA H100 80GB HBM3", "9.0")])


@collect("row", ["550.54.15, NVIDIA A10G", "NVIDIA A10G, 550.54.15, 23028, 8.6", "0, 550.54.15, NVIDIA A10G"])
def test_rows_of_a_query_without_head_in_any_order(row: str) -> None:
    assert said(host(f"{row}\n{row}\n")) == ("550.54.15", "12.4", [("NVIDIA A10G", "8.6")] * 2)


def test_ds_report_tells_of_a_host_whose_driver_and_gpus_are_gaps() -> None:
    text = "DeepSpeed general environment info:\ntorch cuda version ............... 11.1\n"
    (facts,) = read_pasted_hosts(text + "nvcc version ..................... 10.1\n", shipped_base(), "the paste").hosts
    assert facts.driver is None
    assert not facts.gpus
    assert [item.release for item in facts.toolkits] == ["10.1"]
    assert {"driver", "gpus", "libc", "platform"} <= {gap.fact for gap in facts.gaps}


def test_gpus_that_no_line_names_are_not_said_to_be_missing() -> None:
    (facts,) = read_pasted_hosts(
        "__glibc=2.35=0\n__cuda=12.2=0\nvirtual packages : __cuda=12.2=0\n", shipped_base(), "it"
    ).hosts
    assert facts.untold
    answer = cuenv.resolve(facts)
    assert "the GPUs of it are not known" in {item.because for item in answer.decision.rejections}
