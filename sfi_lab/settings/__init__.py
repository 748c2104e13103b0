"""Every knob of Slow-Fast Inference as one frozen, validated dataclass, with the presets of the paper and its release."""

from sfi_lab.settings.fields import FIELDS, Field
from sfi_lab.settings.settings import Settings

__all__ = ["FIELDS", "Field", "Settings"]
