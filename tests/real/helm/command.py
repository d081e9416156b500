"""One helm, and what can be asked of it without a cluster.

In: a chart and values. Out: what helm printed. Each helm has a home of its own, so that nobody's settings matter.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.charts import rendered_forms
from tests.charts.forms import Explained, Form
from tests.charts.rendering import CHARTS, NAMESPACE, golden_of, normal, values_of, written
from tests.charts.rendering import cases as every_case
from tests.real.helm.tools import MAJORS, missing_tools, tool


@dataclass(frozen=True, slots=True)
class Helm:
    """One version of helm."""

    major: int
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it."""
        places = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        found = {"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {"KUBECONFIG": "/dev/null"}
        done = subprocess.run(
            [tool(self.major), *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **places, **found},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if check and done.returncode:
            raise AssertionError(f"helm {' '.join(arguments)}:\n{done.stderr[-4000:]}")
        return done

    def template(self, chart: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Render a chart as the guide installs it."""
        return self.run("template", chart, str(CHARTS / chart), "-n", NAMESPACE[chart], *arguments, check=check)

    def form(self, form: Form | Explained, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Render a form of values."""
        file = self.home / "values.yaml"
        file.write_text(yaml.safe_dump(form.values))
        return self.template(form.chart, "-f", str(file), check=check)

    def case(self, chart: str, case: str) -> str:
        """Render a case, in the form of a golden file."""
        return written(normal(self.template(chart, "-f", str(values_of(chart, case))).stdout))


def write_goldens(helm: Helm) -> int:
    """Write every golden file anew."""
    for chart, case in every_case():
        target = golden_of(chart, case)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(helm.case(chart, case))
    return len(every_case())


def write_forms(helm: Helm) -> int:
    """Write anew what each form of values comes to."""
    return sum(rendered_forms.write(chart, lambda form: helm.form(form).stdout) for chart in rendered_forms.CHARTS)


if __name__ == "__main__":
    import sys
    import tempfile

    if missing_tools():
        sys.stderr.write("golden files of the charts are left as they are: there is no helm (make helm-tools)\n")
        sys.exit()
    with tempfile.TemporaryDirectory() as scratch:
        chosen = Helm(MAJORS[0], Path(scratch))
        sys.stdout.write(f"wrote {write_goldens(chosen)} golden files of the charts, ")
        sys.stdout.write(f"and the renderings of {write_forms(chosen)} forms of values\n")
