"""Holdfast's part inside the training container. In a training script:

    import holdfast_agent

    beat = holdfast_agent.heartbeat()
    checkpoints = holdfast_agent.Checkpoints.from_env()
    beat.step(step, loss=loss, tokens=tokens)

Names are looked up on first use, so that importing the package costs next to nothing and the control plane, which
imports `holdfast_agent.contract` alone, loads nothing that writes files or touches signals.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast_agent.beat import Beat, heartbeat
    from holdfast_agent.checkpoints import Checkpoints, Restored
    from holdfast_agent.lease import FencedError
    from holdfast_agent.stopping import stop_requested

__all__ = ["Beat", "Checkpoints", "FencedError", "Restored", "heartbeat", "stop_requested"]

_HOMES = {
    "Beat": "beat",
    "heartbeat": "beat",
    "Checkpoints": "checkpoints",
    "Restored": "checkpoints",
    "FencedError": "lease",
    "stop_requested": "stopping",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast_agent' has no attribute {name!r}")
    return getattr(importlib.import_module(f"holdfast_agent.{_HOMES[name]}"), name)
