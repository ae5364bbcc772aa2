"""Agents that begin alike have one prefix, made once; whatever differs has its own."""

from teamwright import Team
from teamwright.testing import Call, ScriptedModel


def agent(kind: str) -> Call:
    return Call("Agent", {"subagent_type": kind, "description": "Look", "prompt": f"Look as {kind}."})


async def test_sub_agents_of_a_kind_share_their_prefix_and_others_do_not(tmp_path):
    calls = [agent("general-purpose"), agent("Explore"), agent("general-purpose"), "Done."]

    def answer(request):
        asked = sum(b'"type":"tool_use"' in item for item in request.items)
        return calls[asked] if request.asker == "team-lead" else "I looked."

    model = ScriptedModel(answer)
    async with Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        result = await team.run("Do it.")
        [directory] = [team.session.log.path.parent / "prefixes"]
        kept = {path.stem for path in directory.iterdir()}
    assert result.ok
    first, explorer, second = [request.prefix for request in model.requests if request.asker != "team-lead"]
    assert first is second and first.head != explorer.head
    lead = next(request.prefix for request in model.requests if request.asker == "team-lead")
    assert kept == {first.digest, explorer.digest, lead.digest}


async def test_a_kind_that_was_changed_begins_with_its_new_words(tmp_path):
    kinds = tmp_path / "home" / "agents"
    kinds.mkdir(parents=True)
    file = kinds / "looker.md"
    file.write_text("---\nname: looker\ndescription: looks\n---\nYou look at first words.\n")

    def answer(request):
        asked = sum(b'"type":"tool_use"' in item for item in request.items)
        if request.asker != "team-lead":
            file.write_text("---\nname: looker\ndescription: looks\n---\nYou look at second words.\n")
            return "I looked."
        return agent("looker") if asked < 2 else "Done."

    model = ScriptedModel(answer)
    options = {"permission_mode": "bypassPermissions", "home": tmp_path / "home"}
    async with Team("crew", model=model, cwd=tmp_path, **options) as team:
        assert (await team.run("Do it.")).ok
    heads = [request.prefix.head for request in model.requests if request.asker != "team-lead"]
    assert [b"first words" in head for head in heads] == [True, False]
    assert [b"second words" in head for head in heads] == [False, True]
