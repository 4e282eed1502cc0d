"""Lint of DeepSpeed's configuration: keys and values that it refuses or ignores.

The two offload devices are independent settings; that they must agree is one of the things that blogs say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from cuenv.core.findings import Finding, Severity, counted, first_of
from cuenv.core.versions import Capability
from cuenv.knowledge.guidance import DeepSpeedKeys
from cuenv.lint import Edit, Lint, Machine, Node

_NATIVE_BF16 = Capability(8, 0)
_RENAMED_KEYS = MappingProxyType(
    {"stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save", "bfloat16": "bf16"}
)
_DEVICES = ("none", "cpu", "nvme")
_BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_TOP = "top"
_TRAINER_KEYS = ("output_dir", "per_device_train_batch_size", "model_name_or_path")
_BYTES_PER_PARAMETER = 2  # bytes of a parameter in half precision
_ONE_BIT_OPTIMIZERS = ("onebitadam", "onebitlamb", "zerooneadam")
_TESTED_OPTIMIZERS = ("adam", "adamw", "adagrad", "lion", "muon", "muadam", "muadamw")
"""Optimizer types that DeepSpeed takes beside ZeRO; those of mup depend on mup."""


def ds_config_lints(tree: Node, keys: tuple[DeepSpeedKeys, ...], machine: Machine) -> Iterator[Lint]:
    """Mistakes in a configuration; ``"auto"`` is not judged, because the trainer fills it in."""
    sections = {row.section: row for row in keys}
    if (others := _trainer_file_lint(tree, sections)) is not None:
        yield others
        return
    yield from _key_lints(tree, _TOP, sections)
    zero = tree.get("zero_optimization")
    if zero is not None and zero.kind == "map":
        yield from _stage_lints(zero)
        yield from _offload_lints(zero, machine)
    yield from _aio_lints(tree, zero)
    yield from _precision_lints(tree, machine)
    yield from _optimizer_lints(tree, zero)
    yield from _batch_size_lints(tree, len(machine.gpus))


def _trainer_file_lint(tree: Node, sections: Mapping[str, DeepSpeedKeys]) -> Lint | None:
    """The finding that the file holds arguments of the transformers Trainer, not DeepSpeed's configuration."""
    row, own = sections.get(_TOP), next((key for key, _ in tree.entries if key.text in _TRAINER_KEYS), None)
    if row is None or own is None or sum(key.text in row.keys for key, _ in tree.entries) * 2 > len(tree.entries):
        return None
    named = tree.get("deepspeed")
    fix = f"lint {named.text}, which it names" if named and named.text else None
    message = f"{own.text} is an argument of the transformers Trainer: the file is not a DeepSpeed configuration"
    return _lint_at_node("CU330", "warning", own, message, fix, row.sources[0])


def json_lints(comments: tuple[int, ...], commas: tuple[int, ...], twice: tuple[Node, ...]) -> Iterator[Lint]:
    """What DeepSpeed's JSON reader accepts, but the strict ones of accelerate and transformers do not."""
    strict = "DeepSpeed reads it, but accelerate and transformers read strict JSON and fail"
    for at in commas:
        finding = _make_finding(
            "CU338", "warning", "json", f"there is a comma before a closing bracket: {strict}", "accds"
        )
        yield Lint(finding=finding, at=at, edits=(Edit(start=at, end=at + 1, text=""),))
    for at in comments[:1]:
        more = f" (and {len(comments) - 1} more)" if len(comments) > 1 else ""
        yield Lint(finding=_make_finding("CU338", "warning", "json", f"a comment{more}: {strict}", "accds"), at=at)
    for key in twice:
        message = f"{key.text[:80]!r} occurs twice in one mapping, which DeepSpeed refuses"
        yield Lint(finding=_make_finding("CU338", "error", key.text, message, "dscfg"), at=key.start)


def _make_finding(  # noqa: PLR0917 - in the order in which a finding is told; the rules read better without names
    code: str, severity: Severity, subject: str, message: str, source: str, fix: str | None = None
) -> Finding:
    return Finding(code=code, severity=severity, subject=subject, message=message, evidence=(source,), fix=fix)


def _lint_at_node(  # noqa: PLR0917 - as above
    code: str, severity: Severity, node: Node, message: str, fix: str | None, source: str, *edits: Edit
) -> Lint:
    finding = _make_finding(code, severity, node.text or "ds_config", message, source, fix)
    return Lint(finding=finding, at=node.start, edits=edits)


