"""For the tests of models: an adapter on a loopback server, and what comes out of it."""

import pytest

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import ModelCard, Prefix, Request
from teamwright.models.model_pool import format_for
from teamwright.models.model_settings import ModelSettings
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.service_model import ServiceModel
from teamwright.protocol.messages import encode, text_block

KEY = "sk-test-0123456789-SECRET-wxyz"


def quick(**changes):
    """Settings with short pauses; long limits stay long, so that nothing depends on a slow machine."""
    return ModelSettings(**{"backoff_s": 0.001, "backoff_most_s": 0.01, **changes})


def user(text="Hello"):
    return encode({"role": "user", "content": [text_block(text)]})


class Asked:
    """All parts of one answer."""

    def __init__(self, parts):
        self.parts = parts
        self.last = parts[-1]

    def of(self, kind):
        return [part for part in self.parts if isinstance(part, kind)]


class Client:
    """One adapter and the ways in which the tests call it."""

    def __init__(self, url, *, provider="custom", settings=None, rate_limiter=None, key=KEY, card=None, **endpoint):
        self.card = card or ModelCard("custom/test", "test", provider, usd_in=1.0, usd_out=10.0)
        self.endpoint = Endpoint(provider, url, key, key_name="TEST_API_KEY", **endpoint)
        self.rate_limiter = rate_limiter or RateLimiter(backoff_s=0.001, max_backoff_s=0.01)
        self.settings = settings or quick()
        toolset = {
            "rate_limiter": self.rate_limiter,
            "settings": self.settings,
            "api_format": format_for(self.card, self.endpoint),
        }
        self.model = ServiceModel(self.card, self.endpoint, **toolset)

    def request(self, *items, betas=(), asker="ada", **fields):
        prefix = Prefix.build({"model": self.card.wire, "max_tokens": 100, **fields}, betas)
        return Request(prefix, items or [user()], asker)

    async def ask(self, *items, **request):
        return Asked([part async for part in self.model.stream(self.request(*items, **request))])

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.model.aclose()


@pytest.fixture
def client():
    return Client


@pytest.fixture(name="quick")
def quick_fixture():
    return quick


@pytest.fixture(name="user")
def user_fixture():
    return user


@pytest.fixture
def key():
    return KEY
