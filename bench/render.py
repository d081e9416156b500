"""How much CPU it takes to turn 200 NodeSets and 200 Partitions into objects and slurm.conf; the bar is 0.2 s.

    python bench/render.py [-o json] [--repeat N]

In: nothing. Out: CPU seconds of the best run of each step, on standard output: load (YAML to resources), build (all
objects and slurm.conf, the step that the bar is for), and print (as YAML and as JSON). Exits 1 above the bar.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from slurm_operator.cli.render import Rendered, as_json, as_yaml, render
from slurm_operator.cli.world import World, load

NODESETS = 200
PARTITIONS = 200
WORKERS = 2
BAR_SECONDS = 0.2

Result = TypeVar("Result")

HEAD = """\
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: slurm}
stringData: {slurm.key: one, jwt.key: two}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: keys, key: slurm.key}
  jwtKeyRef: {name: keys, key: jwt.key}
  extraConf: |
    SelectType=select/cons_tres
    SlurmctldParameters=enable_stepmgr
"""
NODESET = """\
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {{name: rack-{number}, namespace: slurm}}
spec:
  controllerRef: {{name: slurm}}
  replicas: {workers}
  slurmd:
    image: ghcr.io/slinkyproject/slurmd:26.05-ubuntu26.04
    resources: {{limits: {{cpu: "32", memory: 128Gi, nvidia.com/gpu: 4}}}}
    volumeMounts: [{{name: scratch, mountPath: /scratch}}]
  extraConf: Weight={number} Gres=gpu:a100:4
  partition: {{enabled: true, config: "State=UP MaxTime=1-00:00:00"}}
  template:
    spec:
      nodeSelector: {{rack: "{number}"}}
      tolerations: [{{key: gpu, operator: Exists}}]
  volumeClaimTemplates:
    - metadata: {{name: scratch}}
      spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Ti}}}}}}
"""
PARTITION = """\
---
apiVersion: slinky.slurm.net/v1beta1
kind: Partition
metadata: {{name: team-{number}, namespace: slurm}}
spec:
  controllerRef: {{name: slurm}}
  nodeSets: [rack-{number}, rack-{other}]
  maxTime: 2-00:00:00
  priorityTier: {number}
  allowAccounts: [team{number}, ops]
"""


def manifests() -> str:
    """The cluster as one YAML stream."""
    nodesets = (NODESET.format(number=number, workers=WORKERS) for number in range(NODESETS))
    partitions = (
        PARTITION.format(number=number, other=(number + 1) % NODESETS if number + 1 < PARTITIONS else 0)
        for number in range(PARTITIONS)
    )
    return "".join([HEAD, *nodesets, *partitions])


def best(repeat: int, step: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds of the fastest of some runs, and what the last one gave."""
    seconds: list[float] = []
    results: list[Result] = []
    for _ in range(repeat):
        results.clear()
        start = time.process_time()
        results.append(step())
        seconds.append(time.process_time() - start)
    return round(min(seconds), 4), results[0]


def measure(repeat: int) -> dict[str, float | int]:
    """CPU seconds of each step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(manifests())
        load_seconds, world = best(repeat, lambda: load([str(path)]))
    build_seconds, rendered = best(repeat, lambda: render(world))
    _assert_whole(world, rendered)
    objects = rendered.of_kinds(())
    yaml_seconds, _ = best(repeat, lambda: "".join(as_yaml(objects)))
    json_seconds, _ = best(repeat, lambda: as_json(objects))
    return {
        "nodesets": NODESETS,
        "partitions": PARTITIONS,
        "objects": len(objects),
        "runs": repeat,
        "load_cpu_seconds": load_seconds,
        "build_cpu_seconds": build_seconds,
        "yaml_cpu_seconds": yaml_seconds,
        "json_cpu_seconds": json_seconds,
        "bar_cpu_seconds": BAR_SECONDS,
    }


def _assert_whole(world: World, rendered: Rendered) -> None:
    assert not world.findings, world.findings[:3]
    assert not rendered.findings, rendered.findings[:3]
    (text,) = rendered.slurm_confs.values()
    assert text.count("PartitionName=") == NODESETS + PARTITIONS


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.repeat)
    if options.output == "json":
        print(json.dumps(result))
    else:
        print(f"{NODESETS} NodeSets and {PARTITIONS} Partitions become {result['objects']} objects; CPU seconds:")
        for step in ("load", "build", "yaml", "json"):
            print(f"  {step:6} {result[f'{step}_cpu_seconds']:.3f}{f'  (bar {BAR_SECONDS})' * (step == 'build')}")
    return int(result["build_cpu_seconds"] > BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