def _key_lints(node: Node, section: str, sections: Mapping[str, DeepSpeedKeys]) -> Iterator[Lint]:
    """Unknown keys, which DeepSpeed refuses inside ZeRO and the precisions and silently ignores elsewhere."""
    row = sections.get(section)
    misplaced: dict[str, list[Node]] = {}
    for key, value in node.entries if row else ():
        path = key.text if section == _TOP else f"{section}.{key.text}"
        new = _RENAMED_KEYS.get(key.text)
        if new and node.get(new) is None:
            message = f"{key.text} is the old name of {new}"
            yield _lint_at_node("CU337", "warning", key, message, f"write {new}", "dszero", _rename_key(key, new))
        elif row and key.text not in row.keys and not key.text.startswith(("_", "#")):
            fix = _suggested_key(key.text, node, row, sections)
            if section == _TOP and (key.text in _ACCELERATE_KEYS or (fix and fix.startswith(_MOVE))):
                misplaced.setdefault("" if key.text in _ACCELERATE_KEYS else (fix or ""), []).append(key)
            else:
                yield _unknown_keys_lint([key], section, row, fix)
        if value.kind == "map":
            yield from _key_lints(value, path, sections)
    for fix, keys in misplaced.items():
        several = fix.replace("move it", "move them") if len(keys) > 1 else fix
        if row:
            yield _unknown_keys_lint(keys, section, row, several or None)


def _unknown_keys_lint(keys: list[Node], section: str, row: DeepSpeedKeys, fix: str | None) -> Lint:
    """One finding for keys that are wrong for the same reason, at the first of them."""
    names = first_of([repr(key.text[:80]) for key in keys], _MAX_SHOWN)
    one = len(keys) == 1
    since = f" from release {_REFUSED_SINCE[section]} on" if section in _REFUSED_SINCE else ""
    what = f"{'refuses' if row.strict else 'silently ignores'} {'it' if one else 'them'}{since}"
    where = "" if section == _TOP else f" in {section}"
    known = f"{'is not a known DeepSpeed key' if one else 'are not known DeepSpeed keys'}{where}"
    source = row.sources[0]
    if section == _TOP and keys[0].text in _ACCELERATE_KEYS:
        known = f"{'is a key' if one else 'are keys'} of accelerate's own configuration, not of DeepSpeed's"
        fix, source = (
            f"write {'it' if one else 'them'} under deepspeed_config in the file that accelerate config writes",
            "accds",
        )
    message = f"{names} {known}; DeepSpeed {what}"
    return _lint_at_node("CU330", "error" if row.strict else "warning", keys[0], message, fix, source)


_MAX_SHOWN = 3
_MOVE = "move it into "
_ACCELERATE_KEYS = (
    "deepspeed_config_file",
    "deepspeed_exclusion_filter",
    "deepspeed_hostfile",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
    "deepspeed_multinode_launcher",
    "offload_optimizer_device",
    "offload_optimizer_nvme_path",
    "offload_param_device",
    "offload_param_nvme_path",
    "zero3_init_flag",
    "zero3_save_16bit_model",
    "zero_stage",
)
"""What ``accelerate config`` writes: https://huggingface.co/docs/accelerate/usage_guides/deepspeed."""
_REFUSED_SINCE = {"bf16": "0.17", "fp16": "0.17"}
"""Where earlier releases ignored unknown keys: https://github.com/h2oai/h2o-llmstudio/pull/1063."""


def _suggested_key(name: str, node: Node, row: DeepSpeedKeys, sections: Mapping[str, DeepSpeedKeys]) -> str | None:
    """The fix for an unknown key: its section, or a similar key that is not set yet."""
    homes = [other.section for other in sections.values() if name in other.keys and other.section != _TOP]
    if len(homes) == 1:
        return f"{_MOVE}{homes[0]}"
    free = [key for key in row.keys if node.get(key) is None]
    near = get_close_matches(name, free, n=1, cutoff=0.75)
    sure = get_close_matches(name, free, n=1, cutoff=0.9)
    return f"write {near[0]}{'' if sure else ', if that is meant'}" if near else None


def _rename_key(key: Node, new: str) -> Edit:
    return Edit(start=key.start, end=key.end, text=f'"{new}"')


def _stage_lints(zero: Node) -> Iterator[Lint]:
    """The ZeRO stage is 0 to 3, and stage 3 saves a model only if it is told to gather one."""
    stage = zero.get("stage")
    if stage is None or stage.text == "auto":
        return
    number = _whole_number(stage)
    if number is None or number > 3:
        yield _lint_at_node(
            "CU331", "error", stage, f"the ZeRO stage is 0, 1, 2 or 3, not {stage.text[:40]}", None, "dszero"
        )
    names = ("stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save", *_RENAMED_KEYS)
    if number == 3 and not any(zero.get(name) for name in names):
        yield _lint_at_node(
            "CU334",
            "info",
            stage,
            "stage 3 saves a 16-bit model only if stage3_gather_16bit_weights_on_model_save is true: checkpoints hold "
            "shards, which zero_to_fp32.py joins",
            'add "stage3_gather_16bit_weights_on_model_save": true',
            "dseng",
        )


