"""Virtual nodes as API objects."""

from __future__ import annotations

from kube_local.node import nodes


def test_nodes_are_numbered() -> None:
    assert nodes.names(3) == ("local-0", "local-1", "local-2")
    assert nodes.node("local-2")["metadata"]["labels"]["kubernetes.io/hostname"] == "local-2"


def test_a_node_has_the_whole_machine() -> None:
    has = nodes.capacity()
    assert int(has["cpu"]) >= 1
    assert has["memory"].endswith("Ki")
    assert has["pods"] == "110"


def test_a_node_that_comes_back_is_ready_since_now_and_the_rest_since_before() -> None:
    before = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "earlier"},
        {"type": "DiskPressure", "status": "False", "lastTransitionTime": "earlier"},
    ]
    made = nodes.node_status("local-0", "10.240.0.1", nodes.capacity(), "now", before)
    times = {one["type"]: one["lastTransitionTime"] for one in made["status"]["conditions"]}
    assert (times["Ready"], times["DiskPressure"]) == ("now", "earlier")
    assert made["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.240.0.1"}
