"""Is what a command said what its page shows?

`…` on a page stands for anything in a line, and alone in a line for any lines. Times, hashes and spaces between columns
are not compared: they are other ones each time. Used by `test_examples.py` and `tests/real/local/documents.py`.
"""

from __future__ import annotations

import re

ANYTHING = "…"
# What is another one each time: an age, a moment, a hash, seconds with a fraction; and what may stand behind it.
_OTHER = re.compile(
    r"(\d+(\.\d+)?(ms|s|m|h|d)(\d+[smhd])?|\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]*\d[0-9a-f]{10,}|\d+\.\d+)([;:,)]?)"
)


def is_as_shown(shown: str, said: str) -> bool:
    """Whether a command said what its page shows."""
    pattern = "".join(_line(line) for line in shown.rstrip("\n").split("\n"))
    return re.fullmatch(pattern, said.rstrip() + "\n") is not None


def _line(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    words = [_word(word) for word in line.split()]
    return r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*\n"


def _word(word: str) -> str:
    if found := _OTHER.fullmatch(word):
        return r"\S+?" + re.escape(found[5])
    return ".*?".join(re.escape(part) for part in word.split(ANYTHING))
