"""A child process that ends with its parent. It starts one process in its group and one in a session of its own.

python -m tests.support.tied_child FILE    # the three pids are written to FILE
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from tasks.core.child_process import end_with_parent

if __name__ == "__main__":
    if sys.argv[2:] != ["untied"]:
        end_with_parent()
    pids = [os.getpid(), *(subprocess.Popen(["sleep", "300"], start_new_session=own).pid for own in (False, True))]
    file = Path(sys.argv[1])
    file.with_suffix(".new").write_text(" ".join(map(str, pids)))
    file.with_suffix(".new").rename(file)
    time.sleep(300)
