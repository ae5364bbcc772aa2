"""Secrets in texts of other programs: however a service or a server writes them, they are masked."""

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from teamwright.mcp.server_config import ConfigSource, parse_servers
from teamwright.models.endpoint import Endpoint
from teamwright.session.command_start import mask_secrets
from teamwright.views.bug_report import Redactor

KEY = "tok-Blue+Whale/42?0123456789~end"
WRITTEN = {
    "base64": b64encode(KEY.encode()).decode(),
    "base64 after one byte": b64encode(f":{KEY}".encode()).decode(),
    "base64 of a name and the key": b64encode(f"a:{KEY}".encode()).decode(),
    "base64 for addresses": urlsafe_b64encode(f"?>{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "hex in capitals": KEY.encode().hex().upper(),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded in small letters": quote(KEY, safe="")
    .replace("%2B", "%2b")
    .replace("%2F", "%2f")
    .replace("%3F", "%3f"),
    "percent-encoded everywhere": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "reversed": KEY[::-1],
    "plain": KEY,
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_key_in_a_text_of_a_model_service_or_an_mcp_server_is_masked_in_every_encoding(written, tmp_path):
    text = f"you sent {written} and it is wrong"
    endpoint = Endpoint("acme", "https://models.example", KEY)
    entry = {"command": "serve", "env": {"KEY": KEY}}
    [server], _ = parse_servers({"one": entry}, ConfigSource("a test", tmp_path, {}))
    report = Redactor({}, (KEY,))
    for masked in (endpoint.scrub(text), server.mask_secrets(text), report.text(text)):
        assert masked.startswith("you sent ")
        assert masked.endswith(" and it is wrong")
        left = masked.removeprefix("you sent ").removesuffix(" and it is wrong")
        assert not any(written[at : at + 8] in left for at in range(len(written) - 7)), left


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("name", ["SERVICE_KEY", "SSHPASS", "DB_PASS"])
def test_a_secret_of_the_environment_is_masked_in_every_encoding_on_the_screen(written, name):
    masked = mask_secrets(f"it says {written}", {name: KEY, "PATH": "/usr/bin"})
    assert masked == ("it says …~end" if written == KEY else masked)
    assert not any(written[at : at + 8] in masked for at in range(len(written) - 7)), masked


def test_a_text_without_the_key_stays_as_it_is():
    text = "request 7f3a2b1c9d0e4f55 of model blue-whale-42 failed: 100%25 of https://models.example/a?b=c%2Fd"
    assert Endpoint("acme", "https://models.example", KEY).scrub(text) == text
