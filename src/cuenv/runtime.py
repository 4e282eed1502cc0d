"""For the user's own code: do these tensors lie on one device?

`check_same_device` makes "Expected all tensors on the same device" readable: it names every tensor and where it is.
Importing this module loads neither torch nor anything of cuenv; what is a tensor is told by its attributes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import fields, is_dataclass
from itertools import chain, islice
from types import GeneratorType
from typing import Any

__all__ = ["DeviceMismatch", "check_same_device"]

_SHOWN = 8
_SEVERAL = (list, tuple, set, frozenset, deque, KeysView, ValuesView, ItemsView)
_ITERABLES: tuple[Any, ...] = ([], (), set(), {}, {}.values(), {}.items(), deque())
_ONCE: tuple[Any, ...] = (
    *(GeneratorType, map, zip, filter, enumerate, reversed, chain, islice),
    *(type(iter(each)) for each in _ITERABLES),
    *(type(reversed(each)) for each in _ITERABLES if not isinstance(each, set)),
)
"""Iterators that yield their items once: they are used up by the check, as by any loop over them."""

_TENSOR, _CONTAINER, _OTHER, _ASK = "tensor", "container", "other", "ask"
_KINDS: dict[type, str] = {}
_MOST_KINDS = 10_000
"""What the objects of a class are, so that a class is looked at once and not each of its thousand tensors."""


class DeviceMismatch(RuntimeError):  # noqa: N818 - what is wrong is its name
    """Tensors that belong together lie on several devices.

    Attributes:
        groups: for each device its tensors, by their names; the device with most tensors first.
    """

    def __init__(self, message: str, groups: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(message)
        self.groups = dict(groups)


def check_same_device(*things: Any, **named: Any) -> Any:
    """The one device on which all tensors lie.

    Looks into modules (parameters and buffers), optimizers (parameters and state), mappings, sequences, dataclasses
    and iterators of these, at any depth; an iterator is used up. As torch itself does, it lets a tensor without
    dimensions on the CPU go with any device. A parameter that DeepSpeed's ZeRO-3 has partitioned counts for the
    device on which it is gathered, wherever this rank's part of it lies; a DTensor for the device of this rank's
    part; a tensor on ``meta`` holds no data, and ``meta`` is a device of its own.

    Args:
        things: tensors, modules, optimizers, or containers of them; ``None`` is passed over.
        named: the same, with the names that the error shall use.

    Returns:
        The device as torch gives it; ``None`` when there is no tensor.

    Raises:
        DeviceMismatch: they lie on several.
        TypeError: an argument is nothing that could hold a tensor.

    Example:
        >>> check_same_device(model, input_ids=ids, labels=labels)  # doctest: +SKIP
        device(type='cuda', index=0)
    """
    used: dict[int, tuple[Any, list[Any]]] = {}
    for thing in (*things, *named.values()):
        if not (thing is None or _KINDS.get(type(thing)) is _TENSOR or _can_hold(thing, used)):
            label = next(label for label, item in [*_labelled(things), *named.items()] if item is thing)
            raise TypeError(f"{label} is a {type(thing).__name__}: no tensor, module, optimizer or container")
    one, mixed = _one_device(things, named, used)
    if not mixed:
        return one
    labelled = [*_labelled(things), *named.items()]
    groups: dict[str, list[str]] = {}
    for label, thing in labelled:
        for name, tensor in _tensors(label, thing, used):
            if not _goes_anywhere(tensor):
                groups.setdefault(str(tensor.device), []).append(f"{name} {_described(tensor)}")
    ordered = dict(sorted(((key, tuple(group)) for key, group in groups.items()), key=lambda item: -len(item[1])))
    raise DeviceMismatch(_message(ordered, [thing for _, thing in labelled]), ordered)


def _one_device(
    things: tuple[Any, ...], named: Mapping[str, Any], used: dict[int, tuple[Any, list[Any]]]
) -> tuple[Any, bool]:
    """The device of all tensors and whether there are several; no tensor is named or described for that.

    What iterators yielded goes into ``used``, since they yield it once.
    """
    one = free = None
    seen: dict[int, Any] = {}  # keeps the objects alive, so that an id stays its object's own
    waiting: list[Iterable[Any]] = [(*things, *named.values())]
    while waiting:
        for item in waiting.pop():
            kind = _KINDS.get(type(item)) or _kind(type(item))
            if kind is _TENSOR or (kind is _ASK and _is_tensor(item)):
                device = item.device
                if device == one:
                    continue
                if _goes_anywhere(item):
                    free = device
                elif one is None:
                    one = device
                else:
                    return None, True
            elif kind is not _OTHER and id(item) not in seen:
                seen[id(item)] = item
                waiting.append(_values(item, used))
    return (free if one is None else one), False


def _values(item: Any, used: dict[int, tuple[Any, list[Any]]]) -> Iterable[Any]:
    """What it holds, without names: to make a name costs more than to look at a tensor."""
    if type(item) in (list, tuple, set):
        return item  # type: ignore[no-any-return]  # whatever it holds
    if type(item) is dict:
        return item.values()
    return [value for _, value in _parts("", item, used) or ()]


def _can_hold(thing: Any, used: dict[int, tuple[Any, list[Any]]]) -> bool:
    return _is_tensor(thing) or _parts("", thing, used) is not None


def _kind(cls: type) -> str:
    """What objects of a class are: a tensor, nothing that holds one, or to be asked one by one."""
    module = callable(getattr(cls, "named_parameters", None)) and callable(getattr(cls, "named_buffers", None))
    if not module and hasattr(cls, "device") and hasattr(cls, "requires_grad"):
        kind = _TENSOR
    elif cls in (list, tuple, set, dict):
        kind = _CONTAINER
    elif cls in (str, bytes, int, float, bool, complex, type, type(None)):
        kind = _OTHER
    else:
        kind = _ASK
    if len(_KINDS) < _MOST_KINDS:
        _KINDS[cls] = kind
    return kind


def _goes_anywhere(tensor: Any) -> bool:
    """Whether torch takes it beside any device: a tensor without dimensions on the CPU."""
    return str(tensor.device) == "cpu" and _shape(tensor) == ()


def _labelled(things: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """A module by its class, as its printout begins, where it is the first of its class; anything else by its place."""
    taken: set[str] = set()
    for number, thing in enumerate(things, 1):
        name = type(thing).__name__
        yield (name if _is_module(thing) and name not in taken else f"argument {number}"), thing
        taken.add(name)


def _is_tensor(thing: Any) -> bool:
    # Arrays of other libraries have a device as well, but do not take part in autograd.
    whole = not isinstance(thing, type) and not _is_module(thing)
    return whole and hasattr(thing, "device") and hasattr(thing, "requires_grad")


def _is_module(thing: Any) -> bool:
    if isinstance(thing, type):
        return False
    return callable(getattr(thing, "named_parameters", None)) and callable(getattr(thing, "named_buffers", None))


def _tensors(label: str, thing: Any, used: dict[int, tuple[Any, list[Any]]]) -> Iterator[tuple[str, Any]]:
    """Every tensor in it once, with its name; no recursion, for what a user nests may be deep or run in a circle."""
    seen: set[int] = set()
    waiting = [(label, thing)]
    kept = []  # ids stay taken while the objects live
    while waiting:
        name, item = waiting.pop()
        if item is None or id(item) in seen:
            continue
        if _is_tensor(item):
            seen.add(id(item))
            kept.append(item)
            yield name, item
            continue
        parts = _parts(name, item, used)
        if parts is not None:
            seen.add(id(item))
            kept.append(item)
            waiting.extend(reversed(list(parts)))


def _parts(name: str, item: Any, used: dict[int, tuple[Any, list[Any]]]) -> Iterable[tuple[str, Any]] | None:
    """What a module, optimizer or container holds, by name; ``None`` for anything else."""
    if isinstance(item, _ONCE):
        if id(item) not in used:
            used[id(item)] = item, list(item)  # the iterator is kept, so that its id stays its own
        return ((f"{name}[{index}]", value) for index, value in enumerate(used[id(item)][1]))
    if _is_module(item):
        return _of_module(name, item)
    if isinstance(getattr(item, "param_groups", None), list) and hasattr(item, "state"):
        return _of_optimizer(name, item)
    if isinstance(item, Mapping):
        return ((f"{name}[{key!r}]", value) for key, value in item.items())
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        # A packed sequence keeps its batch sizes on the CPU, always.
        return ((f"{name}.{key}", getattr(item, key)) for key in item._fields if key != "batch_sizes")
    if is_dataclass(item) and not isinstance(item, type):
        return ((f"{name}.{field.name}", getattr(item, field.name, None)) for field in fields(item))
    if isinstance(item, _SEVERAL):
        return ((f"{name}[{index}]", value) for index, value in enumerate(item))
    return None


def _of_module(name: str, module: Any) -> Iterator[tuple[str, Any]]:
    for named in (module.named_parameters, module.named_buffers):
        yield from ((f"{name}.{inner}", tensor) for inner, tensor in named())


def _of_optimizer(name: str, optimizer: Any) -> Iterator[tuple[str, Any]]:
    numbers: dict[int, int] = {}
    for group in optimizer.param_groups:
        for parameter in group.get("params", ()):
            number = numbers.setdefault(id(parameter), len(numbers))
            yield f"{name}.params[{number}]", parameter
    for parameter, state in optimizer.state.items():
        number = numbers.get(id(parameter), len(numbers))
        yield f"{name}.state[{number}]", state


def _shape(tensor: Any) -> tuple[int, ...] | None:
    """The whole tensor's, also of a parameter that ZeRO-3 has partitioned; ``None`` where torch gives none."""
    whole = getattr(tensor, "ds_shape", None)
    try:
        return tuple(tensor.shape if whole is None else whole)
    except RuntimeError:  # a parameter of a lazy module that nobody called yet, or a nested tensor
        return None


