"""The number of examples that Hypothesis tries: few and always the same in `make test`, all in `make test-all`.

`pytest --hypothesis-profile=full` chooses all of them.
"""

from hypothesis import settings

QUICK, FULL = "quick", "full"

settings.register_profile(FULL, deadline=None, max_examples=100)  # no test depends on the speed of a machine
settings.register_profile(QUICK, deadline=None, max_examples=20, derandomize=True)  # the same examples in each run


def examples(full: int) -> int:
    """Return how many examples a test tries that has a number of its own: `full` of them under the profile `full`."""
    return full if settings.get_current_profile_name() == FULL else min(full, max(10, full // 5))
