"""Makes src/teamwright/ui/demo/sample.bundle: a small invented project for those who start the demo outside git.

Run it as a script to write the bundle anew. The same story always gives the same commits (names, dates and files
are all here); the bytes of a bundle may differ between versions of git.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

BUNDLE = Path(__file__).parents[2] / "src" / "teamwright" / "ui" / "demo" / "sample.bundle"
START = int(datetime(2025, 3, 3, 8, 30, tzinfo=UTC).timestamp())
PEOPLE = {
    "ines": "Ines Marlow <ines@example.org>",
    "tomas": "Tomas Reyl <tomas@example.org>",
    "wren": "Wren Okafor <wren@example.org>",
    "sunniva": "Sunniva Dahl <sunniva@example.org>",
}

HARMONICS = '''"""Heights of the tide as a sum of harmonics."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Harmonic:
    """One constituent: metres, degrees per hour, degrees."""

    amplitude: float
    speed: float
    phase: float

    def height(self, hours: float) -> float:
        return self.amplitude * math.cos(math.radians(self.speed * hours - self.phase))
'''
STATIONS = '''"""Harbours and their harmonics."""

from tidetable.harmonics import Harmonic

STATIONS = {
    "Lowmoor": (0.4, [Harmonic(1.92, 28.984, 113.0), Harmonic(0.61, 30.0, 158.0)]),
    "Skarvik": (0.1, [Harmonic(0.74, 28.984, 301.0), Harmonic(0.22, 30.0, 344.0)]),
}
'''
PREDICT = '''"""Heights, high waters and low waters of a station."""

from tidetable.stations import STATIONS


def height(name, hours):
    mean, harmonics = STATIONS[name]
    return mean + sum(one.height(hours) for one in harmonics)
'''
CLI = '''"""tidetable STATION [HOURS]: prints heights by the hour."""

import sys

from tidetable.predict import height


def main(argv):
    name = argv[0]
    hours = int(argv[1]) if len(argv) > 1 else 24
    for hour in range(hours):
        print(f"{hour:02d}:00  {height(name, hour):5.2f} m")
