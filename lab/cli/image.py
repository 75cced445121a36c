"""`lab image`: build, list and prune guest images."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lab.host.state import images_dir, shared_images_dir

if TYPE_CHECKING:
    from lab.images.image import GuestImage

BUILD_TIMEOUT_S = 3600.0

app = typer.Typer(no_args_is_help=True)


@app.command()
def build(name: Annotated[str, typer.Argument(help="a recipe's name")] = "debian-12") -> None:
    """Build an image, unless it is there already, and print where it is."""
    from lab.deadline import Deadline
    from lab.images.cache import ensure
    from lab.images.recipe import load_recipe
    from lab.progress import Progress

    image = ensure(
        load_recipe(name),
        images_dir(),
        deadline=Deadline(BUILD_TIMEOUT_S),
        progress=Progress(),
        shared=shared_images_dir(),
    )
    typer.echo(image.root)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """List finished images and the recipes that have none yet."""
    from lab.images.cache import list_images
    from lab.images.recipe import recipe_paths

    images = list_images(images_dir())
    current = _current_digests()
    if as_json:
        typer.echo(json.dumps([_fields(image, current) for image in images], indent=2))
        return
    for image in images:
        age = "" if image.digest in current else "  superseded"
        kernels = ", ".join(image.kernels)
        mib = _disk_bytes(image) >> 20
        typer.echo(f"{image.name}  {image.digest[:12]}  {mib} MiB  kernels {kernels}{age}")
    for name in sorted(recipe_paths().keys() - {image.name for image in images}):
        typer.echo(f"{name}  not built yet: lab image build {name}")


@app.command("prune")
def prune_(
    everything: Annotated[
        bool, typer.Option("--all", help="also images that a recipe still asks for")
    ] = False,
) -> None:
    """Delete superseded images that no guest runs from, and leftovers of killed builds."""
    from lab.images.cache import list_images, prune

    cache_dir = images_dir()
    keep = _digests_in_use(list_images(cache_dir))
    if not everything:
        keep |= _current_digests()
    for image in prune(cache_dir, keep=keep):
        typer.echo(f"deleted {image.name} {image.digest[:12]}")


def _current_digests() -> frozenset[str]:
    from lab.images.build import debian_digest
    from lab.images.recipe import DebianRecipe, parse_recipe, recipe_paths

    recipes = [parse_recipe(path) for path in recipe_paths().values()]
    return frozenset(debian_digest(each) for each in recipes if isinstance(each, DebianRecipe))


def _digests_in_use(images: list[GuestImage]) -> frozenset[str]:
    """Images that a process on this host has open: QEMU keeps its backing files open."""
    import psutil

    opened: set[str] = set()
    for process in psutil.process_iter():
        try:
            opened.update(file.path for file in process.open_files())
        except psutil.Error:
            continue
    return frozenset(image.digest for image in images if str(image.root) in opened)


def _fields(image: GuestImage, current: frozenset[str]) -> dict[str, object]:
    return {
        "name": image.name,
        "digest": image.digest,
        "current": image.digest in current,
        "root": str(image.root),
        "kernels": {name: kernel.release for name, kernel in image.kernels.items()},
        "default_kernel": image.default_kernel,
        "size_bytes": image.size_bytes,
        "disk_bytes": _disk_bytes(image),
    }


def _disk_bytes(image: GuestImage) -> int:
    return sum(path.stat().st_blocks * 512 for path in image.root.parent.iterdir())
