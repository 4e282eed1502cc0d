"""Lint of DeepSpeed's configuration: what it refuses, what it ignores, and what blogs say that is not so."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import InputError
from cuenv.core.versions import Capability
from cuenv.knowledge.io.load import load, load_guidance
from cuenv.lint import Machine, Node, line_and_column
from cuenv.lint.ds_config import ds_config_lints
from cuenv.lint.files import Linted, lint
from cuenv.lint.positions import parse_json
from thorough import examples

MICRO = '"train_micro_batch_size_per_gpu": 4'


def adam(kind: str, stage: int, more: str = "") -> str:
    optimizer = f'"optimizer": {{"type": "{kind}", "params": {{"lr": 1e-3}}}}'
    return f'{{{MICRO}, {more}{optimizer}, "zero_optimization": {{"stage": {stage}}}}}'


def linted(tmp_path: Path, text: str, *gpus: str, memory: int | None = None) -> Linted:
    path = tmp_path / "ds_config.json"
    path.write_text(text, encoding="utf-8")
    machine = Machine(gpus=tuple(map(Capability.parse, gpus)), memory_mib=memory)
    return lint(path, None, machine, load(None))


def codes(tmp_path: Path, text: str, *gpus: str, memory: int | None = None) -> list[str]:
    found = linted(tmp_path, text, *gpus, memory=memory).lints
    return sorted(f"{item.finding.code} {item.finding.severity}" for item in found)


def zero(stage: int | str, inside: str = "") -> str:
    gather = ', "stage3_gather_16bit_weights_on_model_save": true' if stage == 3 else ""
    return f'{{{MICRO}, "zero_optimization": {{"stage": {stage}{gather}{", " if inside else ""}{inside}}}}}'


@collect(
    ("text", "expected"),
    [
        (f"{{{MICRO}}}", []),
        (zero(3, '"offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {}'), []),
        (zero(2, '"offload_optimizer": {"device": "cpu"}'), []),
        (zero('"auto"', '"offload_param": {"device": "cpu"}'), []),
        (zero(2, '"offload_param": {"device": "cpu"}'), ["CU331 warning"]),
        (zero(0, '"offload_optimizer": {"device": "cpu"}'), ["CU331 warning"]),
        (zero(4), ["CU331 error"]),
        (zero(2, '"offload_optimizer": {"device": "gpu"}'), ["CU331 error"]),
        (zero(2, '"offload_optimizer": {"device": "cpu", "ratio": 0.5}'), ["CU331 error"]),
        (zero(3, '"offload_optimizer": {"device": "cpu", "ratio": 0.5}'), []),
        (zero(3, '"offload_param": {"device": "nvme"}'), ["CU336 error", "CU336 info"]),
        (zero(3, '"offload_param": {"device": "nvme", "nvme_path": "scratch"}'), ["CU336 info", "CU336 warning"]),
        (zero(3, '"offload_param": {"device": "nvme", "nvme_path": "/scratch"}'), ["CU336 info"]),
        (zero(2, '"offload_optimizer": {"device": "nvme", "nvme_path": "/x"}'), ["CU331 error", "CU336 info"]),
        (f'{{{MICRO}, "aio": {{"queue_depth": 8}}}}', ["CU336 warning"]),
        (f'{{{MICRO}, "zero_optimization": {{"stage": 3}}}}', ["CU334 info"]),
        (f'{{{MICRO}, "fp16": {{"enabled": true}}, "bf16": {{"enabled": true}}}}', ["CU333 error"]),
        (f'{{{MICRO}, "fp16": {{"enabled": "auto"}}, "bf16": {{"enabled": "auto"}}}}', []),
        (f'{{{MICRO}, "zero_optimisation": {{"stage": 9}}}}', ["CU330 warning"]),
        (f'{{{MICRO}, "fp16": {{"enabledd": true}}}}', ["CU330 error"]),
        (zero(1, '"offload_optimizer": {"device": "cpu", "pin": true}'), ["CU330 error"]),
        (f'{{{MICRO}, "_comment": "ours", "optimizer": {{"type": "AdamW", "params": {{"lr": "auto"}}}}}}', []),
        ("{}", ["CU332 warning"]),
        (adam("ZeroOneAdam", 3), ["CU331 error", "CU334 info"]),
        (adam("OneBitAdam", 1), ["CU331 error"]),
        (adam("OneBitAdam", 0), []),
        (adam("Lamb", 2), ["CU331 error"]),
        (adam("Lamb", 2, '"zero_allow_untested_optimizer": true, '), []),
        (adam("AdamW", 2), []),
        (adam("auto", 2), []),
        ('{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3}', ["CU332 error"]),
        ('{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 3}', []),
        ('{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}', []),
        ('{"train_batch_size": 8, "gradient_accumulation_steps": null}', []),  # as if it were not there
        ('{"train_batch_size": null}', ["CU332 warning"]),
        ('{"train_batch_size": 0}', ["CU332 error"]),
        ('{"train_batch_size": "8"}', ["CU332 error"]),
        ('{"train_batch_size": -8}', ["CU332 error"]),
        (f"{{{MICRO}, {MICRO}}}", ["CU338 error"]),
        (f"{{ // ours\n{MICRO}, # more\n}}", ["CU338 warning", "CU338 warning"]),
    ],
)  # fmt: skip
def test_a_configuration_is_judged_by_what_deepspeed_does(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, text) == expected


def test_the_two_offload_devices_are_independent(tmp_path: Path) -> None:
    """That they must agree is what blogs say about a fault of two DeepSpeed releases."""
    for one, other in (("cpu", "none"), ("none", "cpu"), ("cpu", "nvme")):
        blocks = (
            f'"offload_optimizer": {{"device": "{one}"}}, "offload_param": {{"device": "{other}", "nvme_path": "/x"}}'
        )
        assert "error" not in " ".join(codes(tmp_path, zero(3, blocks)))


def test_gpus_decide_on_bfloat16_and_on_the_batch(tmp_path: Path) -> None:
    bf16 = f'{{{MICRO}, "bf16": {{"enabled": true}}}}'
    assert codes(tmp_path, bf16, "8.0", "8.6") == []
    assert codes(tmp_path, bf16, "7.0", "8.6") == ["CU333 warning"]
    batch = '{"train_batch_size": 24, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}'
    assert codes(tmp_path, batch) == []
    assert codes(tmp_path, batch, "8.0", "8.0", "8.0") == []
    (wrong,) = linted(tmp_path, batch, "8.0", "8.0").lints
    assert wrong.finding.message.endswith("4 a GPU x 2 steps x 2 GPUs = 16: it is for 3 GPUs")
    assert wrong.finding.severity == "warning"
    assert wrong.finding.fix == 'set "train_batch_size" to 16'
    left = '{"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4}'
    assert codes(tmp_path, left, "8.0", "8.0") == ["CU332 error"]


def test_pinned_memory_is_held_against_the_host(tmp_path: Path) -> None:
    block = '"offload_param": {"device": "nvme", "nvme_path": "/x", "max_in_cpu": 1e9, "buffer_count": 5}'
    assert "CU335 warning" not in codes(tmp_path, zero(3, block))
    assert "CU335 warning" not in codes(tmp_path, zero(3, block), memory=8 * 1024)
    assert "CU335 warning" in codes(tmp_path, zero(3, block), memory=1024)
    unpinned = block.replace("}", ', "pin_memory": false}')
    assert "CU335 warning" not in codes(tmp_path, zero(3, unpinned), memory=1024)


def test_what_is_fixed_is_strict_json_with_the_old_layout(tmp_path: Path) -> None:
    text = (
        '{\n  "zero_optimization": {\n    "stage": 3,\n'
        '    "stage3_gather_fp16_weights_on_model_save": true, \n  },\n'
        '  "bfloat16": {"enabled": true},\n  "train_micro_batch_size_per_gpu": 1,\n}\n'
    )
    after = linted(tmp_path, text).fixed_text
    assert json.loads(after)["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] is True
    assert json.loads(after)["bf16"] == {"enabled": True}
    assert after.count("\n") == text.count("\n")
    assert linted(tmp_path, after).lints == ()


def test_the_nearest_key_is_named_at_its_place(tmp_path: Path) -> None:
    text = zero(3).replace('"stage":', '"stage3_max_live_paramters": 1, "stage":')
    (found,) = linted(tmp_path, text).lints
    assert found.finding.fix == "write stage3_max_live_parameters"
    assert line_and_column(text, found.at) == (1, text.index('"stage3_max_live_paramters"') + 1)


@collect(
    ("text", "fix"),
    [
        (f'{{{MICRO}, "offload_optimizer": {{"device": "cpu"}}}}', "move it into zero_optimization"),
        (f'{{{MICRO}, "checkpointing": {{"enabled": true}}}}', "write checkpoint, if that is meant"),
        (f'{{{MICRO}, "checkpoint": {{}}, "checkpointing": {{}}}}', None),
        (
            '{"output_dir": "out", "learning_rate": 1e-5, "bf16": true, "deepspeed": "ds.json"}',
            "lint ds.json, which it names",
        ),
    ],
)
def test_what_an_unknown_key_stands_for(tmp_path: Path, text: str, fix: str | None) -> None:
    (found,) = linted(tmp_path, text).lints
    assert (found.finding.code, found.finding.fix) == ("CU330", fix)


def test_the_shipped_keys_are_those_of_known_good_configurations() -> None:
    """The keys of DeepSpeed's own documentation and of the examples of transformers draw no finding."""
    good = {
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16}
        | {"hysteresis": 2, "min_loss_scale": 1},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        },
        "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_num_steps": "auto"}},
        "zero_optimization": {"stage": 3, "overlap_comm": True, "contiguous_gradients": True, "sub_group_size": 1e9}
        | {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
        | {"offload_param": {"device": "cpu", "pin_memory": True}, "reduce_bucket_size": "auto"}
        | {"stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}
        | {"stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9}
        | {"stage3_gather_16bit_weights_on_model_save": True},
        **dict.fromkeys(("gradient_accumulation_steps", "gradient_clipping", "train_batch_size"), "auto"),
        "train_micro_batch_size_per_gpu": "auto",
        "steps_per_print": 2000,
        "wall_clock_breakdown": False,
    }
    keys = load_guidance(load(None)).ds_keys
    tree = parse_json(json.dumps(good), "x").tree
    assert list(ds_config_lints(tree, keys, Machine())) == []


BROKEN = ["", "[", "{", '{"a"', '{"a": 1', '{"a": }', '{"a": 1} x', '{"a": "b\n"}', "[1 2]", "{,}", "[" * 5000]
MORE_BROKEN = ['{"a": /* }', '{"a": True}', '{"a": 1x}', "{a: 1}", '{"a": "x"y}', "5"]


@collect("text", [*BROKEN, *MORE_BROKEN])
def test_what_is_not_json_even_so_is_one_finding(tmp_path: Path, text: str) -> None:
    result = linted(tmp_path, text)
    assert [item.finding.code for item in result.lints] == ["CU300"]
    assert result.fixed_text == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def value(node: Node, text: str) -> object:
    if node.kind == "list":
        return [value(item, text) for item in node.items]
    if node.kind == "map":
        return {json.loads(text[key.start : key.end]): value(inner, text) for key, inner in node.entries}
    return json.loads(text[node.start : node.end])


@given(JSON, st.sampled_from([None, 2]))
@examples(60)
def test_every_json_is_read_as_json_reads_it(data: object, indent: int | None) -> None:
    text = json.dumps(data, indent=indent)
    found = parse_json(text, "x")
    assert value(found.tree, text) == data
    assert not found.comments
    assert not found.commas


@given(st.text(alphabet='{}[]",:/*# \n\\a1tf', max_size=60))
@examples(60)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_json(text, "x").tree.end <= len(text)


def test_the_command_knows_the_file_by_its_name_and_by_its_content(tmp_path: Path) -> None:
    for name in ("ds_config_zero3.json", "my.json"):
        (tmp_path / name).write_text(zero(9), encoding="utf-8")
        done = run("lint", name, folder=tmp_path)
        assert done.returncode == 1
        assert "CU331" in done.stdout


def test_the_memory_of_a_recorded_host_counts(tmp_path: Path) -> None:
    """8 GB of host memory, and offload to NVMe that pins 19 GiB."""
    host = {
        "schema": "cuenv/host/1",
        "platform": "linux-64",
        "driver": {"version": "535.129.03"},
        "gpus": [{"name": "Tesla T4", "capability": "7.5"}],
        "resources": {"memory_mib": 8192},
    }
    (tmp_path / "node.json").write_text(json.dumps(host), encoding="utf-8")
    block = '"offload_param": {"device": "nvme", "nvme_path": "/x", "max_in_cpu": 1e10}'
    (tmp_path / "ds_config.json").write_text(zero(3, block), encoding="utf-8")
    assert "CU335" not in run("lint", folder=tmp_path).stdout
    told = run("lint", "--host", "node.json", folder=tmp_path)
    assert "CU335" in told.stdout, told.stderr
    assert "the host has 8 GiB" in told.stdout


def test_a_missing_batch_size_is_filled_in_as_the_rest_of_the_file_is(tmp_path: Path) -> None:
    """Lightning adds a number by itself; ``"auto"`` is a word of Hugging Face that DeepSpeed alone refuses."""
    for text, fix in (
        ("{}", None),
        ('{"fp16": {"enabled": "auto"}}', 'add "train_micro_batch_size_per_gpu": "auto"'),
    ):
        (missing,) = linted(tmp_path, text).lints
        assert missing.finding.fix == fix


def test_a_gpu_without_bfloat16_is_named(tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8, "bf16": {"enabled": true}}')
    host = ("--gpu", "GTX 1080", "--gpu", "RTX 4090", "--driver", "535.129.03")
    said = run("lint", *host, folder=tmp_path).stdout
    assert "bf16 on compute capability 6.1 (GeForce GTX 1080): only GPUs from compute capability 8.0 on" in said
    assert "bf16 on compute capability 6.1: only" in run("lint", "--gpu", "6.1", folder=tmp_path).stdout


def test_keys_that_are_wrong_for_one_reason_are_one_finding(tmp_path: Path) -> None:
    keys = (
        '"zero_stage": 3, "zero3_init_flag": true, "overlap_comm": true, "sub_group_size": 1, "reduce_bucket_size": 2'
    )
    of_accelerate, of_zero = (item.finding for item in linted(tmp_path, f"{{{MICRO}, {keys}}}").lints)
    assert of_accelerate.message.startswith(
        "'zero_stage', 'zero3_init_flag' are keys of accelerate's own configuration"
    )
    assert of_zero.message.startswith(
        "'overlap_comm', 'sub_group_size', 'reduce_bucket_size' are not known DeepSpeed keys"
    )
    assert of_zero.fix == "move them into zero_optimization"
