"""Python's garbage collector is quiet during a first list, and left as it was found."""

from __future__ import annotations

import pytest

from kube_runtime.client.collector import Collector


def test_the_collector_is_quiet_until_the_last_list_is_done_and_then_frozen() -> None:
    calls: list[str] = []
    collector = Collector(
        enable=lambda: calls.append("enable"),
        disable=lambda: calls.append("disable"),
        is_enabled=lambda: True,
        freeze=lambda: calls.append("freeze"),
    )
    with collector.paused():
        with collector.paused():
            pass
        assert calls == ["disable"]
    assert calls == ["disable", "freeze", "enable"]


def test_the_collector_is_left_off_where_it_was_off() -> None:
    calls: list[str] = []
    collector = Collector(
        enable=lambda: calls.append("enable"), is_enabled=lambda: False, freeze=lambda: None, disable=lambda: None
    )
    with pytest.raises(ZeroDivisionError), collector.paused():
        raise ZeroDivisionError
    assert calls == []
