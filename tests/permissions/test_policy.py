"""The policy as a whole: order of verdicts, narrowing, what always offers, tools by name, and that it only tightens."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rule, parse_rules
from teamwright.permissions.verdict import HARMLESS, Access, Mode, Verdict, parse_mode, stricter
from teamwright.protocol.errors import UsageError
from teamwright.protocol.runtime_tags import split_rules
from tests.permissions.scratch import ScratchRepository, judge
from tests.support.examples import examples
from tests.support.waits import WAIT_S

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


@pytest.fixture(scope="module")
def calls(scratch: ScratchRepository):
    """A few calls of every kind."""
    project = scratch.project
    commands = ["ls", "git push", "npm test", "cat a.py && rm b.py", "touch src/x", "ls )", "cat link/secret", "git $X"]
    found = [("Bash", Access(command=command, cwd=project)) for command in commands]
    for path in ("a.py", "link/secret", ".git/config", "src/x.py", str(scratch.home / "trust.json"), "/etc/hosts"):
        found += [(tool, Access(reads=(project / path,))) for tool in ("Read", "Grep")]
        found += [(tool, Access(writes=(project / path,))) for tool in ("Edit", "Write")]
    found += [
        ("WebFetch", Access(url=url)) for url in ("https://example.org/x", "https://a.example.org", "http://[bad")
    ]
    found += [("Agent", Access(subject=kind, harmless=True)) for kind in ("Explore", "general")]
    found += [("TaskCreate", HARMLESS), ("mcp__db__query", Access()), ("python__count", Access())]
    return found


RULES_TEXT = """
Bash, Bash(ls:*), Bash(git:*), Bash(git push:*), Bash(npm test), Bash(* test), Bash(rm:*), Bash(cat:*), Bash(touch:*),
Read, Read(a.py), Read(link/**), Read(//etc/**), Read(**), Edit, Edit(src/**), Edit(.git/**), Edit(**), Write,
Write(src/**), WebFetch, WebFetch(domain:example.org), WebFetch(domain:*.example.org), Agent, Agent(Explore),
Agent(Exp*), TaskCreate, mcp__db, mcp__db__*, mcp__*, python__count, python__*, Grep
"""
RULES = split_rules(RULES_TEXT)
rule_lists = st.lists(st.sampled_from(RULES), max_size=4)
modes = st.sampled_from(list(Mode))
own_modes = st.sampled_from([mode for mode in Mode if mode is not Mode.BUBBLE])


@pytest.mark.promise("G2")
@settings(max_examples=examples(60), deadline=None)
@given(mode=modes, allow=rule_lists, ask=rule_lists, deny=rule_lists, more=st.sampled_from(RULES))
def test_one_more_deny_or_ask_never_widens_and_one_more_allow_never_denies(
    scratch, calls, mode, allow, ask, deny, more
):
    base = scratch.policy(mode, allow, ask, deny)
    denied = scratch.policy(mode, allow, ask, [*deny, more])
    asked = scratch.policy(mode, allow, [*ask, more], deny)
    allowed = scratch.policy(mode, [*allow, more], ask, deny)
    for tool, access in calls:
        before = base.decide(tool, access).verdict
        assert stricter(denied.decide(tool, access).verdict, before) is denied.decide(tool, access).verdict
        assert stricter(asked.decide(tool, access).verdict, before) is asked.decide(tool, access).verdict
        after = allowed.decide(tool, access).verdict
        assert stricter(after, before) is before


@pytest.mark.promise("F46")
@settings(max_examples=examples(60), deadline=None)
@given(mine=own_modes, theirs=modes, allow=rule_lists, deny=rule_lists, above=rule_lists, later=modes)
def test_a_narrowed_policy_is_never_wider_than_any_above_it(scratch, calls, mine, theirs, allow, deny, above, later):
    lead = scratch.policy(theirs, deny=above)
    middle = scratch.policy(Mode.BYPASS).narrow_to(lead)
    child = scratch.policy(mine, allow, deny=deny).narrow_to(middle)
    alone = scratch.policy(mine, allow, deny=deny)
    for mode in (theirs, later):
        lead.change_mode(mode)
        for tool, access in calls:
            verdict = child.decide(tool, access).verdict
            assert verdict is stricter(alone.decide(tool, access).verdict, lead.decide(tool, access).verdict)


@pytest.mark.promise("F46")
def test_a_rule_that_is_added_above_holds_below_at_once(scratch):
    lead = scratch.policy(Mode.BYPASS)
    child = lead.with_mode(Mode.BYPASS).narrow_to(lead)
    push = Access(command="git push", cwd=scratch.project)
    assert child.decide("TaskCreate", HARMLESS).verdict is ALLOW
    assert child.decide("Bash", push).verdict is ALLOW
    lead.add_rules(*parse_rules(["Bash(git push:*)", "TaskCreate"], DENY, "later", scratch.project))
    assert child.decide("Bash", push).verdict is DENY
    assert child.decide("TaskCreate", HARMLESS).verdict is DENY
    assert child.hidden_tools == {"TaskCreate"}


@pytest.mark.promise("F45")
@pytest.mark.parametrize("mode", list(Mode))
def test_the_same_call_under_the_same_rules_has_the_same_verdict_at_every_depth(scratch, calls, mode):
    rules = {"allow": ["Bash(npm test:*)", "Edit(src/**)"], "ask": ["Read(a.py)"], "deny": ["WebFetch"]}
    lead = scratch.policy(mode, **rules)
    teammate = lead.with_mode(mode).narrow_to(lead)
    subagent = teammate.with_mode(mode).narrow_to(teammate)
    for tool, access in calls:
        assert judge(lead, tool, access) == judge(teammate, tool, access) == judge(subagent, tool, access)


@pytest.mark.promise("G1")
def test_not_asking_turns_every_ask_into_a_denial_and_nothing_else(scratch, calls):
    rules = {"allow": ["Bash(npm test:*)"], "ask": ["Read(a.py)"]}
    asking, silent = scratch.policy(Mode.DEFAULT, **rules), scratch.policy(Mode.DONT_ASK, **rules)
    for tool, access in calls:
        before, after = asking.decide(tool, access), silent.decide(tool, access)
        assert after.verdict is (DENY if before.verdict is ASK else before.verdict)
        assert after.rule.replace("dontAsk", "default") == before.rule


@pytest.mark.promise("G1")
def test_bypass_allows_all_but_what_is_denied_or_private(scratch, calls):
    policy = scratch.policy(Mode.BYPASS, ask=["Bash", "Edit"], deny=["WebFetch(domain:example.org)"])
    refused = {
        (tool, access.url or str((access.reads or access.writes or ("",))[0]))
        for tool, access in calls
        if policy.decide(tool, access).verdict is not ALLOW
    }
    private = str(scratch.home / "trust.json")
    assert refused == {
        *((tool, private) for tool in ("Read", "Grep", "Edit", "Write")),
        *(("WebFetch", url) for url in ("https://example.org/x", "https://a.example.org", "http://[bad")),
    }


@pytest.mark.promise("G2")
def test_every_verdict_names_what_said_so_in_one_plain_sentence(scratch, calls):
    for mode in Mode:
        policy = scratch.policy(mode, allow=["Bash(npm test:*)"], ask=["Bash(ls:*)"], deny=["Edit(src/**)"])
        for tool, access in calls:
            decision = policy.decide(tool, access)
            assert decision.rule
            assert decision.reason.endswith(".")
            assert "\n" not in decision.reason
            assert not decision.find_always() or decision.verdict is ASK


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    ("rule", "tool", "access", "matches"),
    [
        ("Agent(Explore)", "Agent", Access(subject="Explore"), True),
        ("Agent(Explore)", "Agent", Access(subject="general"), False),
        ("Task(Explore)", "Agent", Access(subject="Explore"), True),
        ("Agent", "Agent", Access(subject="x"), True),
        ("mcp__db__*", "mcp__db__query", Access(), True),
        ("mcp__db", "mcp__db__query", Access(), True),
        ("mcp__db", "mcp__dbs__query", Access(), False),
        ("mcp__db__query", "mcp__db__drop", Access(), False),
        ("python__count", "python__count", Access(), True),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://example.org/a?b"), True),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://EXAMPLE.org.:443/"), True),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://example.org.evil.net/"), False),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://example.org@evil.net/"), False),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://evil.net/example.org"), False),
        ("WebFetch(domain:example.org)", "WebFetch", Access(url="https://a.example.org/"), False),
        ("WebFetch(domain:*.example.org)", "WebFetch", Access(url="https://a.example.org/"), True),
        ("WebFetch(domain:example.org:8080)", "WebFetch", Access(url="https://example.org:8080/"), True),
        ("WebFetch(domain:example.org:443)", "WebFetch", Access(url="https://example.org/"), True),
        ("WebFetch(domain:example.org:8080)", "WebFetch", Access(url="https://example.org/"), False),
        ("WebFetch(domain:[::1]:80)", "WebFetch", Access(url="http://[::1]/", needs_port=True), True),
        ("WebFetch(domain:::1)", "WebFetch", Access(url="http://[::1]/"), True),
        ("WebFetch(domain:localhost)", "WebFetch", Access(url="http://localhost:3000/"), True),
        ("WebFetch(domain:localhost)", "WebFetch", Access(url="http://localhost:3000/", needs_port=True), False),
        ("WebFetch", "WebFetch", Access(url="http://localhost:3000/", needs_port=True), False),
        ("WebFetch(domain:localhost:3000)", "WebFetch", Access(url="http://localhost:3000/", needs_port=True), True),
        ("WebFetch(domain:localhost:3000)", "WebFetch", Access(url="http://localhost:80/", needs_port=True), False),
    ],
)
def test_a_rule_about_a_tool_matches_its_subject(scratch, rule, tool, access, matches):
    assert (scratch.policy(allow=[rule]).decide(tool, access).verdict is ALLOW) is matches


@pytest.mark.promise("G2")
def test_a_denied_host_is_denied_below_too(scratch):
    policy = scratch.policy(Mode.BYPASS, deny=["WebFetch(domain:example.org)"])
    assert policy.decide("WebFetch", Access(url="https://a.b.example.org")).verdict is DENY
    assert policy.decide("WebFetch", Access(url="https://notexample.org")).verdict is ALLOW


BAD = [
    "",
    "Bash(ls",
    "Bash ls",
    "*",
    "Ba*",
    "Read(../x)",
    "WebFetch(example.org)",
    "WebFetch(domain:)",
    "WebFetch(domain:example.org:0)",
    "WebFetch(domain:example.org:65536)",
    "Bash('ls)",
    "Bash(a\nb)",
]


@pytest.mark.promise("G2")
@pytest.mark.parametrize("text", BAD)
def test_a_rule_that_is_none_is_refused_with_its_source(tmp_path, text):
    with pytest.raises(UsageError) as caught:
        parse_rule(text, ALLOW, "/x/settings.json", tmp_path)
    assert "/x/settings.json" in caught.value.render()


def test_rules_in_one_text_are_split_outside_parentheses():
    assert split_rules("Bash(git log:*), Read  Edit(a b,c)") == ["Bash(git log:*)", "Read", "Edit(a b,c)"]
    assert split_rules("") == []


@pytest.mark.promise("G1")
def test_only_modes_that_are_there_are_taken():
    assert [parse_mode(mode) for mode in Mode] == list(Mode)
    for text in ("planning", "Default", ""):
        with pytest.raises(UsageError):
            parse_mode(text)


OFFERED = [
    ("npm test", "Bash(npm test:*)"),
    ("npm run build -- --x", "Bash(npm run build:*)"),
    ("cargo build --release", "Bash(cargo build:*)"),
    ("pytest -x tests", "Bash(pytest:*)"),
    ("python -m pytest -q", "Bash(python -m pytest:*)"),
    ("make test", "Bash(make test)"),
    ("ruff check src", "Bash(ruff check:*)"),
    ("go test ./...", "Bash(go test:*)"),
    ("git commit -m x", "Bash(git commit:*)"),
    ("pytest ../outside", "Bash(pytest ../outside)"),
    ("npm install left-pad", "Bash(npm install left-pad)"),
    ("git push origin main", "Bash(git push origin main)"),
    ("git log link/secret -p", "Bash(git log link/secret -p)"),
    ("docker ps -a", "Bash(docker ps -a)"),
    ("kubectl get pods", "Bash(kubectl get pods)"),
    ("terraform plan", "Bash(terraform plan)"),
    ("python tool.py --all", "Bash(python tool.py --all)"),
    ("./run.sh --fast", "Bash(./run.sh --fast)"),
    ("make", "Bash(make)"),
    ("git -C sub push", "Bash(git -C sub push)"),
    ("curl 'https://example.org/?a=b c'", "Bash(curl 'https://example.org/?a=b c')"),
]
NOT_OFFERED = r"""
npm test && ls
npm test | tee x
npm $X
npm test "$X"
npm test *.js
npm test --script-shell=x
npm exec x
npm publish
npm config set x y
npx x
rm -rf x
sudo ls
npm test > x
A=1 npm test
ls )
rm *
eval x
kill 1
chmod +x a.py
dd if=a.py of=x
python
python -c 'print(1)'
python3 -
bash -c ls
bash -x
node -e 1
perl -e 1
docker run image
docker exec web ls
docker rm web
docker system prune -f
docker compose down -v
kubectl delete pod x
kubectl apply -f x
kubectl exec web -- ls
helm uninstall x
terraform destroy
terraform apply
aws s3 rm s3://x
gh pr merge 1
gh api /x
git push --force
git push -f origin main
git push origin +main
git push origin :main
git push --delete origin x
git reset --hard
git clean -fd
git checkout -- .
git branch -D x
git add -A
git rebase -x make main
git log --output=x
git -c core.pager=x log
git config core.pager x
find . -delete
find . -exec rm {} +
sed -i s/a/b/ a.py
sort -o x a.py
tar xf a.tar --to-command=x
curl -X DELETE https://example.org
curl -d x https://example.org
curl -o x https://example.org
ssh host ls
scp a.py host:
rsync -a a.py host:
psql -c 'drop table x'
xargs rm
cargo publish
make CC=./x
""".strip().splitlines()


@pytest.mark.promise("G2")
@pytest.mark.finding("P11")
@pytest.mark.parametrize(("command", "rule"), OFFERED)
def test_always_offers_a_rule_that_answers_the_same_call_again(scratch, command, rule):
    decision = scratch.run(command)
    assert (decision.verdict, decision.find_always()) == (ASK, rule)
    assert scratch.run(command, allow=[rule]).verdict is ALLOW


@pytest.mark.promise("G2")
@pytest.mark.finding("P11")
@pytest.mark.parametrize("command", NOT_OFFERED)
def test_always_offers_nothing_that_would_reach_further_than_it_looks(scratch, command):
    assert scratch.run(command).find_always() == ""


def test_only_a_question_looks_for_the_rule_that_always_would_store(scratch):
    code = """
import sys
from pathlib import Path
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access
project = Path(sys.argv[1])
policy = Policy(scope=PermissionScope((project,), base=project))
decision = policy.decide("Edit", Access(writes=(project / "a.py",)))
print(decision.verdict, "teamwright.permissions.always_rule" in sys.modules, decision.find_always())
"""
    command = [sys.executable, "-c", code, str(scratch.project)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert done.stdout.split() == ["ask", "False", "Edit(/a.py)"]


@pytest.mark.promise("G2")
def test_always_offers_directories_and_hosts_but_nothing_guarded_or_private(scratch):
    assert scratch.write("src/deep/x.py").find_always() == "Edit(src/**)"
    assert scratch.write("README.md").find_always() == "Edit(/README.md)"
    assert scratch.write("README.md", allow=["Edit(/README.md)"]).verdict is ALLOW
    assert scratch.write(".envrc").find_always() == ""
    assert scratch.write("link/x").find_always() in {"", f"Edit(/{scratch.outside}/x)"}
    assert scratch.read(scratch.outside / "secret").find_always() == f"Read(/{scratch.outside}/**)"
    assert scratch.read(scratch.home / "trust.json").find_always() == ""
    web = scratch.policy().decide("WebFetch", Access(url="https://example.org/x"))
    assert web.find_always() == "WebFetch(domain:example.org)"
    assert scratch.policy().decide("mcp__db__query", Access()).find_always() == "mcp__db__query"


def test_a_harmless_call_without_rules_is_the_same_decision_each_time(scratch):
    policy = scratch.policy()
    assert policy.decide("TaskCreate", HARMLESS) is policy.decide("TaskCreate", HARMLESS)


@pytest.mark.promise("G1")
def test_a_changed_mode_or_rule_holds_from_the_next_call_on(scratch):
    policy = scratch.policy()
    count = Access()
    assert policy.decide("TaskList", HARMLESS).verdict is ALLOW
    assert policy.decide("python__count", count).verdict is ASK
    policy.change_mode(Mode.BYPASS)
    assert policy.decide("python__count", count).verdict is ALLOW
    policy.add_rules(*parse_rules(["TaskList"], DENY, "later", scratch.project))
    assert policy.decide("TaskList", HARMLESS).verdict is DENY


def test_an_empty_policy_asks_about_everything_that_is_not_harmless():
    policy = Policy()
    assert policy.decide("TaskList", HARMLESS).verdict is ALLOW
    assert policy.decide("Read", Access(reads=(Path("/etc/hosts"),))).verdict is ASK
    assert policy.decide("Bash", Access(command="echo x")).verdict is ALLOW
    assert policy.decide("Bash", Access(command="ls")).verdict is ASK


@pytest.mark.parametrize("host", ["example。org", "EXAMPLE．ORG", "example｡org", "a.example.org。", "ｅxample.org"])
def test_a_host_is_compared_as_the_resolver_looks_it_up(scratch, host):
    policy = scratch.policy(Mode.BYPASS, deny=["WebFetch(domain:example.org)"])
    assert policy.decide("WebFetch", Access(url=f"https://{host}/")).verdict is Verdict.DENY
    policy = scratch.policy(Mode.BYPASS, deny=["WebFetch(domain:bücher.example)"])
    assert policy.decide("WebFetch", Access(url="https://xn--bcher-kva.example/")).verdict is Verdict.DENY
