"""Data classes of ours against those of the standard library: the same behaviour, compiled when it is first used."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, field, replace
from dataclasses import dataclass as standard
from types import FunctionType

import pytest

from teamwright.protocol.values import dataclass

KINDS = [
    {},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "kw_only": True, "weakref_slot": True},
]


def drawn_by(make, **options):
    """A class with every sort of field, and one that adds to it."""

    @make(**options)
    class Shape:
        """A shape."""

        name: str
        sides: int = 3
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", repr=False, compare=False)
        size: int = field(init=False, default=1)
        marks: list[int] = field(init=False, default_factory=list)

    @make(**options)
    class Solid(Shape):
        """A shape with a height."""

        height: float = field(default=1.0, kw_only=True)

    return Shape, Solid


def outcome(cls, *args, **given):
    """What an instance shows of itself, or which error its making raises."""
    try:
        return repr(cls(*args, **given))
    except TypeError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class Point:
    """A value that a module has, so that a pickle finds it."""

    x: int
    y: int = 0


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_is_made_is_what_the_standard_library_makes(options):
    for ours, theirs in zip(drawn_by(dataclass, **options), drawn_by(standard, **options), strict=True):
        for given in ({"name": "a"}, {"name": "a", "sides": 4, "tags": ["x"], "note": "n"}, {}, {"name": "a", "no": 1}):
            assert outcome(ours, **given) == outcome(theirs, **given)
        for args in (["a", 4], ["a", 4, [], "", 5]):
            assert outcome(ours, *args) == outcome(theirs, *args)
        one, same = ours(name="a"), theirs(name="a")
        assert asdict(one) == asdict(same)
        assert (one == ours(name="a", note="other")) is (same == theirs(name="a", note="other"))
        assert (one == ours(name="b"), one == 1) == (same == theirs(name="b"), same == 1)
        assert asdict(replace(one, sides=9)) == asdict(replace(same, sides=9))
        assert ours.__match_args__ == theirs.__match_args__
        assert (ours.__hash__ is None) is (theirs.__hash__ is None)
        assert asdict(copy.copy(one)) == asdict(copy.deepcopy(one)) == asdict(same)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_its_signature_and_annotations_are_those_of_the_fields(options):
    for ours, theirs in zip(drawn_by(dataclass, **options), drawn_by(standard, **options), strict=True):
        mine, its = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert [(p.name, p.kind) for p in mine.values()] == [(p.name, p.kind) for p in its.values()]
        assert ours.__init__.__annotations__ == theirs.__init__.__annotations__
        assert ours.__init__.__qualname__.endswith(f"{ours.__name__}.__init__")
        assert ours.__init__.__module__ == __name__


def test_a_frozen_one_refuses_to_change_and_has_a_hash_of_what_is_compared():
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert {point: 1}[Point(1, 0)] == 1
    assert pickle.loads(pickle.dumps(point)) == point


def test_lists_of_two_instances_are_not_shared():
    shape, _ = drawn_by(dataclass, slots=True)
    one, other = shape("a"), shape("b")
    one.tags.append("x")
    one.marks.append(1)
    assert (other.tags, other.marks) == ([], [])


def test_what_a_class_writes_itself_stays_and_its_last_word_is_called():
    @dataclass(frozen=True, slots=True)
    class Word:
        """A word that is the same in capitals."""

        text: str
        length: int = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "length", len(self.text))

        def __eq__(self, other):
            return self.text.lower() == other.text.lower()

        def __hash__(self):
            return hash(self.text.lower())

        def __repr__(self):
            return self.text

    assert Word("A").length == 1
    assert {Word("A")} == {Word("a")}
    assert repr(Word("A")) == "A"


def test_one_that_holds_itself_can_be_printed():
    @dataclass(slots=True)
    class Node:
        """A node."""

        next: "Node | None" = None

    node = Node()
    node.next = node
    assert "Node(next=...)" in repr(node)


def test_a_class_that_nobody_uses_compiles_nothing():
    shape, solid = drawn_by(dataclass, frozen=True, slots=True)
    assert not [name for cls in (shape, solid) for name in ("__init__", "__eq__", "__hash__") if compiled(cls, name)]
    solid("a")
    assert compiled(solid, "__init__")
    assert not compiled(shape, "__init__")
    assert not compiled(solid, "__eq__")


def compiled(cls, name):
    return isinstance(vars(cls)[name], FunctionType)
