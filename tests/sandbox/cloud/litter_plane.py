"""A plane that leaves a temporary folder as a job host does, and says where."""

from __future__ import annotations

from sandbox.cloud.context import CloudContext
from sandbox.sagemaker.host import short_folder


def install(context: CloudContext) -> None:
    folder = short_folder()
    (folder / "socket").touch()
    (context.state_dir / "litter").write_text(str(folder))
