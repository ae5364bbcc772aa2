"""For the tests of dialects: the same adapter in each API, on the same loopback server."""

import pytest

from teamwright.models.endpoint import Signing

AUTH = {
    "openai-chat": {"auth": "bearer"},
    "openai-responses": {"auth": "bearer"},
    "gemini": {"auth": "x-goog-api-key"},
    "bedrock": {"auth": "signed", "signing": Signing("eu-central-1", "AKIATESTACCESSKEY")},
}
APIS = tuple(AUTH)


def address(api, url):
    """The base URL of an API at a server."""
    return f"{url}/v1" if api.startswith("openai") else url


@pytest.fixture
def speaking(client):
    """An adapter that speaks an API."""

    def make(api, url, **options):
        return client(address(api, url), api=api, **{**AUTH[api], **options})

    return make


@pytest.fixture(params=APIS)
def api(request):
    return request.param
