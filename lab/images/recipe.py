"""Recipes: how an image is made, one YAML file each."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from lab.errors import InputError
from lab.units import ByteSize

RECIPES_DIR = Path(__file__).resolve().parents[2] / "guests" / "images"


def _normal_path(path: str) -> str:
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError("is not an absolute, normal path")
    return path


GuestPath = Annotated[str, AfterValidator(_normal_path)]
Mode = Annotated[str, Field(pattern=r"^0[0-7]{3}$", description="permission bits, such as 0644")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecipeFile(Model):
    """A file of the image: `content` with `mode`, or a symbolic `link`."""

    content: str | None = None
    mode: Mode = "0644"
    link: str | None = None

    @model_validator(mode="after")
    def _content_or_link(self) -> RecipeFile:
        if (self.content is None) == (self.link is None):
            raise ValueError("needs either content or link")
        return self


class DebianRecipe(Model):
    """A Debian root file system built with mmdebstrap and booted directly by its kernels."""

    kind: Literal["debian"]
    name: str = Field(description="the name of the file, without .yaml", exclude=True)
    suite: str
    packages: tuple[str, ...]
    kernels: dict[str, str] = Field(min_length=1, description="name -> kernel package")
    default_kernel: str
    cmdline: tuple[str, ...] = ()
    size: ByteSize = Field(description="of the root file system, mostly holes")
    modules: tuple[str, ...] = Field(description="loaded by the initramfs, with what they need")
    exclude: tuple[str, ...] = Field(default=(), description="paths that dpkg does not unpack")
    files: dict[GuestPath, RecipeFile] = {}
    units: dict[str, str] = Field(default={}, description="systemd unit name -> its text")

    @model_validator(mode="after")
    def _default_kernel_exists(self) -> DebianRecipe:
        if self.default_kernel not in self.kernels:
            raise ValueError(f"default_kernel must be one of {', '.join(self.kernels)}")
        return self


class Qcow2Recipe(Model):
    """A ready-made disk with a boot loader and cloud-init. Only ever used as a backing file."""

    kind: Literal["qcow2"]
    name: str = Field(description="the name of the file, without .yaml", exclude=True)
    path: Path = Field(description="relative to the recipe's own directory, or absolute")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


Recipe = Annotated[DebianRecipe | Qcow2Recipe, Field(discriminator="kind")]
_RECIPE: TypeAdapter[DebianRecipe | Qcow2Recipe] = TypeAdapter(Recipe)


def load_recipe(name: str, *, near: Path | None = None) -> Recipe:
    """The recipe `name`: from `near`/images (a topology's directory), else the lab's own.

    Raises InputError: no such recipe (with those that exist), not YAML, or not a recipe.
    """
    known = recipe_paths(near)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"no image is called {name!r}", hint=f"{hint}images: {', '.join(sorted(known))}"
        )
    return parse_recipe(known[name])


def recipe_paths(near: Path | None = None) -> dict[str, Path]:
    """Every recipe by name; those beside a topology hide the lab's own."""
    folders = [RECIPES_DIR] + ([near / "images"] if near else [])
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def parse_recipe(path: Path) -> Recipe:
    """The recipe in the file `path`. Raises InputError naming the file and every problem."""
    try:
        fields = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"cannot be read as YAML: {error}", where=str(path)) from error
    if not isinstance(fields, dict):
        raise InputError("is not a recipe: needs keys and values", where=str(path))
    try:
        recipe = _RECIPE.validate_python({**fields, "name": path.stem})
    except ValidationError as error:
        # The first part of a place is the kind of recipe, which the file says anyway.
        problems = "\n".join(
            f"{'.'.join(map(str, each['loc'][1:])) or 'kind'}: {each['msg']}"
            for each in error.errors()
        )
        raise InputError("is not a valid recipe", where=str(path), detail=problems) from error
    if isinstance(recipe, Qcow2Recipe):
        return recipe.model_copy(update={"path": (path.parent / recipe.path).absolute()})
    return recipe
