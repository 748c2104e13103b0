"""Records the small trace that every viewer opens first: `python scripts/record_demo.py [FOLDER]`.

A chat about one of this project's own prompts on the default model, audited, with queries and keys of three layers.
The repetition penalty keeps a model of this size from circling in one sentence.
"""

import sys
from pathlib import Path

import torch

import sfi_lab as sfi
from sfi_lab.text import prompt

PROMPT = "story_ferry"
SETTINGS = sfi.Settings.paper(k=96, recent=64)
NEW_TOKENS = 200
QK_LAYERS = [4, 14, 24]


def main(folder: Path) -> None:
    torch.set_num_threads(1)  # step times are steadier on a machine that does something else beside
    lab = sfi.load()
    result = lab.generate(
        [{"role": "user", "content": prompt(PROMPT).text}],
        SETTINGS,
        NEW_TOKENS,
        record="audit+qk",
        trace=folder,
        qk_layers=QK_LAYERS,
        record_top=24,
        repetition_penalty=1.1,
    )
    for name, value in result.trace.info().items():
        print(f"{name}: {value}")
    print(result.text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "data" / "traces" / "demo")