'''
CHART = """// Draws a day of heights as an SVG path.
import { scale } from './scale.js'

export function path (heights, width, tall) {
  const x = scale(0, heights.length - 1, 0, width)
  const y = scale(Math.min(...heights), Math.max(...heights), tall, 0)
  return heights.map((h, i) => `${i ? 'L' : 'M'}${x(i)},${y(h)}`).join('')
}
"""
SCALE = """// A linear scale from one range to another.
export function scale (from, to, low, high) {
  const step = (high - low) / (to - from || 1)
  return value => low + (value - from) * step
}
"""
TEST_HARMONICS = """from tidetable.harmonics import Harmonic


def test_a_harmonic_is_highest_at_its_phase():
    assert Harmonic(2.0, 30.0, 60.0).height(2) == 2.0
"""
TEST_PREDICT = """from tidetable.predict import height


def test_a_height_lies_within_the_sum_of_amplitudes():
    assert all(abs(height("Lowmoor", hour) - 0.4) <= 2.53 for hour in range(48))
"""
TEST_SCALE = """import assert from 'node:assert'
import { test } from 'node:test'
import { scale } from './scale.js'

test('the middle stays the middle', () => {
  assert.equal(scale(0, 10, 0, 100)(5), 50)
})
"""
TEST_CHART = """import assert from 'node:assert'
import { test } from 'node:test'
import { label } from './chart.js'

test('a label has metres', () => {
  assert.equal(label('A', 1), 'A 1.00 m')
})
"""
TEST_EMPTY_CHART = """
test('a chart without a name says so', () => {
  assert.equal(label('?', 0), '? 0.00 m')
})
"""


def py(name: str, *body: str) -> str:
    """A function to be added to a Python file."""
    return f"\n\ndef {name}:\n" + "".join(f"    {line}".rstrip() + "\n" for line in body)


def js(name: str, *body: str) -> str:
    """A function to be added to a JavaScript file."""
    return f"\nexport function {name} {{\n" + "".join(f"  {line}\n" for line in body) + "}\n"


# (who, days after the one before, subject, {path: text to add, or (old text, new text)})
STORY = [
    ("ines", 0, "Begin", {"README.md": "# tidetable\n\nTide tables for harbours that do not exist.\n"}),
    (
        "ines",
        1,
        "Heights from harmonics",
        {"tidetable/harmonics.py": HARMONICS, "tests/test_harmonics.py": TEST_HARMONICS},
    ),
    ("ines", 2, "Two stations", {"tidetable/stations.py": STATIONS, "tidetable/__init__.py": '"""Tide tables."""\n'}),
    ("tomas", 3, "Predict heights", {"tidetable/predict.py": PREDICT, "tests/test_predict.py": TEST_PREDICT}),
    (
        "tomas",
        1,
        "A command",
        {"tidetable/cli.py": CLI, "pyproject.toml": '[project]\nname = "tidetable"\nversion = "0.1"\n'},
    ),
    (
        "wren",
        6,
        "Draw the curve",
        {"web/chart.js": CHART, "web/scale.js": SCALE, "web/package.json": '{"type": "module"}\n'},
    ),
    ("wren", 1, "Test the scale", {"web/scale.test.js": TEST_SCALE}),
    (
        "tomas",
        9,
        "High waters",
        {
            "tidetable/predict.py": py(
                "high_waters(name, hours)",
                "# TODO: minutes, not hours",
                "found = []",
                "for hour in range(1, hours - 1):",
                "    before, now, after = (height(name, hour + step) for step in (-1, 0, 1))",
                "    if before < now >= after:",
                "        found.append((hour, now))",
                "return found",
            )
        },
    ),
    (
        "tomas",
        1,
        "Low waters",
        {
            "tidetable/predict.py": py(
                "low_waters(name, hours)",
                "found = []",
                "for hour in range(1, hours - 1):",
                "    before, now, after = (height(name, hour + step) for step in (-1, 0, 1))",
                "    if before > now <= after:",
                "        found.append((hour, now))",
                "return found",
            )
        },
    ),
    (
        "ines",
        12,
        "Test high waters",
        {
            "tests/test_predict.py": ("import height\n", "import height, high_waters\n"),
            "tidetable/predict.py": ("range(1, hours - 1)", "range(1, max(hours - 1, 1))"),
        },
    ),
    (
        "ines",
        0,
        "Two high waters a day",
        {
            "tests/test_predict.py": py(
                "test_a_day_has_two_high_waters()", 'assert len(high_waters("Lowmoor", 25)) == 2'
            )
        },
    ),
    (
        "wren",
        20,
        "Axis",
        {"web/chart.js": js("axis (hours)", "return Array.from({ length: hours }, (_, i) => `${i}:00`)")},
    ),
    (
        "wren",
        2,
        "Labels",
        {
            "web/chart.js": js(
                "label (name, metres)", "// FIXME: feet for those who ask", "return `${name} ${metres.toFixed(2)} m`"
            )
        },
    ),
    (
        "sunniva",
        30,
        "A third station",
        {
            "tidetable/stations.py": (
                "}\n",
                '    "Port Ash": (0.7, [Harmonic(2.41, 28.984, 12.0), Harmonic(0.83, 30.0, 51.0)]),\n}\n',
            )
        },
    ),
    (
        "sunniva",
        1,
        "Where the stations are",
        {"docs/stations.md": "# Stations\n\nLowmoor, Skarvik, Port Ash: all invented.\n"},
    ),
    (
        "tomas",
        8,
        "Say which stations there are",
        {
            "tidetable/cli.py": (
                "    name = argv[0]\n",
                '    if not argv:\n        raise SystemExit("stations: " + ", ".join(sorted(STATIONS)))\n'
                "    name = argv[0]\n",
            )
        },
    ),
    (
        "tomas",
        0,
        "Import what is used",
        {"tidetable/cli.py": ("import height\n", "import height\nfrom tidetable.stations import STATIONS\n")},
    ),
    (
        "wren",
        15,
        "Table beside the chart",
        {
            "web/table.js": "// Rows of high and low waters."
            + js("rows (waters)", "return waters.map(([hour, metres]) => ({ hour, metres: metres.toFixed(2) }))")
        },
    ),
    (
        "wren",
        3,
        "Mark the highest",
        {"web/table.js": js("highest (waters)", "return waters.reduce((a, b) => (b[1] > a[1] ? b : a))")},
    ),
    (
        "ines",
        25,
        "Springs and neaps",
        {
            "tidetable/predict.py": py(
                "ranges(name, days)",
                "# XXX: slow for a whole year",
                "for day in range(days):",
                "    heights = [height(name, day * 24 + hour) for hour in range(24)]",
                "    yield max(heights) - min(heights)",
            )
        },
    ),
    (
        "ines",
        1,
        "Test the ranges",
        {
            "tests/test_predict.py": py(
                "test_a_range_is_never_negative()",
                "from tidetable.predict import ranges",
                "",
                'assert min(ranges("Skarvik", 30)) > 0',
            ),
            "tidetable/predict.py": ("# XXX: slow", "# XXX: too slow"),
        },
    ),
    (
        "tomas",
        18,
        "Print high and low waters",
        {
            "tidetable/cli.py": py(
                "waters(name, hours)",
                "# HACK: sorted by hour only because both lists are short",
                "for hour, metres in sorted(high_waters(name, hours) + low_waters(name, hours)):",
                '    print(f"{hour:02d}:00  {metres:5.2f} m")',
            )
        },
    ),
    (
        "tomas",
        1,
        "Import them",
        {"tidetable/cli.py": ("predict import height\n", "predict import height, high_waters, low_waters\n")},
    ),
    (
        "sunniva",
        22,
        "Stations by a file",
        {
            "tidetable/stations.py": py(
                "read(text)",
                '"""Stations from lines `name mean amplitude speed phase …`."""',
                "stations = {}",
                "for line in text.splitlines():",
                "    name, mean, *rest = line.split()",
                "    groups = zip(*[iter(map(float, rest))] * 3)",
                "    stations[name] = (float(mean), [Harmonic(*one) for one in groups])",
                "return stations",
            )
        },
    ),
    (
        "sunniva",
        1,
        "Test reading",
        {
            "tests/test_stations.py": "from tidetable.stations import read\n"
            + py("test_a_line_is_a_station()", 'assert list(read("Hythe 0.2 1.0 28.984 0")) == ["Hythe"]')
        },
    ),
    (
        "wren",
        14,
        "Smooth curve",
        {
            "web/chart.js": js(
                "smooth (heights)", "// TODO: cubic", "return heights.map((h, i) => (h + (heights[i + 1] ?? h)) / 2)"
            )
        },
    ),
    (
        "wren",
        2,
        "Test the chart",
        {"web/chart.test.js": TEST_CHART},
    ),
    (
        "ines",
        33,
        "Heights in a list",
        {"tidetable/predict.py": py("day(name, start)", "return [height(name, start + hour) for hour in range(24)]")},
    ),
    (
        "tomas",
        4,
        "A day at once",
        {
            "tidetable/cli.py": ("from tidetable.predict import height,", "from tidetable.predict import day, height,"),
            "tidetable/predict.py": ("def day(name, start)", "def day(name, start=0)"),
        },
    ),
    ("wren", 11, "Keep the axis inside", {"web/chart.js": ("length: hours", "length: Math.max(hours, 1)")}),
    (
        "sunniva",
        19,
        "Comments in station files",
        {
            "tidetable/stations.py": (
                "    for line in text.splitlines():\n",
                "    for line in text.splitlines():\n"
                '        line = line.split("#")[0]\n        if not line.strip():\n            continue\n',
            ),
            "tests/test_stations.py": py("test_a_comment_is_no_station()", 'assert read("# nothing") == {}'),
        },
    ),
    (
        "ines",
        27,
        "Phase below zero",
        {
            "tidetable/harmonics.py": ("- self.phase))", "- self.phase % 360))"),
            "tests/test_harmonics.py": py(
                "test_a_phase_may_be_negative()", "assert Harmonic(1.0, 30.0, -60.0).height(10) == 1.0"
            ),
        },
    ),
    (
        "tomas",
        5,
        "Refuse unknown stations",
        {
            "tidetable/cli.py": (
                "    hours = int",
                '    if name not in STATIONS:\n        raise SystemExit(f"no station {name}")\n    hours = int',
            )
        },
    ),
    (
        "wren",
        9,
        "Empty charts",
        {
            "web/chart.js": ("  const x = scale", "  if (!heights.length) return ''\n  const x = scale"),
            "web/chart.test.js": TEST_EMPTY_CHART,
        },
    ),
    (
        "sunniva",
        16,
        "Say what a station file is",
        {"docs/stations.md": "\nA line: name, mean height, then amplitude, speed and phase of each harmonic.\n"},
    ),
    (
        "ines",
        21,
        "Faster ranges",
        {"tidetable/predict.py": ("    # XXX: too slow for a whole year\n", "    # TODO: keep what was computed\n")},
    ),
    (
        "tomas",
        13,
        "Hours as a list",
        {
            "tidetable/predict.py": (
                "    return mean + sum",
                "    # the mean of the year, not of the day\n    return mean + sum",
            )
        },
    ),
    ("wren", 7, "Names in charts", {"web/chart.js": ("return `${name} ${", "return `${name || '?'} ${")}),
    (
        "sunniva",
        6,
        "A fourth station",
        {
            "tidetable/stations.py": (
                '    "Port Ash"',
                '    "Hythe": (0.2, [Harmonic(1.03, 28.984, 77.0)]),\n    "Port Ash"',
            )
        },
    ),
    (
        "ines",
        4,
        "Release 0.2",
        {"pyproject.toml": ('"0.1"', '"0.2"'), "README.md": "\n    python -m tidetable.cli Lowmoor 24\n"},
    ),
]


def stream() -> bytes:
    """The story in the language of `git fast-import`."""
    files: dict[str, str] = {}
    out: list[bytes] = []
    when = START
    for number, (who, days, subject, changes) in enumerate(STORY, 1):
        when += days * 86_400 + 3_700
        stamp = f"{PEOPLE[who]} {when} +0000"
        out.append(f"commit refs/heads/main\nmark :{number}\nauthor {stamp}\ncommitter {stamp}\n".encode())
        out.append(_data(subject + "\n"))
        for path, change in changes.items():
            files[path] = _changed(files.get(path, ""), change, subject)
            out.append(f"M 100644 inline {path}\n".encode() + _data(files[path]))
        out.append(b"\n")
    return b"".join(out)


def _changed(text: str, change: str | tuple[str, str], subject: str) -> str:
    """The text of a file with something added, or replaced once."""
    if isinstance(change, str):
        return text + change
    if change[0] not in text:
        raise ValueError(f"{subject}: {change[0]!r} is not there")
    return text.replace(change[0], change[1], 1)


def _data(text: str) -> bytes:
    raw = text.encode()
    return b"data %d\n" % len(raw) + raw + b"\n"


def make(directory: Path) -> str:
    """The repository in this empty directory; returns the id of its newest commit."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C"}

    def git(*args: str, given: bytes | None = None) -> str:
        done = subprocess.run(["git", *args], cwd=directory, env=env, input=given, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("-c", "init.defaultBranch=main", "init", "-q", ".")
    git("fast-import", "--quiet", given=stream())
    return git("rev-parse", "main")


def bundle(directory: Path, target: Path) -> None:
    """The repository of this directory as a bundle."""
    command = ["git", "-c", "pack.threads=1", "bundle", "create", "-q", str(target), "HEAD", "main"]
    subprocess.run(command, cwd=directory, check=True)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        newest = make(Path(scratch))
        bundle(Path(scratch), BUNDLE)
    sys.stdout.write(f"{BUNDLE} ({BUNDLE.stat().st_size} bytes), newest commit {newest}\n")
