"""Plan files: `plans/<three words>.md`, one for each plan, readable by its owner alone.

Creating the file reserves its name, so that two plans never share one. Depends on the operating system alone.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from teamwright.storage.files import read_plain, storage_error, write_atomic
from teamwright.storage.paths import make_private

MAX_BYTES = 100_000
"""Bytes of the longest plan: the approver has to read it."""

_TRIES = 64


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_QUALITIES = _split_words("""
amber ample apt bold brave brief bright brisk broad calm clear clever cool crisp deep deft eager early even fair fine
firm fleet fond fresh gentle glad grand green keen kind large late level light lively loyal lucid mild neat noble open
patient plain polite prompt proud quick quiet ready rapid ripe round sharp silver sincere slow smooth soft solid steady
still sunny sure sweet swift tidy true trusty vivid warm wide wise witty young
""")

_KINDS = _split_words("""
alder apple ash autumn bamboo barley basalt beech birch brook canyon cedar cherry chestnut clay cliff clover coast
copper coral cotton creek delta desert dune elm evening fern field fjord forest garden glacier granite harbor hazel
heather hill island ivy jasmine juniper lake larch lemon lilac linen maple marble marsh meadow mesa mint morning moss
mountain north oak olive orchard pebble pine plum poppy prairie quartz reed ridge river sage sand slate south spring
spruce stone summer thyme tundra valley walnut willow winter
""")

_BEINGS = _split_words("""
badger bear beaver bison bittern bunting buzzard camel cat condor coot crane cricket crow curlew deer dolphin dove duck
eagle egret elk falcon ferret finch fox gazelle gecko goose grouse gull hare hawk hedgehog heron hoopoe horse ibex ibis
jackdaw jay kestrel kingfisher kite koala lark lemur linnet lizard llama lynx magpie marten merlin mole moose mouse newt
nuthatch ocelot oriole osprey otter owl panda parrot pelican penguin petrel pigeon plover puffin quail rabbit raven
robin salmon seal shrew skylark snipe sparrow squirrel starling stork swallow swan tapir teal tern thrush toad trout
turtle vole wagtail walrus weasel whale wolf wombat wren yak zebra
""")


def plan_name() -> str:
    """Return three random words, such as `brave-cedar-otter`."""
    return "-".join(secrets.choice(words) for words in (_QUALITIES, _KINDS, _BEINGS))


def reserve_plan(directory: Path) -> Path:
    """Create a new, empty plan file in this directory, 0600, under an unused name, and return it. Raises
    StorageError.
    """
    for _ in range(_TRIES):
        path = directory / f"{plan_name()}.md"
        if create_plan_file(path):
            return path
    path = directory / f"{plan_name()}-{secrets.token_hex(4)}.md"
    create_plan_file(path)
    return path


def create_plan_file(path: Path) -> bool:
    """Create the empty file, 0600; return False when it exists already. Raises StorageError."""
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    except OSError as problem:
        raise storage_error(problem, path) from problem
    os.close(descriptor)
    return True


def read_plan(path: Path) -> str | None:
    """Return the plan; None when the file is missing. Raises StorageError, also for a plan that is too long
    (`io-failed`)."""
    try:
        return read_plain(path, MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem


def write_plan(path: Path, text: str) -> None:
    """Write the whole plan, 0600. Raises StorageError."""
    write_atomic(path, text.encode("utf-8", "replace"))


def remove_if_empty(path: Path) -> None:
    """Remove a reserved file that is still empty; one that cannot be removed stays."""
    try:
        if os.lstat(path).st_size == 0:
            os.unlink(path)
    except OSError:
        return
