import subprocess
from pathlib import Path

import pytest

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small git repository with one commit."""
    root = tmp_path / "repo"
    root.mkdir()
    (root / "README.md").write_text("# A small project\n")
    (root / "main.py").write_text("print('hello')\n")
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run([*GIT, "add", "README.md", "main.py"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "begin"], cwd=root, check=True)
    return root


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sandbox: commands of the test write outside of the session's directories, or write their process ids."""
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "off")
