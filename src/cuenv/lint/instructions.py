"""A Dockerfile as a sequence of instructions, each with its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction of a Dockerfile.

    Attributes:
        name: in capitals: ``FROM``, ``RUN``; of ``ONBUILD RUN`` it is ``RUN``.
        start: where it begins.
        at: where its arguments begin.
        text: its arguments as they stand, with their line breaks, comments and here-documents: an index into it
            plus ``at`` is an index into the file.
    """

    name: str
    start: int
    at: int
    text: str
