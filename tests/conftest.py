"""What every test gets: asyncio, a home of its own, an environment without keys."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # no test depends on the speed of a machine
settings.load_profile("house")

CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENROUTER_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state root and a user's home for this test alone; no test sees a real key or real settings."""
    root = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(root / ".teamwright"))
    for name in [*CREDENTIALS, *(n for n in os.environ if n.startswith(("TEAMWRIGHT_", "CLAUDE", "AWS_")))]:
        if name != "TEAMWRIGHT_HOME":
            monkeypatch.delenv(name, raising=False)
    for name in ("CI", "TEAMWRIGHT"):
        monkeypatch.delenv(name, raising=False)
    return root
