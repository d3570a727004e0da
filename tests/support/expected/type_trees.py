"""Random nested types and random edits of them, as a spec writes a type and as Spark records one."""

from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

LEAVES: dict[str, tuple[pa.DataType, Any]] = {
    "smallint": (pa.int16(), 1),
    "int": (pa.int32(), 1),
    "bigint": (pa.int64(), 1),
    "float": (pa.float32(), 1.5),
    "double": (pa.float64(), 1.5),
    "string": (pa.string(), "a"),
    "boolean": (pa.bool_(), True),
}
WIDER = {"smallint": "int", "int": "bigint", "float": "double"}
OTHER = {"string": "int", "boolean": "string", "double": "string", "bigint": "string"}
JSON_NAMES = {"smallint": "short", "int": "integer", "bigint": "long"}
Tree: TypeAlias = Any
"""A type: the name of a leaf, a dict of a struct's fields, ("array", element), or ("map", value)."""

TREES = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: (
        st.dictionaries(st.sampled_from(("lat", "Lon", "cc", "tags", "user")), inner, min_size=1, max_size=3)
        | st.tuples(st.just("array"), inner)
        | st.tuples(st.just("map"), inner)
    ),
    max_leaves=6,
)
EDITS = ("drop", "rename", "add", "widen", "narrow", "retype", "reorder", "nothing")


def edited(tree: Tree, edit: str, data: st.DataObject) -> Tree:
    """The tree after an edit of a random part of it, unchanged if the part cannot be edited so."""
    if isinstance(tree, str):
        tables = {"widen": WIDER, "narrow": {wide: narrow for narrow, wide in WIDER.items()}, "retype": OTHER}
        return tables.get(edit, {}).get(tree, tree)
    if isinstance(tree, tuple):
        return (tree[0], edited(tree[1], edit, data))
    name = data.draw(st.sampled_from(sorted(tree)))
    others = {field: kind for field, kind in tree.items() if field != name}
    here = {
        "drop": others or tree,
        "rename": {**others, f"{name}_2": tree[name]},
        "add": {**tree, "more": data.draw(TREES)},
        "reorder": dict(reversed(tree.items())),
    }
    return here[edit] if edit in here and data.draw(st.booleans()) else {**tree, name: edited(tree[name], edit, data)}


def ddl(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    if isinstance(tree, tuple):
        return f"array<{ddl(tree[1])}>" if tree[0] == "array" else f"map<string, {ddl(tree[1])}>"
    return f"struct<{', '.join(f'{name}: {ddl(kind)}' for name, kind in tree.items())}>"


def spark_json(tree: Tree) -> Any:
    if isinstance(tree, str):
        return JSON_NAMES.get(tree, tree)
    if isinstance(tree, tuple) and tree[0] == "array":
        return {"type": "array", "elementType": spark_json(tree[1]), "containsNull": True}
    if isinstance(tree, tuple):
        return {"type": "map", "keyType": "string", "valueType": spark_json(tree[1]), "valueContainsNull": True}
    fields = [{"name": n, "type": spark_json(k), "nullable": True, "metadata": {}} for n, k in tree.items()]
    return {"type": "struct", "fields": fields}


def arrow(tree: Tree) -> pa.DataType:
    if isinstance(tree, str):
        return LEAVES[tree][0]
    if isinstance(tree, tuple):
        return pa.list_(arrow(tree[1])) if tree[0] == "array" else pa.map_(pa.string(), arrow(tree[1]))
    return pa.struct([(name, arrow(kind)) for name, kind in tree.items()])


def value(tree: Tree) -> Any:
    """A value without a null, with one element in each list and map."""
    if isinstance(tree, str):
        return LEAVES[tree][1]
    if isinstance(tree, tuple):
        return [value(tree[1])] if tree[0] == "array" else [("key", value(tree[1]))]
    return {name: value(kind) for name, kind in tree.items()}