def _described(tensor: Any) -> str:
    """Type, shape and what is special about where it is: ``float16 (4096, 4096), ZeRO-3, this rank's part on cpu``."""
    shape = _shape(tensor)
    size = "shape unknown" if shape is None else ", ".join(map(str, shape))
    text = f"{str(getattr(tensor, 'dtype', '')).removeprefix('torch.')} ({size})".strip()
    part = getattr(tensor, "ds_tensor", None)
    status = getattr(getattr(tensor, "ds_status", None), "name", "AVAILABLE")
    if hasattr(tensor, "ds_id") and status != "AVAILABLE":
        text += f", ZeRO-3 {'in flight' if status == 'INFLIGHT' else 'partitioned'}"
        place = getattr(getattr(part, "final_location", None), "value", None) or getattr(part, "device", None)
        text += f", this rank's part on {place}" if place else ""
    if hasattr(tensor, "device_mesh") and hasattr(tensor, "placements"):
        text += f", DTensor over {getattr(tensor.device_mesh, 'device_type', 'a mesh')}"
    return text + (", no data" if str(tensor.device) == "meta" else "")


def _message(groups: Mapping[str, tuple[str, ...]], things: Iterable[Any]) -> str:
    lines = [f"tensors lie on {len(groups)} devices, and one operation needs them on one"]
    for device, names in groups.items():
        lines.append(f"  {device}: {len(names)} tensor{'s' if len(names) > 1 else ''}")
        lines += [f"    {name}" for name in names[:_SHOWN]]
        lines += [f"    ... and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    if any(getattr(thing, "hf_device_map", None) for thing in things):
        lines.append("  hint: this model was spread by a device_map; check the part that runs together, not the whole")
    elif "meta" in groups:
        lines.append("  hint: what lies on meta was never loaded; load its weights, or materialize it: .to_empty(...)")
    else:
        most, *others = groups
        lines.append(f"  hint: move what lies on {' and '.join(others)}: .to({most!r})")
    return "\n".join(lines)
