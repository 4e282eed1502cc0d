"""The parts of conda 26.7 that its plugin meets, with the signatures that conda has, as modules of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy


@dataclass
class Plugin:
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.lower().strip()


@dataclass(init=False)
class CondaSubcommand(Plugin):
    summary: str
    action: Callable[..., Any]

    def __init__(self, *, name: str, summary: str, action: Any, configure_parser: Any = None, aliases: Any = ()):
        super().__init__(name)
        self.summary, self.action, self.configure_parser, self.aliases = summary, action, configure_parser, aliases


@dataclass
class CondaHealthCheck(Plugin):
    action: Callable[[str, bool], None]
    fixer: Callable[..., int] | None = None
    summary: str | None = None
    fix: str | None = None


@dataclass
class CondaPreSolve(Plugin):
    action: Callable[..., None]


@dataclass
class CondaPostSolve(Plugin):
    action: Callable[..., None]


@dataclass
class CondaPreTransactionAction(Plugin):
    action: type


@dataclass
class CondaSetting(Plugin):
    description: str
    parameter: Any
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class CondaErrorHint:
    text: str
    hint_code: str


@dataclass
class CondaEnvironmentSpecifier(Plugin):
    environment_spec: type
    default_filenames: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    description: str | None = None
    environment_format: str = "environment"


@dataclass
class CondaEnvironmentExporter(Plugin):
    aliases: tuple[str, ...]
    default_filenames: tuple[str, ...]
    export: Callable[[Any], str] | None = None
    multiplatform_export: Callable[..., str] | None = None
    description: str | None = field(default=None)
    environment_format: str = "environment"

    def __post_init__(self) -> None:
        super().__post_init__()
        assert bool(self.export) != bool(self.multiplatform_export)


class EnvironmentSpecBase(ABC):
    @abstractmethod
    def can_handle(self) -> bool: ...

    @property
    @abstractmethod
    def env(self) -> Any: ...


class Action(ABC):
    _verified = False

    def __init__(  # noqa: PLR0917 - as conda has it
        self,
        transaction_context: Any = None,
        target_prefix: Any = None,
        unlink_precs: Any = None,
        link_precs: Any = None,
        remove_specs: Any = None,
        update_specs: Any = None,
        neutered_specs: Any = None,
    ) -> None:
        self.target_prefix, self.link_precs = target_prefix, link_precs

    @abstractmethod
    def verify(self) -> Exception | None: ...

    @abstractmethod
    def execute(self) -> None: ...

    @abstractmethod
    def reverse(self) -> None: ...

    @abstractmethod
    def cleanup(self) -> None: ...


class PrimitiveParameter:
    def __init__(self, default: Any, element_type: Any = None) -> None:
        self.default, self.element_type = default, element_type


class CondaError(Exception):
    pass


class CondaVerificationError(CondaError):
    pass


class CondaValueError(CondaError, ValueError):
    pass


class YamlFileSpec:
    """What conda makes of an environment.yml: here its text."""

    def __init__(self, filename: str) -> None:
        self.env = Path(filename).read_text(encoding="utf-8")


hookspec = pluggy.HookspecMarker("conda")


class CondaSpecs:
    """Names and arguments of the hooks, as of conda 26.7."""

    @hookspec
    def conda_subcommands(self) -> None: ...
    @hookspec
    def conda_health_checks(self) -> None: ...
    @hookspec
    def conda_pre_solves(self) -> None: ...
    @hookspec
    def conda_post_solves(self) -> None: ...
    @hookspec
    def conda_settings(self) -> None: ...
    @hookspec
    def conda_error_hints(self, error: Any) -> None: ...
    @hookspec
    def conda_pre_transaction_actions(self) -> None: ...
    @hookspec
    def conda_environment_specifiers(self) -> None: ...
    @hookspec
    def conda_environment_exporters(self) -> None: ...
    @hookspec
    def conda_virtual_packages(self) -> None: ...


_TYPES = (
    CondaSubcommand,
    CondaHealthCheck,
    CondaPreSolve,
    CondaPostSolve,
    CondaPreTransactionAction,
    CondaSetting,
    CondaErrorHint,
    CondaEnvironmentSpecifier,
    CondaEnvironmentExporter,
    EnvironmentSpecBase,
)


class Context(SimpleNamespace):
    """What a test sets: settings of plugins, virtual packages, --quiet, --json."""


def modules(history: dict[str, Any] | None = None) -> tuple[dict[str, ModuleType], Context]:
    """The modules by name, and the context that they share."""
    context = Context(
        quiet=False,
        json=False,
        plugins=SimpleNamespace(cuenv_lock=""),
        cuda=None,
    )
    context.plugin_manager = SimpleNamespace(
        get_virtual_package_records=lambda: [
            SimpleNamespace(name="__glibc", version="2.36"),
            *([SimpleNamespace(name="__cuda", version=context.cuda)] if context.cuda else []),
        ]
    )
    asked = SimpleNamespace(get_requested_specs_map=lambda: history or {})
    held: dict[str, dict[str, Any]] = {
        "conda": {},
        "conda.plugins": {},
        "conda.plugins.types": {one.__name__: one for one in _TYPES},
        "conda.base": {},
        "conda.base.context": {"context": context},
        "conda.common": {},
        "conda.common.configuration": {"PrimitiveParameter": PrimitiveParameter},
        "conda.core": {},
        "conda.core.path_actions": {"Action": Action},
        "conda.env": {},
        "conda.env.specs": {},
        "conda.env.specs.yaml_file": {"YamlFileSpec": YamlFileSpec},
        "conda.exceptions": {
            "CondaVerificationError": CondaVerificationError,
            "CondaValueError": CondaValueError,
        },
        "conda.history": {"History": lambda _prefix: asked},
    }
    made = {}
    for name, content in held.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(content)
    return made, context
