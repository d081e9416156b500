"""Commands in containers: what a runc that was cut off leaves behind, and what it must not harm.

A shell script stands in for runc: nobody can kill the real one at just that moment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kube_local.node.paths import Paths
from kube_local.node.runtime import Runtime

# As runc does it: a draft that must not be there yet, then its last name.
RUNC = """#!/bin/sh
while [ "$1" != --pid-file ]; do shift; done
draft=$(dirname "$2")/.$(basename "$2")
set -C
: > "$draft" || exit 1
if [ "$4" = hang ]; then exec sleep 100; fi
mv "$draft" "$2"
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    program = tmp_path / "runc"
    program.write_text(RUNC)
    program.chmod(0o755)
    return Runtime(Paths(tmp_path), str(program), "conmon")


async def test_a_command_that_was_cut_off_early_does_not_spoil_the_next_one(runtime: Runtime, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    assert await runtime.execute("c", ["hang"], bundle, 0.3) is None
    for _ in range(2):
        done = await runtime.execute("c", ["true"], bundle, 30)
        assert done is not None
        assert done.code == 0, done.message
    assert list(bundle.iterdir()) == []
