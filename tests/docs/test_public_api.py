"""The Python API is documented whole: each public name on a page that a forge shows, in `help()`, and exported."""

import inspect
import pydoc
import re

import pytest

import teamwright
import teamwright.testing
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "api.md").read_text()
NAMES = {*teamwright.__all__, *teamwright.testing.__all__}
ELSEWHERE = {"OutputT", "Path", "ServerScript", "RequestJson", "ScriptedAnswers"}
"""Names in signatures that are Python's, the type of a run's output, and those of the forms of a script, which the
fakes describe in words."""
TYPES = {"Any", "Self", "Unpack", "Literal", "None", "True", "False", "TypedDict", "Protocol", "TypeAlias", "BaseModel"}
COLLECTIONS = {"Mapping", "Sequence", "Callable", "Iterable", "Iterator", "Awaitable", "AsyncIterator", "Collection"}
COLLECTIONS |= {"AsyncGenerator", "Generator", "AsyncIterable"}


@pytest.mark.finding("3L10")
def test_every_public_name_has_a_section_with_text_on_the_page_and_no_directive_is_left():
    sections = dict(re.findall(r"^### (\S+)\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
    assert set(sections) == NAMES
    assert ":::" not in PAGE
    bare = [name for name, text in sections.items() if not re.sub(r"```text.*?```", "", text, flags=re.DOTALL).strip()]
    assert bare == []


@pytest.mark.finding("3L10")
def test_help_shows_the_meaning_of_every_option():
    for kind in (teamwright.TeamOptions, teamwright.SpawnOptions, teamwright.TaskTerms, teamwright.TaskWishes):
        shown = "\n".join(line.removeprefix(" |").strip() for line in pydoc.render_doc(kind).splitlines())
        without = [name for name in kind.__annotations__ if not re.search(rf"^{name}: \S", shown, re.MULTILINE)]
        assert without == [], kind


@pytest.mark.finding("3L10")
def test_the_types_in_public_signatures_are_public_too():
    signatures = " ".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
    signatures = re.sub(r"'[^']*'|\"[^\"]*\"", "", signatures)
    used = set(re.findall(r"\b[A-Z]\w+\b", signatures))
    assert used - NAMES - ELSEWHERE - TYPES - COLLECTIONS == set()


@pytest.mark.finding("3L10")
def test_every_public_method_and_property_has_a_docstring():
    bare = [
        f"{name}.{attribute}"
        for name in NAMES
        if isinstance(kind := getattr(teamwright, name, None), type) and kind.__module__.startswith("teamwright")
        for attribute, value in vars(kind).items()
        if not attribute.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))
        and not inspect.getdoc(getattr(value, "__func__", value))
    ]
    assert bare == []
