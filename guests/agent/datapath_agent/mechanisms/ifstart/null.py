"""What the mechanism's own code costs: a frame through queue, locks and policy, to no device."""

from __future__ import annotations

import time

from datapath_agent.mechanisms.ifstart.device import Nothing
from datapath_agent.mechanisms.ifstart.driver import Driver
from datapath_agent.mechanisms.ifstart.memory import PENDING_START, Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WHAT = "a frame through if_snd, the policy's locks and tasks, in one process without a device"


def null_cost(policy: dict[str, Any], parameters: dict[str, Any]) -> tuple[int, float]:
    """(frames, seconds) of a null run."""
    memory = Memory(bulk_senders=1, window_frames=1, bins=1, bin_s=1.0)
    try:
        driver = Driver(memory, Nothing(), policy, "direct")
        length = parameters["bulk_bytes"]
        begun_s = time.monotonic()
        end_s = begun_s + parameters["null_s"]
        number = 0
        while time.monotonic() < end_s:
            driver.hand_off(0, length, number)
            number += 1
            if memory.words[PENDING_START]:
                memory.taskq_wake.take()
                driver.run_task()
            memory.windows[0].take()
        return number, time.monotonic() - begun_s
    finally:
        memory.close()
