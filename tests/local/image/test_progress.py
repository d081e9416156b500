"""Progress in lines."""

from __future__ import annotations

import io

from slurm_operator.local.image.progress import Lines, Progress


def test_lines_say_each_step_once_and_how_far_it_is_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    lines = Lines(out, lambda: now[0])
    for second, progress in [
        (0.0, Progress("ask")),
        (1.0, Progress("download", 0, 90e6, "bytes")),
        (2.0, Progress("download", 30e6, 90e6, "bytes")),
        (7.0, Progress("download", 60e6, 90e6, "bytes")),
        (8.0, Progress("download", 90e6, 90e6, "bytes")),
        (8.1, Progress("download", 90e6, 90e6, "bytes")),
        (9.0, Progress("install", 1, 3, "packages")),
    ]:
        now[0] = second
        lines(progress)
    assert out.getvalue().splitlines() == [
        "[  0.0 s] ask",
        "[  1.0 s] download: 0 of 90 MB",
        "[  7.0 s] download: 60 of 90 MB",
        "[  8.0 s] download: 90 of 90 MB",
        "[  9.0 s] install: 1 of 3 packages",
    ]
