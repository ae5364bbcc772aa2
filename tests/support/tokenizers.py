"""Real tokenizers whose tables are in a package. Each counts in a program of its own, which need not have this project.

`TEAMWRIGHT_TOKENIZER_PYTHONS` names Pythons that have bpe-openai or ctok, apart by colons; `NODE_PATH` the packages of
npm; `TEAMWRIGHT_REAL_PYTHON` the Python with llama.cpp and the GGUF (`make real`).
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

REAL = Path(__file__).parents[1] / "real"
PYTHONS = [sys.executable, *filter(None, os.environ.get("TEAMWRIGHT_TOKENIZER_PYTHONS", "").split(":"))]
REAL_PYTHON = os.environ.get("TEAMWRIGHT_REAL_PYTHON", "")
"""Read at the import: no test sees variables of the program."""

COUNT_S = 60.0
START_S = 120.0

PYTHON = "import json, sys\nfrom {module} import {names}\nprint(json.dumps([{count} for text in json.load(sys.stdin)]))"
NODE = """const { encode } = require("gpt-tokenizer/encoding/o200k_base")
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"))
console.log(JSON.stringify(texts.map((text) => encode(text).length)))"""

Count = Callable[[Sequence[str]], list[int]]


def _run(command: Sequence[str], texts: Sequence[str]) -> list[int]:
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=COUNT_S, check=True)
    return json.loads(done.stdout)


def _python_with(module: str) -> str:
    """Return a Python that has the package. Without one the test is skipped."""
    for python in PYTHONS:
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, timeout=COUNT_S).returncode == 0:
            return python
    pytest.skip(f"no Python here has {module}: `make tokens`")


@contextmanager
def bpe_openai() -> Iterator[Count]:
    """Count with the table of GPT-4o and later."""
    names, count = "get_encoding", "len(get_encoding('o200k_base').encode(text))"
    script = PYTHON.format(module="bpe_openai", names=names, count=count)
    python = _python_with("bpe_openai")
    yield lambda texts: _run([python, "-c", script], texts)


@contextmanager
def ctok() -> Iterator[Count]:
    """Count as an estimate for Claude."""
    script = PYTHON.format(module="ctok", names="token_count", count="token_count(text)")
    python = _python_with("ctok")
    yield lambda texts: _run([python, "-c", script], texts)


@contextmanager
def gpt_tokenizer() -> Iterator[Count]:
    """Count with npm's gpt-tokenizer."""
    node = shutil.which("node")

    if node is None or subprocess.run([node, "-e", NODE], input="[]", capture_output=True, text=True).returncode:
        pytest.skip("no node here has gpt-tokenizer in its NODE_PATH: `make tokens`")
    yield lambda texts: _run([node, "-e", NODE], texts)


@contextmanager
def gguf() -> Iterator[Count]:
    """Count with the tokenizer in the GGUF of SmolLM2, on a llama.cpp server."""
    if not REAL_PYTHON:
        pytest.skip("TEAMWRIGHT_REAL_PYTHON names no Python: `make real`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [REAL_PYTHON, str(REAL / "server.py"), str(port), str(REAL / "tools.jinja"), "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def count(text: str) -> int:
        body = json.dumps({"content": text}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/tokenize", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=COUNT_S) as answer:
            return len(json.load(answer)["tokens"])

    try:
        assert server.stdout is not None and any(line.startswith("ready") for line in server.stdout)
        yield lambda texts: [count(text) for text in texts]
    finally:
        server.kill()
        server.wait(START_S)


TOKENIZERS = {"bpe-openai": bpe_openai, "gpt-tokenizer": gpt_tokenizer, "ctok": ctok, "SmolLM2": gguf}