def _offload_lints(zero: Node, machine: Machine) -> Iterator[Lint]:
    """Offload blocks that the stage ignores, that lack a path, or that pin more memory than the host has."""
    stage = _whole_number(zero.get("stage")) if zero.get("stage") else 0
    for name, stages in (("offload_param", (3,)), ("offload_optimizer", (1, 2, 3))):
        block = zero.get(name)
        device = block.get("device") if block is not None else None
        if block is None or device is None or device.text in ("none", "auto"):
            continue
        if device.text not in _DEVICES:
            message = f"{name}.device is none, cpu or nvme, not {device.text[:40]!r}"
            yield _lint_at_node("CU331", "error", device, message, None, "dsoff")
            continue
        if stage is not None and stage not in stages:
            wanted = "3" if len(stages) == 1 else "1, 2 or 3"
            message = f"{name} has no effect at stage {stage}: it works only with stage {wanted}"
            yield _lint_at_node(
                "CU331", "warning", device, message, f'set "stage" to {stages[-1]}, or remove {name}', "dsoff"
            )
        elif stage in (1, 2) and device.text == "nvme":
            message = f"{name} uses nvme at stage {stage}, but nvme works only with stage 3"
            yield _lint_at_node("CU331", "error", device, message, 'set "stage" to 3, or "device" to "cpu"', "dsdoc")
        if device.text == "nvme":
            yield from _nvme_path_lints(name, block, device)
            yield from _pinned_memory_lints(name, block, machine.memory_mib)
        part = block.get("ratio")
        if part is not None and stage is not None and stage != 3 and part.text not in ("1", "1.0", "auto"):
            message = (
                f"{name}.ratio {part.text[:20]} works only with stage 3, and DeepSpeed refuses it at stage {stage}"
            )
            yield _lint_at_node("CU331", "error", part, message, 'set "ratio" to 1.0', "dszero")


def _nvme_path_lints(name: str, block: Node, device: Node) -> Iterator[Lint]:
    path = block.get("nvme_path")
    if path is None:
        message = f"{name} uses nvme but has no nvme_path"
        yield _lint_at_node("CU336", "error", device, message, 'add "nvme_path": "/local_nvme"', "dsoff")
    elif not path.text.startswith("/") and path.text != "auto":
        message = f"{name}.nvme_path {path.text[:60]!r} is relative to the directory in which the job starts"
        yield _lint_at_node("CU336", "warning", path, message, "write an absolute path", "dsoff")


def _pinned_memory_lints(name: str, block: Node, memory_mib: int | None) -> Iterator[Lint]:
    """Offload to NVMe that pins more memory than the host has."""
    pin = block.get("pin_memory")
    if memory_mib is None or (pin is not None and pin.text == "false"):
        return
    count, size, resident = (_number_in(block.get(key)) for key in ("buffer_count", "buffer_size", "max_in_cpu"))
    bytes_ = ((count or 0) * (size or 0) + (resident or 0)) * _BYTES_PER_PARAMETER
    if bytes_ > memory_mib * 1024 * 1024:
        yield _lint_at_node(
            "CU335",
            "warning",
            pin or block,
            f"{name} pins {bytes_ / 1024**3:.0f} GiB (buffer_count x buffer_size + max_in_cpu, 2 bytes each), but the "
            f"host has {memory_mib / 1024:.0f} GiB",
            "lower buffer_size or max_in_cpu",
            "dsoff",
        )


def _aio_lints(tree: Node, zero: Node | None) -> Iterator[Lint]:
    """``aio`` is only for offload to NVMe, and its op is compiled with libaio."""
    blocks = [zero.get(name) for name in ("offload_param", "offload_optimizer")] if zero else []
    devices = [block.get("device") for block in blocks if block is not None]
    nvme = next((device for device in devices if device is not None and device.text == "nvme"), None)
    aio = next((key for key, _ in tree.entries if key.text == "aio"), None)
    if nvme is not None:
        message = "offload to nvme compiles the op async_io, which includes libaio.h"
        yield _lint_at_node("CU336", "info", nvme, message, "add to dependencies: libaio", "ds")
    elif aio is not None:
        message = "the section aio has no effect, because no offload uses nvme"
        yield _lint_at_node("CU336", "warning", aio, message, "remove aio", "dsoff")


def _precision_lints(tree: Node, machine: Machine) -> Iterator[Lint]:
    fp16, bf16 = (_enabled_node(tree.get(name)) for name in ("fp16", "bf16"))
    bf16 = bf16 or _enabled_node(tree.get("bfloat16"))
    if fp16 is not None and bf16 is not None:
        message = "fp16 and bf16 are both enabled, which DeepSpeed refuses"
        yield _lint_at_node("CU333", "error", bf16, message, 'set one "enabled" to false', "dscfg")
    old = sorted({gpu for gpu in machine.gpus if gpu < _NATIVE_BF16})
    if bf16 is not None and old:
        from cuenv.resolver.verdict import named_capability  # noqa: PLC0415 - only where a host is named

        message = (
            f"bf16 on {named_capability(machine.facts, *old)}: only GPUs from compute capability {_NATIVE_BF16} on "
            "compute bfloat16; older GPUs emulate it slowly"
        )
        yield _lint_at_node("CU333", "warning", bf16, message, "use fp16", "tcuda")


