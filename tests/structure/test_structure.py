"""The structure of the code is tested. Exceptions are in `exceptions.json`, which may only become shorter."""

import ast
import re

import pytest

from tests.structure import flows, rules, shapes
from tests.structure.lists import require_no_more
from tests.structure.source import modules

pytestmark = pytest.mark.usefixtures("without_garbage_collection")


def test_imports_point_down_between_top_level_packages():
    require_no_more("upward imports", rules.upward_imports())


def test_of_two_folders_with_one_parent_at_most_one_imports_the_other():
    require_no_more("two-way folders", rules.two_way_folders())


def test_a_public_class_name_is_unique():
    require_no_more("repeated class names", rules.repeated_class_names())


def test_a_module_outside_a_store_does_not_name_it_by_path():
    require_no_more("stores named by path", rules.stores_named_by_path())


def test_no_code_assigns_to_an_attribute_of_an_object_of_another_package():
    require_no_more("assignments to objects of another package", rules.foreign_assignments())


def test_a_callback_is_given_to_the_constructor():
    require_no_more("callbacks that are filled later", rules.late_callbacks())


def test_a_module_name_is_unique_inside_its_top_level_package():
    require_no_more("repeated module names", rules.repeated_module_names())


def test_no_public_name_is_used_by_tests_alone():
    require_no_more("names that only tests use", rules.unused_public_names())


def test_no_module_has_a_name_that_says_nothing():
    require_no_more("catch-all modules", rules.catch_all_modules())


def test_every_top_level_package_has_a_layer():
    assert {module.layer for module in modules()} - {""} <= rules.LEVEL.keys()


def test_no_package_imports_the_shipped_fakes():
    assert not [
        module.name
        for module in modules()
        if module.layer != "testing" and any(name.startswith("teamwright.testing") for name in module.imported)
    ]


def test_no_modules_import_each_other_in_a_circle():
    below = {module.name: set(module.imported) for module in modules() if module.layer}
    while leaves := {name for name, needs in below.items() if not needs & below.keys()}:
        below = {name: needs for name, needs in below.items() if name not in leaves}
    assert not below


def test_a_module_has_a_docstring():
    assert not [module.name for module in modules() if not ast.get_docstring(module.tree)]


def test_a_module_or_function_that_is_larger_than_usual_has_a_reason():
    """Sizes are warnings (docs/decisions/sizes.md): a larger piece is fine when a sentence says why it is one piece."""
    reasons = rules.size_reasons()
    large = rules.large_pieces()
    assert not [name for name in large if len(reasons.get(name, "").split()) < 4], "say why in size_reasons.json"
    assert not reasons.keys() - set(large), "take them out of size_reasons.json"


def test_value_types_are_structs():
    """The standard library compiles the methods of a data class at import, which costs most of a start."""
    standard = re.compile(r"^from dataclasses import (\(\n)?[^)\n]*\bdataclass\b|\bdataclasses\.dataclass\b", re.M)
    assert not [module.name for module in modules() if standard.search(module.text)], (
        "write: from msgspec import Struct"
    )


def test_a_member_a_pending_request_and_an_answer_are_described_by_the_listed_classes():
    assert shapes.member_shapes() == shapes.MEMBER.keys() | shapes.START.keys()
    others = shapes.OTHER.keys()
    assert shapes.request_shapes() - others == shapes.REQUEST.keys()
    assert shapes.answer_shapes() - others == shapes.ANSWER.keys()
    assert (len(shapes.MEMBER), len(shapes.REQUEST)) <= (4, 3)
    assert others <= shapes.request_shapes() | shapes.answer_shapes(), "take it out of the list"


def test_a_name_of_a_saved_member_is_resolved_in_one_package():
    require_no_more("names resolved outside saved", rules.names_resolved_elsewhere())


def test_a_member_is_ended_in_one_module():
    """`teams.shutdown` moves members to their ends by order; a member that ends by itself is another matter."""
    ends = re.compile(r"LifecycleEvent\.(KILLED|SUSPENDED)\b")
    places = [module.name for module in modules() if ends.search(module.text)]
    assert places == ["teamwright.team_records.life_cycle", "teamwright.teams.shutdown"]


def test_no_check_is_silenced():
    silenced = re.compile(r"# *(noqa|type: ignore|pragma: no cover|pyright: ignore)")
    assert not [module.name for module in modules() if silenced.search(module.text)]


def test_the_five_flows_of_the_architecture_name_only_files_and_functions_that_exist():
    assert len(flows.flows()) == 5
    assert all(len(hops) > 5 for hops in flows.flows().values())
    assert not [hop for hop in flows.named() if not flows.is_defined(*hop)]
