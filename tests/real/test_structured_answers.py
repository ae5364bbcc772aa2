"""`--json-schema` with a real model: the server bounds the last answer, on each wire."""

import json

import pytest

from tests.real.local_server import RUN_S, every_wire, flags_for, needs_server, program

pytestmark = [*needs_server, pytest.mark.finding("R10")]

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "warm": {"type": "boolean"}},
    "required": ["colour", "warm"],
    "additionalProperties": False,
}


@every_wire
@pytest.mark.feature("`--json-schema`")
def test_an_answer_fits_the_schema_although_the_model_knows_no_json(tmp_path, force, wire):
    made = program(tmp_path, force({}).url)
    done = made.run("-p", "Name a colour.", *flags_for(wire), "--json-schema", json.dumps(SCHEMA), timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)["structured_output"]
    assert value["colour"] in {"red", "blue"} and isinstance(value["warm"], bool)
