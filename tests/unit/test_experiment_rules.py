"""Experiments that cannot be run are refused with the line that is at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.topology.lint import check
from lab.topology.load import parse
from lab.topology.problem import TopologyError

GOOD = """\
name: t
guests:
  client: &guest
    nics: {lan0: {segment: lan}}
  server: *guest
segments: {lan: {}}
experiments:
  e:
    workload: {engine: udp, runtime_s: 1}
    variants:
      a: {preset: main}
      b: {preset: latest}
    trials: 2
    gates:
      g: {metric: rps, variant: b, baseline: a, direction: higher, effect: 5%}
"""


def problems(old: str = "", new: str = "") -> str:
    assert old in GOOD
    with pytest.raises(TopologyError) as caught:
        check(parse(GOOD.replace(old, new), Path("t.yaml")), None)
    return str(caught.value)


def test_a_good_one_passes() -> None:
    check(parse(GOOD, Path("t.yaml")), None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("engine: udp", "engine: udq", "t.yaml:11: variant `a` of `e`: there is nothing to run"),
        ("preset: main", "preset: mine", "t.yaml:11: variant `a`"),
        ("runtime_s: 1", "runtime_s: -1", "t.yaml:11"),
        ("runtime_s: 1", "runtime: 1", "t.yaml:11"),
        ("engine: udp", "engine: udp, guest: cliemt", "did you mean `client`?"),
        ("variant: b", "variant: c", "t.yaml:15: gate `g` is about variant `c`"),
        ("baseline: a", "baseline: c", "t.yaml:15: gate `g` is about variant `c`"),
        ("effect: 5%", "effect: 5%, within: 5%", "claims effect and within"),
        (", effect: 5%", "", "claims nothing"),
        (", baseline: a", "", "needs a `baseline`"),
        ("effect: 5%", 'rate: "== 0"', "compares with no `baseline`"),
        ("effect: 5%", "effect: 5", "percent sign"),
        ("effect: 5%", 'each: "about 5"', "is no comparison"),
        ("effect: 5%", "within: 5%, separated: true", "belongs to an `effect`"),
        ("variant: b", "variant: [b, a]", "a pair on both sides"),
        ("trials: 2", "trials: 0", "t.yaml:13"),
        ("trials: 2", "boots: 0", "t.yaml:13"),
        ("trials: 2", "trails: 2", "did you mean `trials`?"),
        ("trials: 2", "quick: {variants: {c: {}}}", "`quick` is about variant `c`"),
        ("preset: main", "topology: {name: x}", "changes guests and segments only"),
        ("metric: rps", "metric: R P S", "t.yaml:15"),
        ("effect: 5%", "within: -5%", "t.yaml:15"),
        ("higher, effect: 5%", "lower, effect: 150%", "t.yaml:15: gate `g` wants a fall by 150%"),
        ("variant: b", "variant: a", "t.yaml:15: gate `g` compares a variant with itself"),
        ("preset: main", "topology: {guests: {cliemt: {}}}", "did you mean `client`?"),
        ("preset: main", "topology: {guests: {client: {vcpu: 2}}}", "t.yaml:11: with this patch"),
        ("preset: main", "agent: nowhere", "t.yaml:11: no agent in nowhere"),
    ],
)
def test_what_cannot_be_run_is_named_with_its_line(old: str, new: str, said: str) -> None:
    assert said in problems(old, new)


@pytest.mark.parametrize("path", sorted(Path("topologies").glob("*.yaml")), ids=str)
def test_the_projects_own_pass(path: Path) -> None:
    check(parse(path.read_text(), path), None)
