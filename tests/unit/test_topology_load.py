"""Topology files: right values, right lines, and plain sentences for what is wrong."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import dedent

import pytest

from lab.errors import Exit, InputError
from lab.topology.load import LoadedTopology, load, parse
from lab.topology.model import Aio
from lab.topology.problem import TopologyError

PATH = Path("t.yaml")
TOPOLOGIES = Path(__file__).parents[2] / "topologies"


def parsed(text: str) -> LoadedTopology:
    return parse(dedent(text), PATH)


def problems(text: str) -> list[str]:
    with pytest.raises(TopologyError) as caught:
        parsed(text)
    assert caught.value.exit_code is Exit.BAD_INPUT
    return [str(problem) for problem in caught.value.problems]


def guest_problems(body: str) -> list[str]:
    """Problems of a guest with this body, which begins on line 4."""
    return problems("name: t\nguests:\n  a:\n" + "\n".join(f"    {x}" for x in body.splitlines()))


def test_the_shipped_topologies_load() -> None:
    for path in TOPOLOGIES.glob("*.yaml"):
        assert load(path).topology.name == path.stem


def test_values_know_their_line() -> None:
    loaded = parsed("""\
        name: t
        guests:
          a:
            disks:
              data0:
                size: 1GiB

                aio: native
            vcpus: 2
    """)
    at = ("guests", "a", "disks", "data0")
    assert loaded.where((*at, "aio")) == "t.yaml:8"
    assert loaded.where(at) == "t.yaml:5"
    assert loaded.where((*at, "cache")) == "t.yaml:5", "a default is where its owner is"
    assert loaded.where(("guests", "a", "vcpus")) == "t.yaml:9"
    assert loaded.where(()) == "t.yaml:1"


def test_aliases_and_merge_keys() -> None:
    loaded = parsed("""\
        name: t
        guests:
          a: &base
            vcpus: 2
            memory: 1GiB
            disks: {data0: {size: 1GiB}}
          b: *base
          c:
            <<: *base
            vcpus: 4
          d:
            <<: [{vcpus: 8}, *base]
    """)
    guests = loaded.topology.guests
    assert guests["a"] == guests["b"]
    assert (guests["c"].vcpus, guests["c"].memory) == (4, 2**30)
    assert (guests["d"].vcpus, guests["d"].memory) == (8, 2**30)
    assert loaded.where(("guests", "b", "vcpus")) == "t.yaml:4", "where it is written"
    assert loaded.where(("guests", "c", "vcpus")) == "t.yaml:10"
    assert loaded.where(("guests", "c", "memory")) == "t.yaml:5"


def test_merged_disks_keep_the_order_of_the_file() -> None:
    loaded = parsed("""\
        name: t
        guests:
          a:
            disks: &disks {z: {size: 1GiB}, y: {size: 1GiB}}
          b:
            disks: {<<: *disks, a: {size: 1GiB}, z: {size: 2GiB}}
    """)
    assert list(loaded.topology.guests["b"].disks) == ["z", "y", "a"]
    assert loaded.topology.guests["b"].disks["z"].size == 2 * 2**30


@pytest.mark.parametrize("name", ["on", "off", "yes", "no", "true", "y"])
def test_names_that_yaml_takes_for_something_else(name: str) -> None:
    loaded = parsed(f"name: {name}\nguests: {{{name}: {{nics: {{{name}: {{segment: {name}}}}}}}}}")
    assert loaded.topology.name == name
    assert list(loaded.topology.guests) == [name]


def test_null_is_a_name_as_a_key_only() -> None:
    assert list(parsed("name: t\nguests: {null: {}}").topology.guests) == ["null"]
    assert problems("name: null\nguests: {a: {}}") == ["t.yaml:1: `name` needs a word, not nothing"]


@pytest.mark.parametrize("mac", ["52:54:00:12:34:56", "12:34:56:10:20:30", "'52:54:00:12:34:56'"])
def test_macs_need_no_quotes(mac: str) -> None:
    loaded = parsed(f"name: t\nguests: {{a: {{nics: {{n: {{segment: s, mac: {mac}}}}}}}}}")
    assert loaded.topology.guests["a"].nics["n"].mac == mac.strip("'")


@pytest.mark.parametrize("kernel", ["6.1", "6.10", "'6.12'"])
def test_kernel_versions_need_no_quotes(kernel: str) -> None:
    loaded = parsed(f"name: t\nguests: {{a: {{kernel: {kernel}}}}}")
    assert loaded.topology.guests["a"].kernel == kernel.strip("'")


@pytest.mark.parametrize(
    ("word", "value"), [("on", True), ("off", False), ("yes", True), ("no", False), ("true", True)]
)
def test_switches_in_every_yaml_spelling(word: str, value: bool) -> None:
    loaded = parsed(f"name: t\nguests: {{a: {{nics: {{n: {{segment: s, tso: {word}}}}}}}}}")
    assert loaded.topology.guests["a"].nics["n"].tso is value


def test_numbers_are_decimal() -> None:
    assert parsed("name: t\nguests: {a: {vcpus: 010}}").topology.guests["a"].vcpus == 10
    assert guest_problems("vcpus: 0x10") == ["t.yaml:4: `vcpus` needs a whole number, not `0x10`"]
    assert guest_problems("vcpus: 1:30") == ["t.yaml:4: `vcpus` needs a whole number, not `1:30`"]


def test_every_problem_is_listed_with_its_line_and_a_suggestion() -> None:
    assert guest_problems(
        """\
