"""`--json-schema`: the answer is JSON that fits, asked for once more when it does not, and exit 1 after that."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import Program, error_of, words_of

pytestmark = pytest.mark.finding("U10")

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def run(tmp_path, repo, answers, *args, schema=None):
    schema = schema or json.dumps(SCHEMA)
    with LoopbackModel.in_thread(answers) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "count", "--json-schema", schema, *args)
    return done, server.bodies


@pytest.mark.parametrize("answer", ['{"count": 3}', '```json\n{"count": 3}\n```'])
@pytest.mark.slow_after(1)
def test_an_answer_that_fits_is_printed_as_json(tmp_path, repo, answer):
    done, bodies = run(tmp_path, repo, [answer])
    assert (done.returncode, done.stdout) == (0, '{"count": 3}\n'), done.stderr
    [body] = bodies
    assert '"required": ["count"]' in words_of(body)


@pytest.mark.parametrize("first", ["There are three.", '{"count": "three"}'])
@pytest.mark.slow
def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_reason(tmp_path, repo, first):
    done, bodies = run(tmp_path, repo, [first, '{"count": 3}'], "--output-format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["structured_output"] == {"count": 3}
    assert len(bodies) == 2
    assert ("it is not JSON" if first[0] == "T" else "'three' is not of type 'integer'") in words_of(bodies[1])


@pytest.mark.slow
def test_a_second_answer_that_does_not_fit_is_a_failure(tmp_path, repo):
    done, bodies = run(tmp_path, repo, ["Three.", "Still three."], "--output-format", "json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert error_of(done)[0] == "invalid-output"
    assert (told["subtype"], told["is_error"]) == ("error_max_structured_output_retries", True)
    assert "structured_output" not in told
    assert len(bodies) == 2


@pytest.mark.slow
def test_a_schema_is_a_file_too(tmp_path, repo):
    (repo / "schema.json").write_text(json.dumps(SCHEMA))
    done, _ = run(tmp_path, repo, ['{"count": 3}'], schema="schema.json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ('{"type": ', "is not a JSON Schema"),
        ('{"type": "objekt"}', "is not a JSON Schema"),
        ("no.json", "cannot be read"),
    ],
)
@pytest.mark.slow_after(1)
def test_a_bad_schema_is_refused_before_anything_starts(tmp_path, repo, schema, word):
    done, bodies = run(tmp_path, repo, [], schema=schema)
    assert done.returncode == 2
    assert word in "\n".join(error_of(done)[1])
    assert not bodies