def _enabled_node(block: Node | None) -> Node | None:
    found = block.get("enabled") if block is not None and block.kind == "map" else None
    return found if found is not None and found.text == "true" and found.kind == "plain" else None


def _optimizer_lints(tree: Node, zero: Node | None) -> Iterator[Lint]:
    """Optimizers that DeepSpeed has not tested with ZeRO and refuses unless the file allows them."""
    stage = zero.get("stage") if zero is not None and zero.kind == "map" else None
    block = tree.get("optimizer")
    kind = block.get("type") if block is not None and block.kind == "map" else None
    if (
        kind is None
        or kind.kind != "text"
        or not (stage and _whole_number(stage))
        or kind.text.lower() in (*_TESTED_OPTIMIZERS, "auto")
    ):
        return
    name = kind.text[:40]
    if name.lower() in _ONE_BIT_OPTIMIZERS:
        message = (
            f"{name} does not work with ZeRO: DeepSpeed up to 0.18 refuses it at stage {stage.text}, later releases no "
            "longer support it"
        )
        yield _lint_at_node("CU331", "error", kind, message, 'set "stage" to 0, or use AdamW', "dseng")
        return
    allow = tree.get("zero_allow_untested_optimizer")
    if allow is None or allow.text != "true":
        message = f"DeepSpeed refuses the untested optimizer {name} at ZeRO stage {stage.text}"
        yield _lint_at_node("CU331", "error", kind, message, 'add "zero_allow_untested_optimizer": true', "dseng")


def _has_auto(node: Node) -> bool:
    """Whether a value contains ``"auto"``, which Hugging Face's Trainer and accelerate fill in."""
    return node.text == "auto" or any(_has_auto(value) for _, value in node.entries)


def _batch_size_lints(tree: Node, gpus: int) -> Iterator[Lint]:
    """``train_batch_size`` must be micro batch x accumulation steps x GPUs."""
    # To DeepSpeed null is as if the key were not there.
    nodes = [node if (node := tree.get(name)) and node.text != "null" else None for name in _BATCH_KEYS]
    for name, node in zip(_BATCH_KEYS, nodes, strict=True):
        if node is not None and node.text != "auto" and (node.kind != "plain" or not _whole_number(node)):
            message = f"{name} is a whole number above 0, not {node.text[:40]!r}"
            yield _lint_at_node("CU332", "error", node, message, None, "dscfg")
            return
    total, micro, steps = (_whole_number(node) if node is not None else None for node in nodes)
    if nodes[0] is None and nodes[1] is None:
        message = (
            "train_batch_size and train_micro_batch_size_per_gpu are both missing: deepspeed.initialize needs one of "
            'them; Lightning adds it by itself, and Hugging Face\'s Trainer where it is "auto"'
        )
        fix = (
            'add "train_micro_batch_size_per_gpu": "auto"' if _has_auto(tree) else None
        )  # else nobody knows whose it is
        yield _lint_at_node("CU332", "warning", tree, message, fix, "dscfg")
    elif total and nodes[0] is not None:
        each = (micro or 1) * (steps or 1)
        whole = bool(micro and steps and gpus)
        if (whole and total != each * gpus) or total % (each * (gpus or 1)):
            parts = (
                [f"{micro} a GPU"] * bool(micro)
                + [counted(steps or 0, "step")] * bool(steps)
                + [counted(gpus, "GPU")] * bool(gpus)
            )
            product = each * (gpus or 1)
            message = f"train_batch_size {total} is not {' x '.join(parts)}" + (
                f" = {product}" if whole else f", because {total} is not a multiple of {product}"
            )
            right = whole and total % each == 0
            message += f": it is for {counted(total // each, 'GPU')}" if right else ""
            nearest = product if whole else max(1, round(total / product)) * product
            severity: Severity = "warning" if right else "error"  # several machines may have them
            yield _lint_at_node("CU332", severity, nodes[0], message, f'set "train_batch_size" to {nearest}', "dscfg")


def _whole_number(node: Node | None) -> int | None:
    if node is None or node.kind != "plain" or not node.text.isascii() or not node.text.isdigit():
        return None
    return int(node.text[:18])


def _number_in(node: Node | None) -> float | None:
    if node is None or node.kind != "plain":
        return None
    try:
        found = float(node.text)
    except ValueError:
        return None
    return found if 0 <= found < 1e18 else None
