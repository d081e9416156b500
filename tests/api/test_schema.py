"""From Structs to structural schemas."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from slurm_operator.api.meta import doc
from slurm_operator.api.schema import struct_schema

IntOrString = Annotated[int | str, Meta(extra_json_schema={"x-kubernetes-int-or-string": True})]


class Inner(msgspec.Struct):
    """A part."""

    name: str
    size: Annotated[int, Meta(ge=1, le=9)] = 1


class Outer(msgspec.Struct, rename="camel"):
    """A whole."""

    some_text: Annotated[str, Meta(min_length=1, max_length=5, pattern="^a"), doc("Words.")]
    forced: Annotated[bool, doc("Said on the wire.", x_required=True)] = False
    maybe: str | None = None
    either: IntOrString = "25%"
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    labels: dict[str, str] = {}
    anything: dict[str, Any] = {}


PROPERTIES = struct_schema(Outer)["properties"]


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("someText", {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"}),
        ("forced", {"type": "boolean", "default": False}),
        ("maybe", {"type": "string"}),
        ("either", {"x-kubernetes-int-or-string": True, "default": "25%"}),
        ("labels", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("anything", {"type": "object"}),
    ],
)
def test_a_field_becomes_its_schema(field: str, schema: dict[str, Any]) -> None:
    assert {key: value for key, value in PROPERTIES[field].items() if key != "description"} == schema


def test_a_struct_inside_a_struct_is_spelled_out() -> None:
    inner = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        },
        "required": ["name"],
    }
    assert PROPERTIES["inner"] == inner
    assert PROPERTIES["many"] == {"type": "array", "items": inner}


def test_required_is_what_has_no_default_or_must_be_said() -> None:
    assert struct_schema(Outer)["required"] == ["forced", "someText"]


class Strange(msgspec.Struct):
    """A type that no CRD can hold."""

    raw: bytes


def test_a_type_without_a_schema_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="no structural schema"):
        struct_schema(Strange)
