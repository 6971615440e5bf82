"""The structure of nested inputs and outputs: as torch writes it, flattened and rebuilt without torch."""

import collections
import dataclasses
import enum
import json
import typing

import pytest

from executorch_py import errors, pytree


class Pair(typing.NamedTuple):
    first: object
    second: object


TREES = [
    3,
    (1, 2),
    [1, [2, 3], ()],
    {"b": 1, "a": (2, None)},
    collections.OrderedDict([("z", 1), ("a", [2])]),
    collections.deque([1, 2]),
    Pair(1, [2, {"k": Pair(3, 4)}]),
    ((1, {"y": 2, 5: 3}), {"mask": None, "k": [4]}),
    {(0, "a"): 1, ("b", (1, 2)): [2]},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_equals_torch(tree):
    torch_pytree = pytest.importorskip("torch.utils._pytree")
    leaves, torch_spec = torch_pytree.tree_flatten(tree)
    text = pytree.dumps(torch_spec)
    spec = pytree.loads(text)
    assert spec.num_leaves == len(leaves)
    assert spec.flatten(tree) == leaves
    again = spec.unflatten(leaves)
    assert again == tree and type(again) is type(tree)
    assert json.loads(pytree.dumps(spec)) == json.loads(text)
    assert pytree.loads(pytree.dumps(spec)) == spec
    if "Pair" not in text:  # torch cannot write named tuples that nobody registered
        assert json.loads(text) == json.loads(torch_pytree.treespec_dumps(torch_spec))


def test_registered_class():
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree

    class Box:
        def __init__(self, value):
            self.value = value

    name = "tests.Box"
    _pytree.register_pytree_node(
        Box, lambda box: ([box.value], ["value"]), lambda values, _: Box(*values), serialized_type_name=name
    )
    spec = pytree.loads(pytree.dumps(_pytree.tree_structure((Box(torch.ones(1)), 2))))
    assert spec.flatten((Box(7), 8)) == [7, 8]
    box, _ = spec.unflatten([1, 2])
    assert isinstance(box, Box) and box.value == 1
    stranger = pytree.loads(pytree.dumps(spec).replace(name, "elsewhere.Box"))
    assert stranger.unflatten([1, 2]) == ({"value": 1}, 2)


def test_dataclass():
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree

    @dataclasses.dataclass
    class Sides:
        left: object
        right: object = None

    torch.export.register_dataclass(Sides, serialized_type_name="tests.Sides")
    spec = pytree.loads(pytree.dumps(_pytree.tree_structure(Sides(torch.ones(1)))))
    assert spec.flatten(Sides(3)) == [3]
    assert spec.unflatten([3]) == Sides(3)
    with pytest.raises(errors.InvalidArgumentError, match=r"has \['right'\], None when the model was exported"):
        spec.flatten(Sides(3, 4))
    stranger = pytree.loads(pytree.dumps(spec).replace("tests.Sides", "elsewhere.Sides"))
    assert stranger.unflatten([1]) == {"left": 1}


def test_registered_class_without_names():
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree

    class Pair:
        def __init__(self, first, second, scale):
            self.parts, self.scale = [first, second], scale

    _pytree.register_pytree_node(
        Pair,
        lambda pair: (pair.parts, pair.scale),
        lambda values, scale: Pair(*values, scale),
        serialized_type_name="tests.Pair",
    )
    spec = pytree.loads(pytree.dumps(_pytree.tree_structure(Pair(torch.ones(1), 2, 0.5))))
    assert spec.flatten(Pair(1, 2, 0.5)) == [1, 2]
    assert spec.unflatten([1, 2]).scale == 0.5


def test_dict_keys_are_matched_by_name():
    spec = pytree.loads(_dict("a", "b"))
    assert spec.flatten({"b": 2, "a": 1}) == [1, 2]


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"a": 1}, errors.InvalidArgumentError, r"input misses \['b'\]; its keys are \['a', 'b'\]"),
        ({"a": 1, "b": 2, "c": 3}, errors.InvalidArgumentError, r"input has \['c'\] which the method does not take"),
        ([1, 2], errors.InvalidTypeError, r"input is a list, the method takes a \{'a': \*, 'b': \*\}"),
    ],
)
def test_wrong_dict(tree, error, message):
    with pytest.raises(error, match=message):
        pytree.loads(_dict("a", "b")).flatten(tree)


def test_wrong_sequence_names_the_place():
    spec = pytree.TreeSpec(
        "builtins.tuple", None, (pytree.LEAF, pytree.TreeSpec("builtins.list", None, (pytree.LEAF,) * 2))
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"input\[1\] has 3 items, the method takes 2"):
        spec.flatten((1, [2, 3, 4]))
    with pytest.raises(errors.InvalidTypeError, match=r"input\[1\] is a int, the method takes a \[\*, \*\]"):
        spec.flatten((1, 2))
    with pytest.raises(errors.InvalidArgumentError, match="2 values for a structure of 3 leaves"):
        spec.unflatten([1, 2])


def test_unknown_named_tuple_becomes_an_equal_one():
    text = json.dumps(
        [
            1,
            {
                "type": "collections.namedtuple",
                "context": json.dumps({"name": "not.loaded.Out", "fields": ["x", "y"]}),
                "children_spec": [_LEAF, _LEAF],
            },
        ]
    )
    made = pytree.loads(text).unflatten([1, 2])
    assert type(made).__name__ == "Out" and made == (1, 2) and made.x == 1


_LEAF = {"type": None, "context": None, "children_spec": []}


def _dict(*keys):
    return json.dumps([1, {"type": "builtins.dict", "context": json.dumps(keys), "children_spec": [_LEAF] * len(keys)}])


def _named_tuple(*fields):
    context = json.dumps({"name": "Out", "fields": fields})
    return json.dumps(
        [1, {"type": "collections.namedtuple", "context": context, "children_spec": [_LEAF] * len(fields)}]
    )


def _nested(depth):
    node = _LEAF
    for _ in range(depth):
        node = {"type": "builtins.list", "context": "null", "children_spec": [node]}
    return json.dumps([1, node])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[2, {}]",
        "[1, {}]",
        "[1, 5]",
        '[1, {"type": 5, "context": null, "children_spec": []}]',
        '[1, {"type": null, "context": null, "children_spec": [{"type": null, "context": null, "children_spec": []}]}]',
        '[1, {"type": "builtins.dict", "context": "[]", "children_spec": [{"type": null, "children_spec": []}]}]',
        '[1, {"type": "builtins.dict", "context": "[{}]", "children_spec": [{"type": null, "children_spec": []}]}]',
        json.dumps([1, {"type": "builtins.dict", "context": "[" * 5000 + "]" * 5000, "children_spec": [_LEAF]}]),
        json.dumps([1, {"type": "builtins.dict", "context": "[" * 990 + "]" * 990, "children_spec": [_LEAF]}]),
        _named_tuple("a b"),
        _nested(100),
        _nested(300),
    ],
)
def test_hostile_text_is_refused(text):
    with pytest.raises(errors.InvalidProgramError, match="structure of inputs or outputs"):
        pytree.loads(text)


@pytest.mark.parametrize("key", [None, enum.Enum("Color", "RED").RED, frozenset({1})])
def test_a_key_that_a_file_cannot_hold_is_refused_when_it_is_written(key):
    torch_pytree = pytest.importorskip("torch.utils._pytree")
    with pytest.raises(errors.InvalidTypeError, match=r"keys can be|cannot be written"):
        pytree.dumps(torch_pytree.tree_structure({key: 1}))
