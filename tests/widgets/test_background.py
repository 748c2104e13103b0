"""Work in threads: an interpreter that leaves asks it to end and waits, so that nothing aborts."""

import subprocess
import sys
import threading
from pathlib import Path

from sfi_widgets.background import background

ROOT = Path(__file__).parents[2]


def test_the_thread_runs_with_its_arguments():
    found, there = [], threading.Event()
    thread = background(lambda a, b: (found.append((a, b)), there.set()), 1, 2)
    assert there.wait(10)
    thread.join(10)
    assert found == [(1, 2)] and not thread.is_alive()


def exits(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_an_interpreter_that_leaves_asks_the_work_to_end():
    done = exits(
        "import threading\n"
        "from sfi_widgets.background import background\n"
        "asked = threading.Event()\n"
        "def work():\n"
        "    asked.wait(30)\n"
        "    print('ended when asked')\n"
        "background(work, end=asked.set)\n"
    )
    assert (done.returncode, done.stdout) == (0, "ended when asked\n"), done.stderr


def test_a_workbench_in_the_middle_of_its_summaries_does_not_abort_the_interpreter():
    done = exits(
        "from sfi_widgets import Workbench\n"
        "bench = Workbench('data/traces/demo')\n"
        "bench.set(lam=0.3)\n"
        "bench.session.rank_all()\n"
        "import time; time.sleep(0.9)\n"  # past the pause: torch is at work
    )
    assert done.returncode == 0 and "terminate" not in done.stderr, done.stderr
