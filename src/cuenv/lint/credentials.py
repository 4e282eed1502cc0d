"""Lint of logins in a file that is made to be shared."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cuenv.lint import Lint
from cuenv.lint.tree import Node
from cuenv.report import Finding
from cuenv.urls import host, redact, strip_credentials

_LOGIN = re.compile(r"://[^/\s@]+@")


def credential_lints(tree: Node) -> Iterator[Lint]:
    """Users, passwords and tokens in the URLs of channels and requirements: whoever reads the file has them.

    Args:
        tree: the values of an environment file with their places.
    """
    channels, dependencies = tree.get("channels"), tree.get("dependencies")
    for item in channels.items if channels else ():
        if "://" in item.text and strip_credentials(item.text) != item.text:
            yield _lint(item, "channels", strip_credentials(item.text))
    for item in _texts(dependencies):
        if _LOGIN.search(item.text):
            yield _lint(item, "dependencies", redact(item.text))


def _texts(dependencies: Node | None) -> Iterator[Node]:
    for item in dependencies.items if dependencies else ():
        yield item
        for _, value in item.entries:
            yield from value.items


def _lint(item: Node, subject: str, plain: str) -> Lint:
    place = host(plain[max(plain.find("://") - 5, 0) :].split(maxsplit=1)[0]) if "://" in plain else ""
    return Lint(
        finding=Finding(
            code="CU308",
            severity="error",
            subject=subject,
            message=f"a login or token stands in {plain}: whoever reads this file, or its history, has it",
            fix=f"write {plain}, keep the login in ~/.netrc (machine {place or 'HOST'} login USER password PASSWORD), "
            "and change a password that was committed",
        ),
        at=item.start,
    )
