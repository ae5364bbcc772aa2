"""Keys of AWS, and requests that they sign with Signature Version 4.

Keys come from the environment; those of a profile (single sign-on, roles, processes) are read with `botocore`, which
the extra `providers` installs. No request goes to a machine's metadata service. Format:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (seen 2026-11-21)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from teamwright.models.endpoint import Endpoint, Signing
from teamwright.models.providers.api_format import OutgoingRequest
from teamwright.models.service_error import ServiceAnswer, ServiceError
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.secret_texts import repr_without

SERVICE = "bedrock"
PROFILES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Variables that refer to keys outside the environment."""
EXTRA = "pip install 'teamwright[providers]'"


class AwsKeys(Struct, frozen=True):
    """Keys that are valid now."""

    access_key: str
    secret: str
    session_token: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "secret", "session_token")


def find_region(env: Mapping[str, str]) -> str:
    """Return the region of the environment; empty when none is set."""
    return env.get("AWS_REGION", "").strip() or env.get("AWS_DEFAULT_REGION", "").strip()


def find_signing(env: Mapping[str, str]) -> tuple[Signing, str, str] | None:
    """Return how this environment signs requests, the variable that says so, and the secret (empty for a profile's).

    None where it does not say.
    """
    access, secret = env.get("AWS_ACCESS_KEY_ID", "").strip(), env.get("AWS_SECRET_ACCESS_KEY", "").strip()
    if access and secret:
        return (
            Signing(find_region(env), access, env.get("AWS_SESSION_TOKEN", "").strip()),
            "AWS_SECRET_ACCESS_KEY",
            secret,
        )
    elsewhere = next((name for name in PROFILES if env.get(name, "").strip()), "")
    if not elsewhere:
        return None
    return Signing(find_region(env), profile=env.get("AWS_PROFILE", "").strip() or "default"), elsewhere, ""


def require_signing(endpoint: Endpoint) -> None:
    """Raise CannotStart when the reader of profiles is not installed, or no region is named."""
    signing = endpoint.signing
    if signing is not None and signing.profile and find_spec("botocore") is None:
        name = endpoint.key_name
        raise CannotStart(
            "no-model",
            f"bedrock is to use {name}, and what reads it is not installed",
            looked_at=[("looked at", f"AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID: none set; {name} is")],
            do=[EXTRA, "export AWS_BEARER_TOKEN_BEDROCK=…   (an API key of Bedrock needs nothing installed)"],
        )
    if "REGION" in endpoint.base_url or (signing is not None and not signing.region):
        raise CannotStart(
            "no-model",
            "bedrock needs a region",
            looked_at=[("looked at", "AWS_REGION, AWS_DEFAULT_REGION: none set")],
            do=["export AWS_REGION=us-east-1          (or where your models are)"],
        )


@cache
def _session(profile: str) -> Any:
    """Return the session of a profile. Never uses a machine's metadata service, which the user did not name."""
    botocore: Any = import_module("botocore.session")
    session = botocore.Session(profile=None if profile == "default" else profile)
    session.get_component("credential_provider").remove("iam-role")
    return session


def profile_keys(profile: str) -> AwsKeys:
    """Return the keys of a profile, renewed shortly before they expire. Blocking. Raises `ServiceError`."""
    try:
        found = _session(profile).get_credentials()
        frozen = found.get_frozen_credentials() if found is not None else None
    except Exception as problem:  # botocore has many kinds of errors, with the same meaning here
        raise ServiceError("http", str(problem), ServiceAnswer(401)) from None
    if frozen is None or not frozen.secret_key:
        raise ServiceError("http", f"no keys in the profile {profile}", ServiceAnswer(401))
    return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")


def endpoint_keys(endpoint: Endpoint) -> AwsKeys:
    """Return the keys that sign for an endpoint now. Blocks where they are in a profile. Raises `ServiceError`."""
    signing = endpoint.signing
    if signing is None or not signing.profile:
        access, token = (signing.access_key, signing.session_token) if signing else ("", "")
        return AwsKeys(access, endpoint.credential, token)
    return profile_keys(signing.profile)


def sign_request(
    outgoing: OutgoingRequest, keys: AwsKeys, region: str, *, method: str = "POST", at: datetime | None = None
) -> list[tuple[str, str]]:
    """Return the headers of a request with a signature. `at` defaults to now."""
    moment = at or datetime.now(UTC)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    parts = urlsplit(outgoing.url)
    own = {"host": parts.netloc.rpartition("@")[2], "x-amz-date": stamp}
    if keys.session_token:
        own["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(own))
    canonical = "\n".join(
        [
            method,
            quote(parts.path or "/", safe="/-_.~"),
            "&".join(sorted(parts.query.split("&"))),
            *(f"{name}:{own[name]}" for name in sorted(own)),
            "",
            names,
            hashlib.sha256(outgoing.body).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{SERVICE}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for step in (day, region, SERVICE, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    proof = f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    sent = [(name, value) for name, value in own.items() if name != "host"]
    return [*outgoing.headers, *sent, ("authorization", proof)]
