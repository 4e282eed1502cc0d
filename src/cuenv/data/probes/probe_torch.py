"""torch can be imported, and which one it is."""

from __future__ import annotations

import sys

from _told import Observed, answer, load


def look(told: Observed) -> None:
    torch = load("torch")
    told.facts["version"] = str(torch.__version__)
    told.facts["cuda"] = torch.version.cuda
    told.facts["path"] = getattr(torch, "__file__", None)
    told.facts["python"] = "%d.%d.%d" % sys.version_info[:3]
    told.done.append("imported")


if __name__ == "__main__":
    answer(look)
