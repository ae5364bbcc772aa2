"""Looking for skills and commands: bounded, within the directory, the first of a name."""

import os

import pytest

from teamwright.protocol.errors import UsageError
from teamwright.skills.skill_catalog import (
    MAX_FILE_BYTES,
    MAX_LISTED,
    MAX_LISTED_BYTES,
    MAX_SKILLS,
    SkillCatalog,
    SkillDirectory,
    find_skills,
    list_for_model,
)


def put(path, text="---\nname: {name}\ndescription: For {name}.\n---\nDo it.\n", name=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("{name}", name or path.parent.name))
    return path


def names(place):
    return [skill.name for skill in find_skills(place).definitions]


@pytest.mark.promise("H4", "P6")
def test_a_thousand_skills_are_bounded_in_number_and_in_what_a_model_is_told(tmp_path):
    for at in range(1_000):
        put(tmp_path / f"skill-{at:04}" / "SKILL.md", "---\ndescription: " + "long " * 190 + "\n---\nx")
    found = find_skills(SkillDirectory("skill", tmp_path, "yours"))
    assert len(found.definitions) == MAX_SKILLS
    assert any(f"only the first {MAX_SKILLS}" in problem for problem in found.problems)
    told = list_for_model(SkillCatalog(tuple(found.definitions)).for_models)
    assert len(told.encode()) < MAX_LISTED_BYTES + 100
    assert told.count("\n- ") < MAX_LISTED
    assert "more are not listed" in told


@pytest.mark.promise("H4", "P6")
def test_a_huge_a_binary_and_an_endless_file_are_left_out_with_the_reason(tmp_path):
    put(tmp_path / "huge" / "SKILL.md", "x" * (MAX_FILE_BYTES + 1))
    put(tmp_path / "binary" / "SKILL.md", "a\0b")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "endless").mkdir()
    (tmp_path / "endless" / "SKILL.md").symlink_to("/dev/zero")
    put(tmp_path / "good" / "SKILL.md")
    found = find_skills(SkillDirectory("skill", tmp_path, "yours"))
    assert [skill.name for skill in found.definitions] == ["good"]
    assert len(found.problems) == 4
    assert all("left out" in problem for problem in found.problems)


@pytest.mark.promise("H4", "F64")
def test_links_lead_nowhere_out_of_a_skill_and_out_of_a_repository(tmp_path):
    root, secret = tmp_path / "repository", put(tmp_path / "secret" / "SKILL.md")
    skills = root / ".claude" / "skills"
    put(skills / "good" / "SKILL.md")
    (skills / "good" / "key").symlink_to(secret)
    (skills / "good" / "notes.md").write_text("notes")
    (skills / "good" / "inner").symlink_to("notes.md")
    (skills / "linked").symlink_to(secret.parent)
    (skills / "text").mkdir()
    (skills / "text" / "SKILL.md").symlink_to(secret)
    found = find_skills(SkillDirectory("skill", skills, ".claude/skills", root))
    assert [skill.name for skill in found.definitions] == ["good"]
    assert sum("leads out" in problem for problem in found.problems) == 2
    shelf = SkillCatalog(tuple(found.definitions))
    good = shelf.get_skill("good")
    assert shelf.read_file(good, "inner") == "notes"
    for name in ("key", "../../../../secret/SKILL.md", str(secret), "/etc/hostname", "no\0file", "..", "absent"):
        with pytest.raises(UsageError):
            shelf.read_file(good, name)


@pytest.mark.promise("H4")
def test_a_skill_of_ones_own_may_be_a_link(tmp_path):
    put(tmp_path / "dotfiles" / "notes" / "SKILL.md")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "notes").symlink_to(tmp_path / "dotfiles" / "notes")
    assert names(SkillDirectory("skill", tmp_path / "skills", "yours")) == ["notes"]


@pytest.mark.promise("H4")
def test_directories_of_commands_are_namespaces(tmp_path):
    for name in ("review.md", "git/push.md", "git/deep/er.md", "README.md", "notes.txt", "git/a b.md"):
        put(tmp_path / name, "Do it.")
    shelf = SkillCatalog(tuple(find_skills(SkillDirectory("command", tmp_path, "yours")).definitions))
    assert [skill.name for skill in shelf.for_users] == ["git:deep:er", "git:push", "review"]
    assert shelf.get_command("push").name == "git:push"
    put(tmp_path / "hub" / "push.md", "Do it.")
    with pytest.raises(UsageError, match="there is no command /push"):
        SkillCatalog(tuple(find_skills(SkillDirectory("command", tmp_path, "yours")).definitions)).get_command("push")


@pytest.mark.promise("H4")
def test_what_nobody_may_look_at_is_not_opened(tmp_path):
    put(tmp_path / "good" / "SKILL.md")
    (tmp_path / "theirs").mkdir()
    os.mkfifo(tmp_path / "theirs" / "SKILL.md")
    found = find_skills(
        SkillDirectory("skill", tmp_path, ".claude/skills", tmp_path, allows=lambda name: name == "good")
    )
    assert ([skill.name for skill in found.definitions], found.problems) == (["good"], [])


@pytest.mark.promise("H4")
def test_the_first_of_a_name_counts_and_the_other_is_told(tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    put(mine / "notes" / "SKILL.md", "---\ndescription: mine\n---\nMine.")
    put(theirs / "notes" / "SKILL.md", "---\ndescription: theirs\n---\nTheirs.")
    both = [
        *find_skills(SkillDirectory("skill", mine, "yours")).definitions,
        *find_skills(SkillDirectory("skill", theirs, ".claude/skills")).definitions,
    ]
    shelf = SkillCatalog(tuple(both))
    assert shelf.read_body(shelf.get_skill("NOTES")) == "Mine."
    assert any(str(theirs) in problem and "left out" in problem for problem in shelf.problems)


@pytest.mark.promise("H4")
def test_who_may_call_a_skill_is_its_own_to_say(tmp_path):
    put(tmp_path / "deploy" / "SKILL.md", "---\ndescription: d\ndisable-model-invocation: true\n---\nx")
    put(tmp_path / "lore" / "SKILL.md", "---\ndescription: d\nuser-invocable: false\n---\nx")
    shelf = SkillCatalog(tuple(find_skills(SkillDirectory("skill", tmp_path, "yours")).definitions))
    assert [skill.name for skill in shelf.for_models] == ["lore"]
    assert [skill.name for skill in shelf.for_users] == ["deploy"]
    with pytest.raises(UsageError, match="there is no skill 'deploy'"):
        shelf.get_skill("deploy")
