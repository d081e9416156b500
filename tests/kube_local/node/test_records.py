"""Records on disk."""

from __future__ import annotations

from pathlib import Path

from kube_local.node import records
from kube_local.node.records import ContainerRecord, Ended, PodRecord


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = ContainerRecord(name="main", state="ended", restarts=3, ended=Ended(exit_code=1, reason="Error"))
    file = records.container_file(tmp_path / "containers" / "main")
    records.save(file, record)
    assert records.load(file, ContainerRecord) == record
    assert [path.name for path in file.parent.iterdir()] == ["container.json"]


def test_a_broken_or_missing_record_is_none(tmp_path: Path) -> None:
    assert records.load(tmp_path / "none.json", PodRecord) is None
    (tmp_path / "cut.json").write_text('{"uid": "u", "nam')
    assert records.load(tmp_path / "cut.json", PodRecord) is None


def test_every_pod_with_a_readable_record_is_found(tmp_path: Path) -> None:
    for uid in ("a", "b"):
        records.save(records.pod_file(tmp_path / uid), PodRecord(uid=uid, namespace="n", name=uid, node="local-0"))
    (tmp_path / "half").mkdir()
    (tmp_path / "file").touch()
    assert {record.uid for record in records.all_pods(tmp_path)} == {"a", "b"}
    assert records.all_pods(tmp_path / "none") == []
