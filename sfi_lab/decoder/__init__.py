"""The Slow-Fast decoder: one sequence's state, the loop over fast and slow steps, and conversations."""

from sfi_lab.decoder.result import Result, Step
from sfi_lab.decoder.session import Session

__all__ = ["Result", "Session", "Step"]
