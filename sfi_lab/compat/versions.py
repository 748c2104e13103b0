"""Which transformers release is installed, and the oldest one this library is tested with."""

import transformers

from sfi_lab.errors import SfiError

OLDEST = (5, 17)


def transformers_version() -> tuple[int, int]:
    """(major, minor) of the installed transformers."""
    major, minor = transformers.__version__.split(".")[:2]
    return int(major), int(minor)


def check_transformers() -> None:
    """Raise SfiError if the installed transformers is older than `OLDEST`."""
    if transformers_version() < OLDEST:
        raise SfiError(
            f"transformers {transformers.__version__} is too old: sfi_lab needs {OLDEST[0]}.{OLDEST[1]} or newer."
        )
