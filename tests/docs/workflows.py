"""A small machine that runs workflows as GitHub Actions does: jobs, needs, conditions, outputs, artifacts, a summary.

Each job has a checkout of its own at the same path, and an empty temporary directory. Artifacts lose what they lose
there: modes, and files whose names begin with a dot. An expression that this machine does not know is an error.
"""

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.waits import WAIT_S

_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
_TOKEN = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic token-of-the-checkout\n'


@dataclass
class Step:
    """A step that was run: its command, exit code and what it wrote."""

    run: str
    code: int
    out: str
    err: str


@dataclass
class Machine:
    """`origin` is the repository; `tools` come first on the PATH; `context` is what expressions may look up."""

    origin: Path
    root: Path
    tools: Path
    context: dict[str, str]
    env: dict[str, str]
    steps: dict[str, list[Step]] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    @property
    def checkout(self) -> Path:
        """`GITHUB_WORKSPACE`."""
        return self.root / "work" / "project"

    def run(self, workflow: str) -> dict[str, str]:
        """Run all jobs in their order; `success`, `failure` or `skipped` of each."""
        for name, job in yaml.safe_load(workflow)["jobs"].items():
            needed = [self.results[one] for one in [job["needs"]] if job.get("needs")] if "needs" in job else []
            due = all(result == "success" for result in needed) and self.holds(job.get("if", "always()"))
            self.results[name] = self._job(name, job) if due else "skipped"
        return self.results

    def holds(self, condition: str) -> bool:
        """A condition: `always()`, or two values that are the same."""
        if condition == "always()":
            return True
        left, _, right = condition.partition(" == ")
        return self._value(left) == (right[1:-1] if right.startswith("'") else self._value(right))

    def _value(self, name: str) -> str:
        if re.fullmatch(r"(steps|needs)\.[\w-]+\.outputs\.\w+", name):
            return self.context.get(name, "")
        return self.context[name]

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self._value(match[1]), text)

    def _job(self, name: str, job: dict[str, Any]) -> str:
        for place in (self.root / "work", self.root / "temp"):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
        self.checkout.mkdir()
        assert job["timeout-minutes"] <= 60
        ran = self.steps[name] = []
        for step in job["steps"]:
            failed = any(one.code for one in ran)
            condition = step.get("if", "")
            if (failed and condition != "always()") or (condition and not self.holds(condition)):
                continue
            ran.append(self._uses(step) if "uses" in step else self._shell(step))
        for output, value in job.get("outputs", {}).items():
            self.context[f"needs.{name}.outputs.{output}"] = self._filled(value)
        for key in [key for key in self.context if key.startswith("steps.")]:
            del self.context[key]
        return "failure" if any(one.code for one in ran) else "success"

    def _shell(self, step: dict[str, Any]) -> Step:
        said, output = self.root / "summary", self.root / "output"
        said.write_text("")
        output.write_text("")
        own = {key: self._filled(value) for key, value in step.get("env", {}).items()}
        given = {"GITHUB_STEP_SUMMARY": str(said), "GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(self.root / "temp")}
        done = subprocess.run(
            ["bash", "-e", "-c", self._filled(step["run"])],
            cwd=self.checkout,
            env={**self.env, **given, "PATH": f"{self.tools}:{os.environ['PATH']}", **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        self.summary += said.read_text()
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.context[f"steps.{step['id']}.outputs.{key}"] = value
        return Step(step["run"], done.returncode, done.stdout, done.stderr)

    def _uses(self, step: dict[str, Any]) -> Step:
        action, given = step["uses"], step.get("with", {})
        match action:
            case "actions/checkout@v4":
                command = ["git", "clone", "-q", "--depth", "1", f"file://{self.origin}", str(self.checkout)]
                subprocess.run(command, check=True)
                if given.get("persist-credentials", True):
                    with (self.checkout / ".git" / "config").open("a") as config:
                        config.write(_TOKEN)
            case "actions/upload-artifact@v4":
                self._upload(given["name"], self.checkout / given["path"])
            case "actions/download-artifact@v4":
                with zipfile.ZipFile(self.root / f"{given['name']}.zip") as archive:
                    archive.extractall(self.checkout / given.get("path", "."))
            case _:
                raise AssertionError(f"an action that this machine does not know: {action}")
        return Step(action, 0, "", "")

    def _upload(self, name: str, path: Path) -> None:
        files = [path] if path.is_file() else [one for one in sorted(path.rglob("*")) if one.is_file()]
        with zipfile.ZipFile(self.root / f"{name}.zip", "w") as archive:
            for file in files:
                inside = file.relative_to(path) if path.is_dir() else Path(file.name)
                if not any(part.startswith(".") for part in inside.parts):
                    archive.writestr(str(inside), file.read_bytes())
