"""Building a Debian image: mmdebstrap to a directory, kernels out of it, an ext4 file from it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lab.deadline import Deadline
from lab.images.image import GuestImage
from lab.images.recipe import DebianRecipe
from lab.progress import Step

# Raised whenever the same recipe would build another image than before.
BUILDER_VERSION = 1


def debian_digest(recipe: DebianRecipe) -> str:
    """What an image is known by: everything that decides its content."""
    content = {"builder": BUILDER_VERSION, "recipe": recipe.model_dump(mode="json")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_debian(
    recipe: DebianRecipe, digest: str, folder: Path, deadline: Deadline, step: Step
) -> GuestImage:
    raise NotImplementedError
