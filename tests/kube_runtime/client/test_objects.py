"""What is read of a Kubernetes object: only what somebody needs, and no secret is ever shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_runtime.client.decode import decode_object
from kube_runtime.client.objects import (
    BUILT_IN,
    CONFIG_MAPS,
    PODS,
    SECRETS,
    RawObject,
    Resource,
    Secret,
    by_kind,
    resource_of,
)


def test_nulls_where_lists_and_maps_belong_are_nothing() -> None:
    body = {"kind": "Pod", "metadata": {"name": "p", "labels": None}, "spec": {"containers": None}, "status": None}
    read = decode_object(msgspec.json.encode(body), PODS.type, "get")
    assert (read.metadata.labels, read.spec.containers, read.status.phase) == ({}, (), "")


def test_fields_that_nobody_reads_are_skipped_and_new_ones_do_no_harm() -> None:
    body = {"kind": "Pod", "metadata": {"name": "p", "managedFields": [{}]}, "spec": {"futureField": {"x": [1]}}}
    assert decode_object(msgspec.json.encode(body), PODS.type, "get").metadata.name == "p"


def test_a_raw_object_keeps_everything_and_cannot_be_changed_through_what_it_gives() -> None:
    body = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"futureField": {"x": [1.5, None]}}}
    read = decode_object(msgspec.json.encode(body), RawObject, "get")
    read.content()["spec"].clear()
    assert read.content() == body
    assert read.metadata.name == "p"


def test_secrets_never_show_their_values() -> None:
    body = {"kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {"key": "Y2FuYXJ5"}}
    encoded = msgspec.json.encode(body)
    for kind in (Secret, RawObject):
        assert "Y2FuYXJ5" not in repr(decode_object(encoded, kind, "get"))


def test_the_descriptor_of_a_kind_is_found_by_its_name() -> None:
    known = by_kind(BUILT_IN)
    assert resource_of({"apiVersion": "v1", "kind": "Secret"}, known) is SECRETS
    with pytest.raises(KeyError, match="nothing/v1"):
        resource_of({"apiVersion": "nothing/v1", "kind": "Thing"}, known)


@pytest.mark.parametrize("resource", BUILT_IN, ids=lambda resource: resource.kind)
def test_every_built_in_kind_decodes_an_empty_object_and_names_itself(resource: Resource[Any]) -> None:
    body = msgspec.json.encode({"kind": resource.kind, "metadata": {"name": "x"}})
    assert decode_object(body, resource.type, "get").metadata.name == "x"
    assert resource.api_version.endswith(resource.version)
    assert CONFIG_MAPS.raw().type is RawObject
