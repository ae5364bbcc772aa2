"""A policy that is narrowed to another one never allows more than that one."""

from hypothesis import given
from hypothesis import strategies as st

from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside, narrow

PATHS = st.frozensets(st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/d/e", "/ab"]), max_size=4)
POLICIES = st.builds(
    SandboxPolicy,
    st.sampled_from(PolicyName),
    readable=PATHS,
    writable=PATHS,
    protected=PATHS,
    hidden=PATHS,
    visible=PATHS,
    network=st.sampled_from(NetworkAccess),
    temporary=st.sampled_from(["", "/t"]),
)
EVERY = ["/a", "/a/b", "/a/b/c", "/a/b/c/f", "/a/x", "/d", "/d/e", "/d/e/f", "/ab", "/z"]


def inside(path: str, directories) -> bool:
    return any(is_inside(path, directory) for directory in directories)


def can_write(policy: SandboxPolicy, path: str) -> bool:
    if policy.name is PolicyName.UNCONFINED:
        return True
    kept = inside(path, policy.protected) or inside(path, policy.hidden)
    return policy.name is PolicyName.WORK and inside(path, policy.writable) and not kept


def can_read(policy: SandboxPolicy, path: str) -> bool:
    if policy.name is PolicyName.UNCONFINED or inside(path, policy.visible):
        return True
    if inside(path, policy.hidden):
        return False
    return policy.name is PolicyName.WORK or inside(path, policy.readable)


@given(POLICIES, POLICIES)
def test_a_child_is_never_wider_than_its_parent(policy, parent):
    made = narrow(policy, parent)
    for path in EVERY:
        assert not can_write(made, path) or (can_write(parent, path) and can_write(policy, path))
        assert not can_read(made, path) or (can_read(parent, path) and can_read(policy, path))
    order = list(NetworkAccess)
    for one in (policy, parent):
        if one.name is not PolicyName.UNCONFINED:
            assert order.index(made.network) <= order.index(one.network)


@given(POLICIES)
def test_a_policy_that_is_narrowed_to_itself_is_the_same(policy):
    made = narrow(policy, policy)
    assert all(can_write(made, path) == can_write(policy, path) for path in EVERY)
    assert all(can_read(made, path) == can_read(policy, path) for path in EVERY)
