"""topology.yaml: its structure, found wrong where it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm.conf_topology import lint

GOOD = """---
- topology: tree1
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: block1
  block:
    block_sizes: [4, 16]
    blocks:
      - block: b1
        nodes: node[01-04]
- topology: flat1
  cluster_default: false
  flat: true
- topology: flat2
  flat:
    alpha_step_rank: true
- topology: ring1
  ring:
    rings:
      - ring: r0
        nodes: node[01-08]
- topology: torus1
  torus3d:
    toruses:
      - name: pod1
        dims: {x: 4, y: 4, z: 2}
        nodes: node[01-32]
        placements:
          - dims: {x: 2, y: 2, z: 1}
"""


def found(text: str, version: tuple[int, int] | None = None) -> list[tuple[str, int, int]]:
    return [(finding.code, finding.line, finding.column) for finding in lint(text, version=version)]


def test_a_good_file_has_no_findings() -> None:
    assert found(GOOD, (26, 5)) == []


def test_what_a_version_does_not_know_is_said() -> None:
    assert found(GOOD, (25, 5)) == [("WrongVersion", 26, 5), ("WrongVersion", 31, 5)]
    assert found("- topology: t\n  flat: true\n", (24, 11)) == [("WrongVersion", 1, 1)]


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        pytest.param("", [("EmptyTopology", 1, 1)], id="empty"),
        pytest.param("# only a comment\n", [("EmptyTopology", 1, 1)], id="a comment"),
        pytest.param("topology: t\n", [("BadStructure", 1, 1)], id="not a list"),
        pytest.param("- 3\n", [("BadStructure", 1, 3)], id="not a mapping"),
        pytest.param("- topology: t\n  tree: {\n", [("BadYaml", 3, 1)], id="not YAML"),
        pytest.param("a: b: c\n", [("BadYaml", 1, 5)], id="not YAML either"),
        pytest.param("\x00", [("BadYaml", 1, 1)], id="characters that YAML forbids"),
        pytest.param("[" * 9000, [("BadYaml", 1, 1)], id="too deep"),
        pytest.param("- &a {topology: t, flat: true}\n- *a\n", [("BadYaml", 2, 3)], id="an alias"),
        pytest.param("- flat: true\n", [("MissingKey", 1, 3)], id="no name"),
        pytest.param("- topology: t\n", [("TopologyType", 1, 3)], id="no type"),
        pytest.param("- topology: t\n  flat: true\n  tree: {switches: []}\n", [("TopologyType", 1, 3)], id="two types"),
        pytest.param("- flat: true\n  topology: t\n", [("TopologyOrder", 2, 13)], id="the name is not first"),
        pytest.param("- topology: t\n  flat: yes please\n", [("BadStructure", 2, 9)], id="not a boolean"),
        pytest.param("- topology: t\n  flat: true\n  flat: true\n", [("DuplicateKey", 3, 3)], id="a key twice"),
        pytest.param(
            "- topology: t\n  flat: true\n- topology: t\n  flat: true\n", [("DuplicateName", 3, 13)], id="a name twice"
        ),
        pytest.param(
            "- {topology: t, cluster_default: true, flat: true}\n- {topology: u, cluster_default: true, flat: true}\n",
            [("SecondDefault", 2, 34)],
            id="two defaults",
        ),
        pytest.param(
            "- topology: t\n  block: {blocks: [{block: b, nodes: 'n[1'}]}\n", [("BadHostList", 2, 38)], id="bad hosts"
        ),
        pytest.param(
            "- topology: t\n  block: {block_sizes: [x], blocks: []}\n", [("BadStructure", 2, 25)], id="not an integer"
        ),
        pytest.param("- topology: t\n  block: {blocks: 3}\n", [("BadStructure", 2, 19)], id="not a list of blocks"),
        pytest.param("- topology: t\n  block: {blocks: [{block: }]}\n", [("BadStructure", 2, 27)], id="no text"),
        pytest.param(
            "- topology: t\n  tree: {switches: [{switch: a, children: b}]}\n",
            [("UnknownSwitch", 2, 43)],
            id="a child that is not there",
        ),
        pytest.param(
            "- topology: t\n  tree: {switches: [{switch: a, children: 'b['}]}\n",
            [("BadHostList", 2, 43)],
            id="children that cannot be read",
        ),
        pytest.param("- topology: t\n  tree: {switches: 3}\n", [("BadStructure", 2, 20)], id="switches not a list"),
        pytest.param(
            "- topology: t\n  ring: {rings: [{ring: a, nodes: 'n[1-17]'}, {ring: b}]}\n",
            [("RingTooLong", 2, 35)],
            id="a long ring",
        ),
        pytest.param("- topology: t\n  flat: {[a]: 1}\n", [("UnknownKey", 2, 10)], id="a key that is a list"),
    ],
)
def test_each_mistake_is_found_at_its_place(text: str, findings: list[tuple[str, int, int]]) -> None:
    assert found(text) == findings


def test_an_unknown_key_comes_with_a_guess() -> None:
    (finding,) = lint("- topology: t\n  flat: true\n  cluster_defalt: true\n")
    assert (finding.code, finding.suggestion) == ("UnknownKey", "cluster_default")


@given(st.text(alphabet="-: \n[]{}&*!'\"topologyflatre1", max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    assert all(line >= 1 and column >= 1 for _, line, column in found(text, (26, 5)))
