"""`lab import` and `lab compare`: verdicts, exit codes, and what must not be compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.cli import app
from lab.errors import Exit, InputError, NothingMeasured
from lab.guest.agent_client import Metric
from lab.results import comparison
from lab.results.comparison import Outcome
from lab.results.importers.formats import read_file
from lab.results.measured import of_files, of_trials
from lab.results.run_directory import Manifest, RunDirectory
from lab.results.series import Series
from lab.results.trial import Trial

TABLE = Path(__file__).parents[1] / "data" / "reference" / "msquic-rps.csv"
FINGERPRINT = {"cpu": "A", "kernel": "6.1", "topology": "t1", "agent": "a1"}


def series(*values: float, better: str = "higher", metric: str = "rate") -> Series:
    ids = tuple(map(str, range(len(values))))
    return Series(metric, "1/s", better, tuple((v,) for v in values), ids)  # type: ignore[arg-type]


def judge(base: Series, new: Series, **options: bool) -> comparison.Comparison:
    (found,) = comparison.compare([base], [new], **options)  # type: ignore[arg-type]
    return found


def command(*words: object) -> tuple[int, str]:
    """Exit code and output; InputError and the like as they are raised."""
    result = CliRunner().invoke(app, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return int(result.return_value), result.output


LOW, HIGH = (100, 101, 102, 103, 104), (110, 111, 112, 113, 114)


@pytest.mark.parametrize(
    ("base", "new", "better", "outcome"),
    [
        (LOW, HIGH, "higher", Outcome.IMPROVED),
        (LOW, HIGH, "lower", Outcome.REGRESSED),
        (HIGH, LOW, "higher", Outcome.REGRESSED),
        (HIGH, LOW, "lower", Outcome.IMPROVED),
        (LOW, LOW, "higher", Outcome.INCONCLUSIVE),
    ],
)
def test_the_direction_of_a_metric_decides_what_a_change_means(
    base: tuple[float, ...], new: tuple[float, ...], better: str, outcome: Outcome
) -> None:
    assert judge(series(*base, better=better), series(*new, better=better)).outcome is outcome


def test_separated_sides_differ_whatever_an_outlier_does_to_the_interval() -> None:
    found = judge(series(*LOW), series(110, 111, 112, 113, 9000))
    assert found.change and found.change.interval[0] < 0
    assert found.outcome is Outcome.IMPROVED


def test_four_separated_runs_a_side_are_too_few_for_the_order_alone() -> None:
    found = judge(series(*LOW[:4]), series(110, 111, 112, 9000))
    assert found.is_separated and found.p_separated == pytest.approx(2 / 70)
    assert found.outcome is Outcome.INCONCLUSIVE


def test_sides_that_overlap_differ_if_the_interval_says_so() -> None:
    base = tuple(100 + (each % 10) for each in range(40))
    found = judge(series(*base), series(*(each + 5 for each in base)))
    assert not found.is_separated
    assert found.outcome is Outcome.IMPROVED


def test_pairs_show_what_runs_apart_do_not() -> None:
    base, new = (100, 150, 200, 250, 300), (110, 166, 219, 276, 331)
    assert judge(series(*base), series(*new)).outcome is Outcome.INCONCLUSIVE
    assert judge(series(*base), series(*new), is_paired=True).outcome is Outcome.IMPROVED


def test_pairs_go_by_name_not_by_order() -> None:
    base, new = series(100, 150, 200, 250, 300), series(331, 276, 219, 166, 110)
    turned = replace(new, ids=tuple(reversed(new.ids)))
    assert judge(base, turned, is_paired=True).outcome is Outcome.IMPROVED
    with pytest.raises(InputError, match="no run of the first has its pair"):
        judge(base, replace(new, ids=("a", "b", "c", "d", "e")), is_paired=True)
    with pytest.raises(InputError, match="runs of one name"):
        judge(base, replace(new, ids=("0",) * 5), is_paired=True)


def test_one_run_a_side_tells_nothing() -> None:
    found = judge(series(100), series(900))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.change is None and "two or more" in found.why


def test_nothing_has_no_ratio() -> None:
    found = judge(series(0, 0, 0), series(1, 2, 3))
    assert found.outcome is Outcome.INCONCLUSIVE and "no relative change" in found.why


def test_equal_sides_are_found_different_about_as_often_as_alpha_says() -> None:
    random = np.random.default_rng(7)
    false = 0
    for _ in range(1000):
        base, new = random.normal(100, 5, (2, 5))
        false += judge(series(*base), series(*new)).outcome is not Outcome.INCONCLUSIVE
    assert false <= 22


def test_exit_codes_say_the_worst() -> None:
    better, worse, same = (
        judge(series(*LOW), series(*HIGH)),
        judge(series(*HIGH), series(*LOW)),
        judge(series(*LOW), series(*LOW)),
    )
    assert comparison.exit_code([better, worse, same]) is Exit.FAILED
    assert comparison.exit_code([better, same]) is Exit.OK
    assert comparison.exit_code([same]) is Exit.INCONCLUSIVE


def test_sides_are_matched_by_labels_and_metric() -> None:
    base = [replace(series(*LOW), labels=(name,)) for name in ("a", "b")]
    new = [replace(series(*HIGH), labels=(name,)) for name in ("b", "c")]
    (found,) = comparison.compare(base, new)
    assert found.variant == "b"
    with pytest.raises(InputError, match=r"nothing in common: the first has a rate, .* c rate"):
        comparison.compare(base, [new[1], replace(new[1], labels=("d",))])


def test_sides_of_one_label_each_are_compared() -> None:
    base, new = replace(series(*LOW), labels=("old",)), replace(series(*HIGH), labels=("new",))
    found = judge(base, new)
    assert (found.outcome, found.variant) == (Outcome.IMPROVED, "old -> new")


def test_one_label_is_not_compared_with_each_of_several() -> None:
    several = [replace(series(*HIGH), labels=(name,)) for name in ("b", "c")]
    with pytest.raises(InputError, match="nothing in common"):
        comparison.compare([replace(series(*LOW), labels=("a",))], several)


def test_what_only_one_side_has_is_told() -> None:
    base = [series(*LOW), series(*LOW, metric="gone")]
    new = [series(*HIGH), series(*HIGH, metric="added")]
    assert comparison.unmatched(base, new) == [
        "only the first has gone",
        "only the second has added",
    ]
    assert comparison.unmatched(base, base) == []


def test_a_part_of_a_file_is_chosen_by_its_label() -> None:
    assert {each.labels for each in of_files(f"{TABLE}:variant=main")} == {
        ("connections=1",),
        ("connections=40",),
    }
    with pytest.raises(InputError, match="nothing is labelled `old`; labels are connections=1"):
        of_files(f"{TABLE}:old")


def test_the_command_compares_and_fails_for_a_regression() -> None:
    code, output = command("compare", f"{TABLE}:main", f"{TABLE}:latest")
    assert code == Exit.FAILED
    assert "regressed" in output and "improved" in output and "inconclusive" in output


def test_the_command_compares_one_metric_as_json() -> None:
    code, output = command(
        "compare", f"{TABLE}:main", f"{TABLE}:latest", "--metric", "rps", "--json"
    )
    one, forty = json.loads(output)["metrics"]
    assert code == Exit.OK
    assert (one["labels"], one["outcome"]) == ("connections=1", "inconclusive")
    assert forty["outcome"] == "improved"
    assert forty["low"] < 0.499 < forty["high"]
    assert forty["detectable"] > 0 and forty["separated"]


def test_json_has_no_infinities(tmp_path: Path) -> None:
    (tmp_path / "base.csv").write_text("rps,us\n1e-300,1\n1e300,1\n")
    (tmp_path / "new.csv").write_text("rps,us\n1e300,1\n1e-300,1\n")
    code, output = command("compare", tmp_path / "base.csv", tmp_path / "new.csv", "--json")
    assert code == Exit.INCONCLUSIVE
    assert "Infinity" not in output and json.loads(output)["metrics"][0]["high"] is None


def test_the_command_tells_what_it_could_not_compare(tmp_path: Path) -> None:
    (tmp_path / "base.csv").write_text("rps,us\n1,1\n2,1\n")
    (tmp_path / "new.csv").write_text("rps,note\n1,\n2,\n")
    _, output = command("compare", tmp_path / "base.csv", tmp_path / "new.csv")
    assert "note: only the first has us" in output


def test_the_command_says_if_nothing_can_be_told() -> None:
    assert command("compare", f"{TABLE}:main", f"{TABLE}:main")[0] == Exit.INCONCLUSIVE


@pytest.mark.parametrize(
    "options", [("--alpha", "0"), ("--alpha", "0.5"), ("--metric", "mips")], ids=" ".join
)
def test_the_command_refuses_options_without_meaning(options: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=options[1]):
        command("compare", f"{TABLE}:main", f"{TABLE}:latest", *options)


def test_what_is_imported_as_json_is_what_was_imported(tmp_path: Path) -> None:
    samples = Path(__file__).parents[1] / "data" / "imports"
    for sample in (TABLE, *sorted(samples.iterdir())):
        code, output = command("import", sample, "--json")
        (tmp_path / "read.json").write_text(output)
        assert code == Exit.OK
        assert read_file(tmp_path / "read.json") == read_file(sample)


def test_imports_are_shown_as_a_table() -> None:
    code, output = command("import", TABLE)
    assert code == Exit.OK
    assert "connections=40 variant=latest" in output and "134,617" in output


def test_a_file_without_a_figure_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("variant,rps\nmain,\n")
    with pytest.raises(NothingMeasured, match=r"empty\.csv: no figure"):
        command("import", tmp_path / "empty.csv")
    with pytest.raises(NothingMeasured):
        command("compare", TABLE, tmp_path / "empty.csv")


def trial(boot: int, value: float, **more: object) -> Trial:
    metric = Metric("rate", "1/s", "higher", value)
    return Trial(
        experiment="udp",
        variant="latest",
        boot=boot,
        planned_boot=boot,
        number=0,
        started="",
        elapsed_s=1,
        metrics=(metric,),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, values: tuple[float, ...], profile: str = "full", **changed: str) -> Path:
        manifest = Manifest(
            id=name,
            topology="t",
            source="t.yaml",
            profile=profile,  # type: ignore[arg-type]
            seed=1,
            created="",
            command="",
            accelerator="tcg",
            fingerprint={**FINGERPRINT, **changed},
        )
        run = RunDirectory.create(tmp_path / name, manifest, "name: t\n")
        for boot, value in enumerate(values):
            run.append_trial(trial(boot, value))
            run.append_trial(trial(boot, value * 1.001))
        return run.path

    return make


def test_the_boot_is_the_unit_of_a_run() -> None:
    broken = trial(1, 5, error="lost")
    (found,) = of_trials([trial(0, 1), trial(0, 2), trial(1, 3), broken])
    assert found.boots == ((1, 2), (3,))
    assert (found.ids, found.labels) == (("0", "1"), ("udp", "latest"))


def test_runs_of_the_same_conditions_are_compared(make_run: Callable[..., Path]) -> None:
    code, output = command("compare", make_run("a", HIGH), make_run("b", LOW, agent="a2"))
    assert code == Exit.FAILED
    assert "udp latest" in output and "regressed" in output
    assert "the agent is another" in output and "the topology" not in output


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"kernel": "6.12"}, "kernel: 6.1, then 6.12"), ({"profile": "quick"}, "profile: full, then")],
)
def test_runs_of_other_conditions_are_refused(
    make_run: Callable[..., Path], changed: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        command("compare", make_run("a", LOW), make_run("b", HIGH, **changed))


def test_a_run_is_neither_paired_nor_compared_with_an_import(
    make_run: Callable[..., Path],
) -> None:
    first, second = make_run("a", LOW), make_run("b", HIGH)
    with pytest.raises(InputError, match="different boots"):
        command("compare", first, second, "--paired")
    with pytest.raises(InputError, match="a run and imported results"):
        command("compare", first, TABLE)
