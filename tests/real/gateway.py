"""LiteLLM as a process in front of a server, on a free port of 127.0.0.1, with a key of its own."""

import json
import os
import secrets
import subprocess
import threading
from pathlib import Path

import pytest

from tests.real.local_server import START_S, free_port

PYTHON = os.environ.get("TEAMWRIGHT_REAL_LITELLM", "")
"""The Python of the environment that has LiteLLM."""

needs_gateway = [
    pytest.mark.skipif(not PYTHON, reason="`make real LITELLM=1` runs it: LiteLLM takes 756 MB"),
    pytest.mark.timeout(900),
]
"""The marks of each test with LiteLLM."""

KEY_ENV = "GATEWAY_KEY"
"""The variable that the settings name for the key."""

WINDOW = 8_192
"""Tokens; LiteLLM does not say it."""


class Gateway:
    """LiteLLM with the model `smollm2`, which a server has that speaks the API of OpenAI."""

    def __init__(self, directory: Path, upstream: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.key = f"sk-{secrets.token_hex(24)}"
        model = {"model": "openai/smollm2", "api_base": f"{upstream}/v1", "api_key": "none"}
        settings = {"num_retries": 0}
        config = directory / "litellm.json"
        config.write_text(
            json.dumps(
                {
                    "model_list": [{"model_name": "smollm2", "litellm_params": model}],
                    "litellm_settings": settings,
                    "router_settings": settings,
                }
            )
        )
        command = [str(Path(PYTHON).with_name("litellm")), "--config", str(config), "--host", "127.0.0.1"]
        # Its table of models is read from the package, not from the network.
        own = {"LITELLM_MASTER_KEY": self.key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | own,
        )
        self._log: list[str] = []
        ready = threading.Event()
        threading.Thread(target=self._read, args=(ready,), daemon=True).start()
        if not ready.wait(2 * START_S):
            raise AssertionError("".join(self._log[-40:]))

    def _read(self, ready: threading.Event) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._log.append(line)
            if "Uvicorn running on" in line:
                ready.set()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(START_S)
