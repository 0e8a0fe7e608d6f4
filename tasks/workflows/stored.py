"""A workflow's file, read back: its code, or what is wrong with the file. What it holds never raises anything."""

import os
from pathlib import Path
from stat import S_ISREG

from tasks.records import Result, Workflow
from tasks.workflows.contract import workflow_id


def read_code(folder: Path, workflow: Workflow) -> tuple[str, str | None]:
    """(code, None), or ("", what is wrong): missing, not UTF-8, or not the text that the search ran."""
    file = folder / workflow.path
    try:
        if not S_ISREG(os.stat(file).st_mode):
            return "", "not a file"
        code = file.read_bytes().decode("utf-8")  # read_text() would turn "\r" into "\n"
    except UnicodeDecodeError as error:
        return "", f"not UTF-8 text at byte {error.start}"
    except FileNotFoundError:
        return "", "no such file"
    except OSError as error:
        return "", f"cannot be read ({error.strerror})"
    if workflow_id(code) != workflow.workflow_id:
        return "", f"changed since the search ran it ({len(code.encode())} bytes)"
    return code, None


def faulty(workflow: Workflow, fault: str) -> Workflow:
    """The workflow with the fault of its file in place of each result."""
    result = Result(status="failed", error=f"workflow file: {fault}")
    return workflow.model_copy(update={"result": result, "sibling_results": [result] * len(workflow.sibling_results)})
