"""What parses but cannot work: found in the file, before anything is created."""

from __future__ import annotations

from lab.topology import variants
from lab.topology.load import LoadedTopology
from lab.topology.problem import Problem, TopologyError
from lab.topology.rules import Host, Rule, experiments, guest, network, sockets, storage

RULES: tuple[Rule, ...] = (
    *guest.RULES,
    *storage.RULES,
    *network.RULES,
    *sockets.RULES,
    *experiments.RULES,
)


def lint(loaded: LoadedTopology, capabilities: Host | None) -> list[Problem]:
    """Every problem, in the order of the file. Without capabilities, what no host could run."""
    findings = [finding for rule in RULES for finding in rule(loaded.topology, capabilities)]
    findings.sort(key=lambda finding: loaded.tree.line(finding.loc))
    found = [Problem(loaded.where(loc), message, hint) for loc, message, hint in findings]
    # A patch is looked at once all that it changes is in order.
    return found or list(variants.problems(loaded))


def check(loaded: LoadedTopology, capabilities: Host | None) -> None:
    """Raise TopologyError with every problem that `lint` finds, if any."""
    if problems := lint(loaded, capabilities):
        raise TopologyError(problems)
