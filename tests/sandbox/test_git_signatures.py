"""An allowed commit or tag is signed in the sandbox, with what the question names."""

import asyncio
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from teamwright.protocol.events import RequestOpened
from tests.sandbox.test_refusals import BYPASS, run, sign_commits, subjects
from tests.support.programs import needs
from tests.support.repositories import git
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.usefixtures("bubblewrap")


@needs("ssh-keygen")
@pytest.mark.slow
async def test_an_allowed_commit_is_signed_and_the_question_names_the_keys(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    sign_commits(home, work)
    (home / ".ssh/id_ed25519").write_text("PRIVATE-KEY")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    asked: list[str] = []

    async def answer(request: RequestOpened) -> None:
        asked.append(request.what)
        await request.allow()

    for line in ("git commit --allow-empty -m signed", "git tag -s v1 -m signed; cat ~/.ssh/id_ed25519"):
        [text], _ = await run(tmp_path, line, on_request=answer)
        [first, *more] = asked.pop().removeprefix(f"{line}\n").split("\n")
        assert first == "# in the sandbox with: keys for signatures, the ssh agent" and not asked
        assert [one.partition(";")[0] for one in more] == ["# the sandbox hides ~/.ssh/id_ed25519"] * ("cat" in line)
    assert subjects(work) == "signed\n" and "PRIVATE-KEY" not in text
    assert "BEGIN SSH SIGNATURE" in git(work, "cat-file", "tag", "v1")


@needs("gpg")
@needs("gpg-agent")
async def test_gpg_signs_by_its_agent_and_its_private_keys_stay_hidden(tmp_path, monkeypatch):
    home, work = Path(tempfile.mkdtemp(prefix="h")), tmp_path / "work"  # a socket's path is short
    (home / ".gnupg").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    made = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", "t@example.org", "ed25519", "sign"]
    try:
        await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True, timeout=WAIT_S)
        (home / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n\tsigningkey = t@example.org\n")
        work.mkdir()
        git(work, "init", "-q")
        look = "ls ~/.gnupg/private-keys-v1.d"
        [text], _ = await run(tmp_path, f"git commit -S --allow-empty -m signed; {look}", **BYPASS)
        assert subjects(work) == "signed\n", text
        assert "BEGIN PGP SIGNATURE" in git(work, "cat-file", "commit", "HEAD")
        assert ".key" not in text
    finally:
        await asyncio.to_thread(subprocess.run, ["gpgconf", "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)