vcpu: 2
memory: 512MB
scsi: {hardware: virtio-scsi-singel, aio: native}
disks:
  data0: {format: raw, iothread: maybe, queues: 999}
  Data_1: {size: 1GiB}
nics:
  lan0: {segment: lan, mac: 52-54-00-AA-BB-CC}
rdma:
  rxe0: {nic: lan0, mtu: 1000}"""
    ) == [
        "t.yaml:4: unknown key `vcpu` in `a` (did you mean `vcpus`?)",
        "t.yaml:5: `memory`: `MB` is not a unit here: B, KiB, MiB, GiB, TiB are"
        " (did you mean 512MiB?)",
        "t.yaml:6: `hardware` cannot be `virtio-scsi-singel` (did you mean `virtio-scsi-single`?)",
        "t.yaml:6: unknown key `aio` in `scsi` (known: hardware, queues, event_idx)",
        "t.yaml:8: `data0` needs `size`",
        "t.yaml:8: `iothread` is true or false, not `maybe`",
        "t.yaml:8: `queues` must be at most 64, not `999`",
        "t.yaml:9: a name cannot be `Data_1`: it is a lower case letter, then lower case letters,"
        " digits and `-`, at most 20 in all (did you mean `data-1`?)",
        "t.yaml:11: `mac` cannot be `52-54-00-AA-BB-CC`: it is six lower case hexadecimal pairs"
        " with colons, such as 52:54:00:12:34:56 (did you mean `52:54:00:aa:bb:cc`?)",
        "t.yaml:13: `mtu` cannot be `1000` (known: 256, 512, 1024, 2048, 4096)",
    ]


def test_the_error_reads_one_line_a_problem() -> None:
    with pytest.raises(TopologyError) as caught:
        parsed("nam: t\nguests: {a: {vcpus: 0}}")
    assert str(caught.value).splitlines() == [
        "3 problems",
        "t.yaml:1: the topology needs `name`",
        "t.yaml:1: unknown key `nam` (did you mean `name`?)",
        "t.yaml:2: `vcpus` must be at least 1, not `0`",
    ]


def test_a_fault_behind_an_alias_is_told_once() -> None:
    text = "name: t\nguests:\n  a: &a\n    vcpus: none\n  b: *a\n"
    assert problems(text) == ["t.yaml:4: `vcpus` needs a whole number, not `none`"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "disks:",
            "`disks` needs a mapping (key: value), not nothing (write `{}` for all defaults)",
        ),
        ("disks: [1]", "`disks` needs a mapping (key: value), not a list"),
        ("nics: {n: lan}", "`n` needs a mapping (key: value), not `lan`"),
        ("image: {}", "`image` needs a word, not a mapping"),
        ("vcpus: true", "`vcpus` needs a whole number, not `true`"),
        ("vcpus: [2]", "`vcpus` needs a whole number, not a list"),
        ("hyperv: 7", "`hyperv` is true or false, not `7`"),
        ("root: {aio: {}}", "`aio` cannot be a mapping (known: threads, native, io_uring)"),
        ("memory: ~", "`memory`: needs a number with a unit (B, KiB, MiB, GiB, TiB), such as 1GiB"),
    ],
)
def test_wrong_types(body: str, problem: str) -> None:
    assert guest_problems(body) == [f"t.yaml:4: {problem}"]


def test_images_cannot_leave_their_directory() -> None:
    assert "cannot be `../../etc/x`" in guest_problems("image: ../../etc/x")[0]


def test_huge_numbers_are_refused() -> None:
    (problem,) = guest_problems(f"vcpus: {'9' * 5000}")
    assert "needs a whole number" in problem
    assert len(problem) < 200


def test_more_guests_than_a_lab_has_addresses_for() -> None:
    guests = ", ".join(f"g{i}: {{}}" for i in range(33))
    assert problems(f"name: t\nguests: {{{guests}}}") == [
        "t.yaml:2: `guests` has more than 32 entries"
    ]
    assert problems("name: t\nguests: {}") == ["t.yaml:2: `guests` needs at least 1 entry"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: the topology is empty (begin with `name:` and `guests:`)"),
        ("# nothing\n", "1: the topology is empty (begin with `name:` and `guests:`)"),
        ("- a\n", "1: the topology is no mapping (key: value) (begin with `name:` and `guests:`)"),
        ("word", "1: the topology is no mapping (key: value) (begin with `name:` and `guests:`)"),
        ("name: t\nname: u\n", "2: duplicate key `name`, first on line 1"),
        ("name: t\n'name': u\n", "2: duplicate key `name`, first on line 1"),
        ("a: {<<: {}, <<: {}}", "1: duplicate key `<<`, first on line 1"),
        ("name: t\nguests: &a\n  b: *a\n", "2: an alias refers to the very thing it is in"),
        ("name: t\nguests: &a\n  <<: *a\n", "2: an alias refers to the very thing it is in"),
        ("name: t\nguests: {<<: [1]}", "2: `<<` merges a mapping or a list of mappings"),
        ("name: t\n? [a, b]\n: c\n", "2: a key has to be a plain word"),
        ("name: t\nx: !!int 3\n", "2: the tag `!!int` means nothing here (leave it out)"),
        ("a: !!python/object:os.system {}", "1: the tag `!!python/object:os.system` means nothing"),
        ("a: 1\nb: \x07\n", "2: the character U+0007 cannot stand in YAML"),
        ('a: 1\nb: "\\ud800"\n', "2: half a surrogate pair in `'\\ud800'`"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', "2: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "2: not valid YAML: but found another document, expected a single"),
        ("a: 1\n\tb: 2\n", "2: not valid YAML: "),
        ("a: b: c\n", "1: not valid YAML: mapping values are not allowed here (quote a value"),
        ("a: {b: c\n", "2: not valid YAML: "),
        ("a: *b\n", "1: not valid YAML: found undefined alias 'b' (an anchor (&name) has to come"),
        ("[" * 500, "1: not valid YAML: nested more than 32 levels deep"),
    ],
)
def test_what_yaml_refuses(text: str, problem: str) -> None:
    assert problems(text)[0].startswith(f"t.yaml:{problem}")


def test_aliases_cannot_expand_without_bound() -> None:
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    start_s = time.monotonic()
    (problem,) = problems("\n".join(laughs))
    assert "aliases expand the file to more than 100000 values" in problem
    assert time.monotonic() - start_s < 10


def test_merge_keys_cannot_expand_without_bound() -> None:
    laughs = ["a0: &a0 {x: 1}"]
    laughs += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    (problem,) = problems("\n".join(laughs))
    assert "more than 100000 values" in problem


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"name: t\nguests: \xff\n")
    with pytest.raises(TopologyError, match=r"t\.yaml:2: not UTF-8 text: byte 0xff"):
        load(path)
    path.write_bytes("name: t".encode("utf-16"))
    with pytest.raises(TopologyError, match=r"t\.yaml:1: not UTF-8 text"):
        load(path)


def test_a_byte_order_mark_is_no_character(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: t\nguests: {a: {}}\n")
    assert load(path).topology.name == "t"


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"#" * (1024**2 + 1))
    with pytest.raises(TopologyError, match=r"t\.yaml:1: a topology is at most 1 MiB"):
        load(path)


def test_a_missing_file_suggests_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("")
    with pytest.raises(InputError, match=r"did you mean .*/default\.yaml\?"):
        load(tmp_path / "defualt.yaml")
    with pytest.raises(InputError, match=r"has default\.yaml"):
        load(tmp_path / "zzz")
    with pytest.raises(InputError, match="no such topology"):
        load(tmp_path / "no" / "where.yaml")


def test_a_directory_is_no_topology(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the topology: Is a directory"):
        load(tmp_path)
    with pytest.raises(InputError, match="cannot read the topology"):
        load(Path("a\0b"))


def test_a_dumped_topology_loads_again() -> None:
    topology = load(TOPOLOGIES / "vioscsi-matrix.yaml").topology
    assert type(topology).model_validate_json(topology.model_dump_json()) == topology
    assert topology.guests["scsi"].disks["uring"].aio is Aio.IO_URING
