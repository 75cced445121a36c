"""Which recipe and which of its kernels each guest of a topology means."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import InputError
from lab.images.recipe import DebianRecipe, Recipe, load_recipe
from lab.topology.load import LoadedTopology


@dataclass(frozen=True)
class GuestBoot:
    """A guest's recipe, and the kernel it boots directly; None where its disk boots itself."""

    recipe: Recipe
    kernel: str | None


def look_up(loaded: LoadedTopology) -> dict[str, GuestBoot]:
    """Guest -> what it boots; recipes beside the topology come before the lab's own.

    Raises InputError, at the guest's own line, for an image or a kernel that there is not.
    """
    return {name: _guest_boot(loaded, name) for name in loaded.topology.guests}


def _guest_boot(loaded: LoadedTopology, name: str) -> GuestBoot:
    guest = loaded.topology.guests[name]
    try:
        recipe = load_recipe(guest.image, near=loaded.path.parent)
    except InputError as error:
        error.where = error.where or loaded.where(("guests", name, "image"))
        raise
    kernels = recipe.kernels if isinstance(recipe, DebianRecipe) else {}
    if guest.kernel and guest.kernel not in kernels:
        raise InputError(
            f"image {guest.image} has no kernel {guest.kernel}",
            where=loaded.where(("guests", name, "kernel")),
            hint=f"its kernels: {', '.join(kernels) or 'only the one on its own disk'}",
        )
    default = recipe.default_kernel if isinstance(recipe, DebianRecipe) else None
    return GuestBoot(recipe, guest.kernel or default)
