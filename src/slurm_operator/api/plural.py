"""Numbers and the words that agree with them, for messages. Pure; used wherever a message counts something."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 error`, `2 errors`; or with words of their own: `1 worker is`, `2 workers are`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def share(part: int, whole: int, noun: str) -> str:
    """`1 of 1 worker is`, `1 of 2 workers is`, `0 of 2 workers are`."""
    return f"{part} of {counted(whole, noun)} {'is' if 1 in (part, whole) else 'are'}"
