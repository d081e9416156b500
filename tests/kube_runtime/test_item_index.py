"""Finding list items by their keys: `kube_runtime.item_index`, held against the plain way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import plain_merge

from kube_runtime.item_index import Field, ItemIndex, frozen
from slurm_operator.build.merge_keys import MERGE_KEYS

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, 1.5, "", "a", "b"]))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
FIELDS = [Field(), Field("", True, "k"), Field("", True, "k", (("p", "x"),)), Field("", True, "k", (("p", ""),))]
FIELDS.append(Field("", True, "k", (("p", ""), ("q", ""))))
ITEMS = st.lists(
    st.dictionaries(st.sampled_from("kpq"), st.sampled_from([None, "", "x", "y", 1, True]), max_size=3) | SCALARS,
    max_size=6,
)


@given(VALUES, VALUES)
def test_frozen_values_are_equal_where_the_values_are(one: Any, other: Any) -> None:
    assert (frozen(one) == frozen(other)) == (one == other)
    assert one != other or hash(frozen(one)) == hash(frozen(other))


@pytest.mark.parametrize("field", FIELDS, ids=[f"{field.key} {field.also}" for field in FIELDS])
@given(items=ITEMS, wanted=ITEMS, changes=st.lists(st.tuples(st.integers(0, 5), ITEMS), max_size=3))
def test_the_first_item_is_found_that_a_walk_would_find(
    field: Field, items: list[Any], wanted: list[Any], changes: list[tuple[int, list[Any]]]
) -> None:
    index, same = ItemIndex(field, items), plain_merge.same_item(field)
    for each in wanted:
        assert index.find(each) == plain_merge.position(items, each, same)
    for at, new in changes:
        # Only the second keys of an item change while it is merged.
        if at < len(items) and new and isinstance(items[at], Mapping) and isinstance(new[0], dict):
            items[at] = {**new[0], **{name: value for name, value in items[at].items() if name == "k"}}
            if "k" in items[at] or not field.key:
                index.put(at, items[at])
    for each in wanted:
        assert index.find(each) == plain_merge.position(items, each, same)


def test_every_second_key_of_the_merge_table_is_covered_here() -> None:
    shapes = {(bool(field.key), tuple(default for _, default in field.also)) for field in MERGE_KEYS.values()}
    assert shapes <= {(False, ()), (True, ()), (True, ("TCP",)), (True, ("",))}
