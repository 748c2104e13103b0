"""A notebook as a page without code, served by Voilà, with no request to the outside.

    python -m sfi_widgets.voila notebooks/01_workbench.ipynb [--port=8866] [--theme=dark] [Voilà's own options]

Voilà's own template asks a CDN for icon fonts that no panel uses; the template here is the same page without them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

SHARE = Path(__file__).parent / "share"  # laid out as Jupyter's data folders are
TEMPLATE = "sfi_lab"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until it is stopped. Arguments as Voilà takes them, a notebook among them."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    notebooks = [a for a in arguments if not a.startswith("-")]
    if len(notebooks) != 1 or not Path(notebooks[0]).is_file():
        raise SystemExit("name one notebook: python -m sfi_widgets.voila notebooks/01_workbench.ipynb")
    try:
        from voila.app import Voila
    except ImportError:
        raise SystemExit("Voilà is not installed: pip install '.[voila]' in the project's folder") from None
    paths = [str(SHARE), os.environ.get("JUPYTER_PATH", "")]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, paths))  # where Voilà looks for templates
    Voila.launch_instance([*arguments, f"--template={TEMPLATE}"])


if __name__ == "__main__":
    main()
