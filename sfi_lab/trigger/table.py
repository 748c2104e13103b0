"""The policies by setting value, made from `TRIGGERS` in `sfi_lab/settings/fields.py`: a new policy is one line there."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from sfi_lab.settings.fields import TRIGGERS
from sfi_lab.trigger.policy import Policy


def _policy(place: str) -> type[Policy]:
    """The class of "module.Class", a module of this folder."""
    module, name = place.split(".")
    return getattr(import_module(f"sfi_lab.trigger.{module}"), name)


POLICIES: Mapping[str, type[Policy]] = MappingProxyType({name: _policy(place) for name, place in TRIGGERS.items()})
