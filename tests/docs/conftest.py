"""The last lines of a run say how many commands of the pages nobody runs, and why."""

from __future__ import annotations

import pytest
from tests.docs.pages import left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what is left out, so that it is not forgotten."""
    found = left_out()
    terminalreporter.write_line(f"commands of the pages that are not run: {sum(each.commands for each in found)}")
    for each in found:
        terminalreporter.write_line(f"  {each.commands} in {each.page}: {each.why}")
