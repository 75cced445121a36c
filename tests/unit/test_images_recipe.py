"""Recipes: what is found, and what a bad one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import InputError, LabError
from lab.images.build import add_files, debian_digest
from lab.images.recipe import DebianRecipe, Qcow2Recipe, load_recipe

OWN = "kind: qcow2\npath: disks/own.qcow2\nsha256: '" + "0" * 64 + "'\n"


@pytest.fixture
def near(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return tmp_path


def test_the_lab_has_two_kernels_for_debian() -> None:
    recipe = load_recipe("debian-12")
    assert isinstance(recipe, DebianRecipe)
    assert set(recipe.kernels) == {"6.1", "6.12"}


def test_no_mirror_is_named() -> None:
    recipe = load_recipe("debian-12")
    assert "://" not in recipe.model_dump_json()


def test_an_unknown_image_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        load_recipe("debian12")
    assert "did you mean debian-12?" in (caught.value.hint or "")


def test_a_recipe_beside_the_topology_comes_first(near: Path) -> None:
    (near / "images/debian-12.yaml").write_text(OWN)
    recipe = load_recipe("debian-12", near=near)
    assert isinstance(recipe, Qcow2Recipe)
    assert recipe.path == near / "images/disks/own.qcow2"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: qcow2\npath: a\n", "sha256"),
        (OWN + "colour: red\n", "colour"),
        ("kind: ubuntu\n", "kind"),
        ("- a\n", "keys and values"),
        ("a: [\n", "YAML"),
        ("kind: debian\nsize: 4\n", "unit"),
        ("kind: debian\nsize: 4GiB\nfiles: {/etc/../x: {content: a}}\n", "files"),
        ("kind: debian\nsize: 4GiB\nfiles: {/etc/x: {content: a, link: b}}\n", "either"),
    ],
)
def test_every_problem_names_the_file(near: Path, text: str, problem: str) -> None:
    (near / "images/bad.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_recipe("bad", near=near)
    assert str(near / "images/bad.yaml") in str(caught.value)
    assert problem in str(caught.value)


def test_the_digest_follows_the_content() -> None:
    recipe = load_recipe("debian-12")
    assert isinstance(recipe, DebianRecipe)
    renamed = recipe.model_copy(update={"name": "other"})
    changed = recipe.model_copy(update={"units": {**recipe.units, "lab.target": "[Unit]\n"}})
    assert debian_digest(renamed) == debian_digest(recipe) != debian_digest(changed)


def test_files_and_units_replace_those_of_packages(tmp_path: Path) -> None:
    recipe = load_recipe("debian-12")
    assert isinstance(recipe, DebianRecipe)
    fstab = tmp_path / "etc/fstab"
    fstab.parent.mkdir()
    fstab.symlink_to("/elsewhere")
    add_files(recipe, tmp_path)
    assert fstab.read_text() == "" and not fstab.is_symlink()
    assert (tmp_path / "usr/local/sbin/lab-setup").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "etc/systemd/system/default.target").readlink() == Path("lab.target")
    assert "sshd -i" in (tmp_path / "etc/systemd/system/lab-ssh@.service").read_text()


def test_a_link_inside_the_image_never_leads_to_the_host(tmp_path: Path) -> None:
    recipe = load_recipe("debian-12")
    assert isinstance(recipe, DebianRecipe)
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "etc").symlink_to(outside)
    with pytest.raises(LabError, match="symbolic link"):
        add_files(recipe, root)
    assert not list(outside.iterdir())
