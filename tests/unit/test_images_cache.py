"""The image cache: built once, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import InputError, LabError
from lab.images.cache import ensure, list_images, prune
from lab.images.image import GuestImage, Kernel
from lab.images.recipe import DebianRecipe, Qcow2Recipe
from lab.progress import Progress, Step

RECIPE = DebianRecipe(
    kind="debian",
    name="tiny",
    suite="bookworm",
    packages=(),
    kernels={"6.1": "linux-image-amd64"},
    default_kernel="6.1",
    size="64MiB",  # type: ignore[arg-type]
    modules=(),
)


def builds(cache: Path) -> int:
    log = cache.with_name("builds")
    return len(log.read_text().splitlines()) if log.exists() else 0


def fake_build(
    recipe: DebianRecipe, digest: str, folder: Path, deadline: Deadline, step: Step
) -> GuestImage:
    with folder.parent.with_name("builds").open("a") as log:
        log.write("one\n")
    for name in ("root.img", "vmlinux", "initramfs"):
        (folder / name).write_text(name)
        time.sleep(0.05)
    kernel = Kernel("6.1", "6.1.0", folder / "vmlinux", folder / "initramfs", ("quiet",))
    return GuestImage(
        recipe.name, digest, folder / "root.img", "raw", {"6.1": kernel}, "6.1", "direct", 64
    )


def stuck_build(
    recipe: DebianRecipe, digest: str, folder: Path, deadline: Deadline, step: Step
) -> GuestImage:
    (folder / "root.img").write_text("half")
    folder.parent.with_name("stuck").touch()
    time.sleep(60)
    raise AssertionError("not reached")


def get(cache: Path, build=fake_build, recipe=RECIPE, seconds: float = 10.0) -> GuestImage:  # type: ignore[no-untyped-def]
    progress = Progress(io.StringIO())
    return ensure(recipe, cache, deadline=Deadline(seconds), progress=progress, build=build)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "images"


def wait_for(path: Path) -> None:
    Deadline(10).poll(path.exists, str(path))


def killed_build(cache: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=get, args=(cache, stuck_build))
    process.start()
    wait_for(cache.with_name("stuck"))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    assert process.exitcode == -signal.SIGKILL


def test_a_second_call_finds_the_image(cache: Path) -> None:
    built = get(cache)
    assert get(cache) == built
    assert builds(cache) == 1
    assert built.root.read_text() == "root.img"
    assert built.kernels["6.1"].cmdline == ("quiet",)
    assert built.kernels["6.1"].vmlinux.read_text() == "vmlinux"
    assert list_images(cache) == [built]


def test_another_recipe_is_another_image(cache: Path) -> None:
    changed = RECIPE.model_copy(update={"packages": ("fio",)})
    assert get(cache).root != get(cache, recipe=changed).root
    assert builds(cache) == 2


def test_callers_at_once_build_once(cache: Path) -> None:
    found: list[GuestImage] = []
    threads = [threading.Thread(target=lambda: found.append(get(cache))) for _ in range(4)]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=get, args=(cache,)) for _ in range(3)]
    for each in [*processes, *threads]:
        each.start()
    for each in [*threads, *processes]:
        each.join(20)
    assert builds(cache) == 1
    assert len({image.root for image in found}) == 1 and len(found) == 4
    assert [process.exitcode for process in processes] == [0, 0, 0]


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    def failing(*_: object) -> GuestImage:
        (next(cache.glob("*.partial")) / "root.img").write_text("half")
        raise LabError("no space")

    with pytest.raises(LabError, match="no space"):
        get(cache, failing)
    assert list_images(cache) == []
    assert not list(cache.glob("*/"))


def test_a_killed_build_is_never_trusted_and_goes_away(cache: Path) -> None:
    killed_build(cache)
    assert list(cache.glob("*.partial"))
    assert list_images(cache) == []
    assert get(cache).root.read_text() == "root.img"
    assert not list(cache.glob("*.partial"))


def test_leftovers_of_another_recipe_go_with_the_next_build(cache: Path) -> None:
    killed_build(cache)
    get(cache, recipe=RECIPE.model_copy(update={"name": "other"}))
    assert [path.name.split("-")[0] for path in cache.glob("*/")] == ["other"]


def test_prune_spares_a_build_under_way(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=get, args=(cache, stuck_build))
    process.start()
    try:
        wait_for(cache.with_name("stuck"))
        prune(cache)
        assert [path.read_text() for path in cache.glob("*.partial/root.img")] == ["half"]
    finally:
        process.kill()
        process.join(10)
    prune(cache)
    assert not list(cache.glob("*.partial"))


def test_waiting_for_another_build_ends_with_the_deadline(cache: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=get, args=(cache, stuck_build))
    process.start()
    try:
        wait_for(cache.with_name("stuck"))
        with pytest.raises(DeadlineExceeded, match="another build of tiny-"):
            get(cache, seconds=0.3)
    finally:
        process.kill()
        process.join(10)


def test_prune_keeps_what_it_is_told_to(cache: Path) -> None:
    kept = get(cache)
    doomed = get(cache, recipe=RECIPE.model_copy(update={"packages": ("fio",)}))
    assert prune(cache, keep=frozenset({kept.digest})) == [doomed]
    assert list_images(cache) == [kept]
    assert not doomed.root.parent.exists()


def test_an_image_that_root_has_built_is_used_where_it_is(cache: Path, tmp_path: Path) -> None:
    roots = get(cache)
    before = sorted(cache.iterdir())
    own_cache = tmp_path / "home/images"
    progress = Progress(io.StringIO())
    found = ensure(RECIPE, own_cache, deadline=Deadline(5), progress=progress, shared=cache)
    assert found == roots
    assert sorted(cache.iterdir()) == before and not own_cache.exists()


def test_an_own_image_comes_before_roots(cache: Path, tmp_path: Path) -> None:
    get(cache)
    own_cache = tmp_path / "home/images"
    mine = get(own_cache)
    progress = Progress(io.StringIO())
    found = ensure(RECIPE, own_cache, deadline=Deadline(5), progress=progress, shared=cache)
    assert found == mine


def test_without_root_a_missing_image_says_what_builds_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root") as raised:
        ensure(
            RECIPE,
            cache,
            deadline=Deadline(5),
            progress=Progress(io.StringIO()),
            shared=tmp_path / "absent",
        )
    assert raised.value.hint and "sudo .venv/bin/lab image build tiny" in raised.value.hint


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "own.qcow2"
    path.write_bytes(b"QFI\xfb" + bytes(1000))
    return path


def own(disk: Path, sha256: str | None = None) -> Qcow2Recipe:
    digest = sha256 or hashlib.sha256(disk.read_bytes()).hexdigest()
    return Qcow2Recipe(kind="qcow2", name="own", path=disk, sha256=digest)


def test_a_ready_made_disk_is_used_where_it_is(cache: Path, disk: Path) -> None:
    image = get(cache, recipe=own(disk))
    assert (image.root, image.root_format, image.boot) == (disk, "qcow2", "disk")
    assert image.default_kernel is None and not image.kernels


def test_a_wrong_disk_is_refused(cache: Path, disk: Path) -> None:
    with pytest.raises(InputError, match="SHA-256"):
        get(cache, recipe=own(disk, "0" * 64))


def test_a_missing_disk_is_refused(cache: Path, disk: Path) -> None:
    recipe = own(disk)
    disk.unlink()
    with pytest.raises(InputError, match="no disk"):
        get(cache, recipe=recipe)


def test_an_unchanged_disk_is_hashed_once(
    cache: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = own(disk)
    get(cache, recipe=recipe)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", None)
        get(cache, recipe=recipe)
    disk.write_bytes(b"QFI\xfb" + bytes(1001))
    with pytest.raises(InputError, match="SHA-256"):
        get(cache, recipe=recipe)
