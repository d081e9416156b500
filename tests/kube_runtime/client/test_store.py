"""The store against a simple model: whatever happens, names, indexes and told changes agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.client.objects import ConfigMap, ObjectMeta
from kube_runtime.client.store import Store, key_of

NAMES = st.sampled_from(["a", "b", "c"])


def config_map(name: str, uid: str, version: int, group: str) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=str(version))
    return ConfigMap(metadata=metadata, data={"group": group})


ITEMS = st.builds(config_map, NAMES, st.sampled_from(["u1", "u2"]), st.integers(1, 5), st.sampled_from(["x", "y"]))
STEPS = st.one_of(
    st.tuples(st.just("put"), ITEMS),
    st.tuples(st.just("drop"), ITEMS),
    st.tuples(st.just("replace"), st.lists(ITEMS, max_size=4, unique_by=key_of)),
)


@given(st.lists(STEPS, max_size=20))
def test_the_told_changes_rebuild_the_store(steps: list[tuple[str, object]]) -> None:
    store: Store[ConfigMap] = Store({"group": lambda item: [item.data["group"]]})
    told: dict[tuple[str, str], ConfigMap] = {}
    for what, argument in steps:
        if what == "put" and isinstance(argument, ConfigMap):
            changes = list(store.put(argument))
        elif what == "drop" and isinstance(argument, ConfigMap):
            changes = list(store.drop(key_of(argument)))
        else:
            assert isinstance(argument, list)
            changes = list(store.replace(argument))
            assert {key_of(item) for item in store.items()} == {key_of(item) for item in argument}
        for old, new in changes:
            # Every change starts from what was told before, and a change never crosses a uid.
            assert old is not None or new is not None
            if old is not None:
                assert told.pop(key_of(old)) == old
            if new is not None:
                assert key_of(new) not in told
                told[key_of(new)] = new
            if old is not None and new is not None:
                assert old.metadata.uid == new.metadata.uid
        assert {key_of(item): item for item in store.items()} == told
        for group in ("x", "y"):
            expected = [item for item in told.values() if item.data["group"] == group]
            assert sorted(map(key_of, store.by_index("group", group))) == sorted(map(key_of, expected))
