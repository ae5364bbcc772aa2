"""The scripted model: what its file may say, how turns are chosen, and that nothing depends on one process's life."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.models.model import Failure, Prefix, Reply, Request, TextPart
from teamwright.models.scripted.scripted_model import Script, parse_user_message
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import encode, message_text, text_block, tool_calls, tool_result_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS
from teamwright.testing.scripted_model import Call, Say, ScriptedModel
from tests.support.examples import examples

PREFIX = Prefix.build({"model": "scripted"})


class Talk:
    """A conversation with a model, as an agent would lead it."""

    def __init__(self, model, asker="ada", items=None):
        self.model, self.asker, self.items = model, asker, items if items is not None else []

    async def ask(self, *blocks, keep=True):
        if blocks:
            self.items.append(encode({"role": "user", "content": list(blocks)}))
        parts = [part async for part in self.model.stream(Request(PREFIX, self.items, self.asker))]
        last = parts[-1]
        if isinstance(last, Reply):
            assert "".join(p.text for p in parts if isinstance(p, TextPart)) == "".join(
                block["text"] for block in last.content if block["type"] == "text"
            )
            if keep:
                self.items.append(encode({"role": "assistant", "content": last.content}))
        return last

    async def says(self, text, **options):
        return message_text((await self.ask(text_block(text), **options)).content)

    async def result(self, reply, *texts, is_error=False):
        calls = tool_calls(reply.content)
        return await self.ask(
            *(tool_result_block(c.id, t, is_error=is_error) for c, t in zip(calls, texts, strict=True))
        )


def talk(toml, agent="ada", **options):
    return Talk(Script.parse(toml, "play.toml").model(agent, **options), agent)


COUNT = """
[script]
name = "count"
[[agent.ada.turn]]
say = "Let me count."
[[agent.ada.turn.call]]
name = "files"
tool = "Bash"
input = { command = "ls | wc -l", deep = [{ where = "{{place}}" }] }
capture = '(?P<files>\\d+) files'
default = { files = "no" }
[[agent.ada.turn]]
when.have = ["files"]
say = "{{files}} files here [{{call.files}}]."
[[agent.ada.otherwise]]
say = "Nothing more."
[[agent.bob.turn]]
capture_text = '(?P<place>home|away)'
say = "x"
"""


@pytest.mark.promise("H3")
async def test_a_script_makes_a_real_call_and_carries_its_result_into_a_sentence_with_a_receipt():
    t = talk(COUNT.replace("{{place}}", "here"), receipts=lambda call_id: "c7")
    first = await t.ask(text_block("go"))
    (call,) = tool_calls(first.content)
    assert (call.name, call.input) == ("Bash", {"command": "ls | wc -l", "deep": [{"where": "here"}]})
    assert first.stop_reason == "tool_use"
    second = await t.result(first, "there are 41 files")
    assert message_text(second.content) == "41 files files here [c7].".replace("files files", "files")
    assert second.stop_reason == "end_turn"
    assert (second.usage.tokens, second.usage.requests, second.usage.usd) == (0, 1, 0.0)
    assert await t.says("and?") == "Nothing more."


async def test_a_result_that_matches_nothing_gives_the_defaults_of_its_call():
    t = talk(COUNT.replace("{{place}}", "here"))
    first = await t.ask(text_block("go"))
    assert message_text((await t.result(first, "command not found", is_error=True)).content) == "no files here [?]."


async def test_a_template_that_nothing_has_filled_yet_fails_and_names_the_turn():
    failure = await talk(COUNT).ask(text_block("go"))
    assert isinstance(failure, Failure)
    assert failure.slug == "bad-script"
    assert failure.what == 'turn 1 of agent ada (line 4) needs "place", which nothing has given yet'


async def test_an_agent_without_a_turn_that_fits_fails_and_is_named():
    t = talk('[[agent.ada.turn]]\nwhen.text = "hello"\nsay = "hi"')
    failure = await t.ask(text_block("good bye"))
    assert isinstance(failure, Failure)
    assert failure.what == 'the script has no turn for "ada" here'


GUARDS = """
[[agent.ada.turn]]
[[agent.ada.turn.call]]
name = "look"
tool = "Bash"
capture = ['one: (?P<one>.*)', 'two: (?P<two>.*)']
[[agent.ada.turn]]
when.have = ["one"]
[[agent.ada.turn.call]]
name = "first"
tool = "Bash"
have = ["one"]
input = { lines = "{{?two}}two {{two}}\\none {{one}}\\n{{?two}}end" }
[[agent.ada.turn.call]]
name = "second"
tool = "Bash"
have = ["one", "two"]
[[agent.ada.turn]]
say = "{{?two}}{{call.second}}\\n{{call.first}}"
[[agent.ada.turn]]
[[agent.ada.turn.call]]
tool = "Bash"
have = ["two"]
"""


@pytest.mark.parametrize(
    ("found", "lines", "said"),
    [("one: 1", "one 1\n", "c"), ("one: 1\ntwo: 2", "two 2\none 1\nend", "c\nc"), ("one: 1\ntwo: ", "one 1\n", "c")],
)
async def test_a_line_or_a_call_without_its_text_is_left_out(found, lines, said):
    t = talk(GUARDS, receipts=lambda call_id: "c")
    first = await t.ask(text_block("go"))
    second = await t.result(first, found)
    calls = tool_calls(second.content)
    assert calls[0].input == {"lines": lines}
    assert message_text((await t.result(second, *["ok"] * len(calls))).content) == said


async def test_an_answer_of_which_nothing_is_left_is_a_failure_that_names_the_turn():
    t = talk(GUARDS)
    first = await t.ask(text_block("go"))
    second = await t.result(first, "one: 1")
    await t.result(second, "ok")
    failure = await t.ask(text_block("and?"))
    assert isinstance(failure, Failure)
    assert failure.what == "turn 4 of agent ada (line 20) comes to nothing: all that it has is left out"


async def test_an_error_is_not_captured_from():
    t = talk(GUARDS)
    first = await t.ask(text_block("go"))
    third = await t.result(first, "one: 1", is_error=True)
    assert isinstance(third, Failure)


CHOICES = """
[[agent.ada.turn]]
when = { from = "^team-lead$", text = 'stop (?:now|later)' }
capture_text = 'stop (?P<moment>\\w+)'
say = "I stop {{moment}}."
[[agent.ada.turn]]
when.task = "Paint"
say = "Painting."
repeat = true
[[agent."*".turn]]
when.task = "Sweep"
say = "Sweeping."
[[agent.ada.otherwise]]
say = "Hm."
[[agent."*".otherwise]]
say = "What?"
"""


async def test_the_first_turn_that_fits_is_played_once_unless_it_repeats():
    t = talk(CHOICES)
    task = NO_KEY_TAGS.message("task-list", "#4 Paint\n\nthe fence")
    assert [await t.says(task) for _ in range(2)] == ["Painting.", "Painting."]
    sweep = NO_KEY_TAGS.message("task-list", "#5 Sweep")
    assert [await t.says(sweep), await t.says(sweep)] == ["Sweeping.", "Hm."]


async def test_sender_and_text_must_be_of_one_message():
    t = talk(CHOICES)
    both = NO_KEY_TAGS.message("bob", "stop now") + "\n" + NO_KEY_TAGS.message("team-lead", "go on")
    assert await t.says(both) == "Hm."
    assert await t.says(NO_KEY_TAGS.message("team-lead", "stop later")) == "I stop later."


async def test_a_task_is_only_what_the_task_list_says():
    assert await talk(CHOICES).says(NO_KEY_TAGS.message("bob", "#4 Paint")) == "Hm."
    assert await talk(CHOICES, "eve").says("#4 Paint") == "What?"


HEARING = """
[agent.ada]
hear = ['word: (?P<word>.*);']
[[agent.ada.turn]]
when.text = "start"
[[agent.ada.turn.call]]
tool = "Bash"
input = { command = "true" }
[[agent.ada.turn]]
when = { result = ".", have = ["word"] }
[[agent.ada.turn.call]]
tool = "Bash"
input = { command = "echo {{word|sh}}" }
[[agent.ada.turn]]
when.text = "late news"
say = "I heard of {{word}}."
[[agent.ada.otherwise]]
say = "Done."
"""


async def test_mail_that_comes_between_rounds_waits_for_the_turn_that_takes_it():
    t = talk(HEARING)
    first = await t.ask(text_block("start"))
    mail = NO_KEY_TAGS.entry(InboxEntry("bob", 'word: it\'s <b> & "c"; late news'))
    second = await t.ask(tool_result_block(tool_calls(first.content)[0].id, "ok"), text_block(mail))
    assert tool_calls(second.content)[0].input == {"command": """echo 'it'"'"'s <b> & "c"'"""}
    third = await t.result(second, "it's <b>")
    assert message_text(third.content) == 'I heard of it\'s <b> & "c".'


async def test_what_is_heard_before_an_answer_without_calls_is_not_kept_for_later_turns():
    t = talk(
        '[[agent.ada.turn]]\nsay = "one"\n[[agent.ada.turn]]\nwhen.text = "first"\nsay = "two"\n'
        '[[agent.ada.otherwise]]\nsay = "-"'
    )
    assert [await t.says("first"), await t.says("other")] == ["one", "-"]


async def test_conditions_on_results_hold_for_the_results_of_this_request_alone():
    toml = """
    [[agent.ada.turn]]
    when = { tool = "Read", result = "needle" }
    say = "found"
    [[agent.ada.turn]]
    [[agent.ada.turn.call]]
    tool = "Read"
    [[agent.ada.turn.call]]
    tool = "Bash"
    [[agent.ada.otherwise]]
    say = "nothing"
    """
    t = talk(toml)
    first = await t.ask(text_block("go"))
    assert message_text((await t.result(first, "hay", "needle")).content) == "nothing"
    t = talk(toml)
    first = await t.ask(text_block("go"))
    assert message_text((await t.result(first, "a needle", "hay")).content) == "found"


async def test_the_same_request_gets_the_same_answer():
    t = talk(COUNT.replace("{{place}}", "here"))
    one = await t.ask(text_block("go"), keep=False)
    assert (await t.ask(keep=False)).content == one.content


async def test_a_turn_whose_answer_never_reached_the_history_is_played_again():
    t = talk(CHOICES)
    stop = NO_KEY_TAGS.message("team-lead", "stop now")
    assert await t.says(stop, keep=False) == "I stop now."
    assert await t.says("are you there?") == "I stop now."


STEPS = """
[script]
again = "interrupted"
[[agent.ada.turn]]
when.text = "start"
[[agent.ada.turn.call]]
name = "a"
tool = "Bash"
input = { command = "a" }
capture = 'a=(?P<a>\\d)'
[[agent.ada.turn]]
when.have = ["a"]
say = "{{a}} {{call.a}}"
[[agent.ada.turn]]
when.text = "more"
say = "more of {{a}} {{call.a}}"
[[agent.ada.otherwise]]
say = "-"
"""


@pytest.mark.promise("D8", "H3")
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 6])
async def test_a_resumed_conversation_goes_on_where_it_was(cut):
    script = Script.parse(STEPS, "steps.toml")

    def receipts(call_id):
        return call_id

    t = Talk(script.model("ada", receipts=receipts))
    said = [await t.ask(text_block("start"))]
    said.append(await t.result(said[0], "a=5"))
    said.append(await t.ask(text_block("more")))
    again = Talk(script.model("ada", receipts=receipts), items=t.items[:cut])
    if cut % 2:  # the newest message has no answer yet
        answer = await again.ask()
        if cut == 1:
            assert tool_calls(answer.content)[0].input == {"command": "a"}
            return
        assert answer.content == said[cut // 2].content
    if cut == 2:
        assert (await again.result(said[0], "a=5")).content == said[1].content
    if cut < 5:
        assert (await again.ask(text_block("more"))).content == said[2].content
    assert await again.says("more") == "-"


async def test_an_interrupted_call_is_made_anew_at_most_ten_times():
    t = talk(STEPS)
    reply = await t.ask(text_block("start"))
    for _ in range(10):
        reply = await t.result(reply, "The call was interrupted", is_error=True)
        assert [call.input for call in tool_calls(reply.content)] == [{"command": "a"}]
    assert message_text((await t.result(reply, "The call was interrupted", is_error=True)).content) == "-"


async def test_a_compacted_history_does_not_begin_the_script_anew():
    t = talk(STEPS)
    reply = await t.ask(text_block("start"))
    await t.result(reply, "a=5")
    t.items[:] = [encode({"role": "user", "content": [text_block("summary"), text_block("more")]})]
    assert message_text((await t.ask()).content).startswith("more of 5")


async def test_names_from_outside_are_asked_for_before_anything_starts():
    script = Script.parse('[script]\ngiven = ["repo"]\n[[agent.ada.turn]]\nsay = "{{repo}}"', "p.toml")
    with pytest.raises(CannotStart, match="needs repo from outside"):
        script.model("ada")
    assert await Talk(script.model("ada", given={"repo": "click"})).says("go") == "click"


async def test_constant_texts_are_put_in_when_the_script_is_read():
    t = talk('[script.text]\ngit = "git -c a=b"\nlog = "{{git}} log"\n[[agent.ada.turn]]\nsay = "{{log}} -1"')
    assert await t.says("go") == "git -c a=b log -1"


async def test_the_pace_is_the_scripts_and_can_be_overridden(monkeypatch):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr("teamwright.models.scripted.scripted_model.asyncio.sleep", sleep)
    script = Script.parse('[script]\npace_ms = 150\n[[agent.ada.turn]]\nsay = "x"\nrepeat = true', "p.toml")
    t = Talk(script.model("ada"))
    await t.says("go")
    script.pace_s = 0
    await t.says("go")
    assert waited == [0.15]


MISTAKES = [
    ("[script", "the file is not TOML: "),
    ('[script]\nname = "x"', "the file has no [[agent.NAME.turn]]"),
    ('[plot]\nx = 1\n[[agent.a.turn]]\nsay = "x"', 'the file has an unknown key "plot"'),
    ('[script]\npase = 1\n[[agent.a.turn]]\nsay = "x"', '[script] has an unknown key "pase"'),
    ('[script]\npace_ms = -1\n[[agent.a.turn]]\nsay = "x"', "[script] pace_ms must be a number"),
    (
        '[[agent.a.turn]]\nsay = "x"\n[[agent.a.turn]]\nsayy = "x"',
        'turn 2 of agent a (line 3) has an unknown key "sayy"',
    ),
    ('[[agent.a.turn]]\nwhen.txt = "x"\nsay = "x"', 'turn 1 of agent a (line 1) has an unknown key "when.txt"'),
    (
        '[[agent.a.turn]]\nwhen.text = "("\nsay = "x"',
        "turn 1 of agent a (line 1) when.text is not a regular expression",
    ),
    ("[[agent.a.turn]]\nsay = 3", "turn 1 of agent a (line 1) say must be text"),
    ("[[agent.a.turn]]\nrepeat = true", "turn 1 of agent a (line 1) has neither say nor a call"),
    ('[[agent.a.turn]]\nsay = "x"\nrepeat = "yes"', "turn 1 of agent a (line 1) repeat must be true or false"),
    ("[[agent.a.turn]]\n[[agent.a.turn.call]]\nname = 'x'", "turn 1 of agent a (line 1) has a call without a tool"),
    ('[agent.a]\nturn = "x"', "agent a turn must be written [[agent.a.turn]]"),
    ('\n[[agent."*".otherwise]]\nsay = "{{nobody}}"', 'otherwise 1 of agent * (line 2) needs "nobody", which nothing'),
    ('[[agent.a.turn]]\nsay = "{{call.x}}"', 'turn 1 of agent a (line 1) needs "call.x", which nothing'),
    (
        '[script]\ngiven = ["x"]\ntext.x = "1"\n[[agent.a.turn]]\nsay = "x"',
        '[script.text] has "x", which is also captured',
    ),
    ('[[agent.a.turn]]\nwhen.have = ["x"]\nsay = "x"', 'turn 1 of agent a (line 1) needs "x", which nothing'),
]


@pytest.mark.parametrize(("toml", "what"), MISTAKES)
def test_every_mistake_in_a_script_is_named_with_its_file_and_place(toml, what):
    with pytest.raises(CannotStart) as caught:
        Script.parse(toml, "play.toml")
    assert caught.value.slug == "bad-script"
    assert caught.value.exit_code == 3
    assert what in caught.value.what
    assert ("file", "play.toml") in caught.value.looked_at


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_script_that_cannot_be_read_is_named(tmp_path: Path, content):
    path = tmp_path / "no.toml"
    if content:
        path.write_bytes(content)
    with pytest.raises(CannotStart) as caught:
        Script.load(path)
    assert ("file", str(path)) in caught.value.looked_at


def test_a_script_is_free_and_bears_its_files_name(tmp_path: Path):
    path = tmp_path / "p.toml"
    path.write_text('[[agent.a.turn]]\nsay = "x"')
    card = Script.load(path).model("a").card
    assert (card.name, card.usd_in, card.usd_out, card.context_tokens) == (f"scripted:{path}", 0.0, 0.0, 200_000)


@given(st.text(), st.text(min_size=1).filter(str.strip))
@settings(max_examples=examples(60))
def test_an_envelope_is_read_back_as_it_was_written(sender, body):
    sender = "".join(sender.split()) or "x"
    notes, _ = parse_user_message(
        NO_KEY_TAGS.entry(InboxEntry(sender, body, summary='a "b" > c')) + "\n" + NO_KEY_TAGS.reminder("note")
    )
    assert [(note.sender, note.text) for note in notes] == [(sender, body), ("system", NO_KEY_TAGS.reminder("note"))]


async def test_the_python_form_answers_in_order_by_agent_or_by_function_and_keeps_what_it_was_asked():
    same = ScriptedModel("ok")
    t = Talk(same)
    assert [await t.says("one"), await t.says("two")] == ["ok", "ok"]
    assert [len(request.items) for request in same.requests] == [1, 3]
    assert same.request_text() == "two"

    model = ScriptedModel([("Bash", {"command": "ls"}), [Say("both"), Call("Read", {"p": 1}), ("Glob", {})], "done"])
    t = Talk(model)
    first = await t.ask(text_block("go"))
    assert [(c.name, c.input) for c in tool_calls(first.content)] == [("Bash", {"command": "ls"})]
    second = await t.result(first, "a.py")
    assert model.request_text() == "a.py"
    assert [c.name for c in tool_calls(second.content)] == ["Read", "Glob"]
    assert message_text((await t.result(second, "1", "2")).content) == "done"
    over = await t.ask(text_block("and?"))
    assert isinstance(over, Failure)
    assert over.what == "the 3 answers are used up"

    parts = ScriptedModel({"lead": ["I lead"], "ada": ["I do"]})
    assert [await Talk(parts, "ada").says("x"), await Talk(parts, "team-lead").says("x")] == ["I do", "I lead"]
    echo = ScriptedModel(lambda request: f"{request.agent_name}: {json.loads(request.items[-1])['content'][0]['text']}")
    assert await Talk(echo).says("hello") == "ada: hello"


async def test_the_example_in_the_documents_plays():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "script-format.md").read_text()
    t = talk(page.split("```toml\n")[1].split("```")[0], "lead", receipts=lambda call_id: "c1")
    first = await t.ask(text_block("go"))
    assert message_text((await t.result(first, "41")).content) == "This repository holds 41 files [c1]."
