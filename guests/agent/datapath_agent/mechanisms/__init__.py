"""The mechanisms: one package each here, found by its folder's name.

A package exports MECHANISM, a datapath_agent.mechanism.Mechanism. There is no list to keep.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.mechanism import Mechanism


def names() -> list[str]:
    """Every mechanism's name, in the order of the alphabet."""
    import pkgutil  # not needed to say hello

    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def find(name: str) -> Mechanism | None:
    """The mechanism of that name, imported now; None where there is none."""
    if name not in names():
        return None
    module = f"{__name__}.{name}"
    __import__(module)
    mechanism: Mechanism = sys.modules[module].MECHANISM
    return mechanism
