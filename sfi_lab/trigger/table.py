"""Table of contents of the policies: setting value to class. A new policy is one line here."""

from collections.abc import Mapping
from types import MappingProxyType

from sfi_lab.trigger.drift import DriftPolicy
from sfi_lab.trigger.never import NeverPolicy
from sfi_lab.trigger.period import PeriodPolicy
from sfi_lab.trigger.policy import Policy
from sfi_lab.trigger.random_interval import RandomPolicy
from sfi_lab.trigger.sentence import SentencePolicy

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {
        "sentence": SentencePolicy,
        "period": PeriodPolicy,
        "random": RandomPolicy,
        "drift": DriftPolicy,
        "never": NeverPolicy,
    }
)
