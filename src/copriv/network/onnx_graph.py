"""A model as an ONNX graph, from the text of a table's cells to scores and predictions, in double precision.

Each column is an input of its name: text of shape (records, 1). Outputs are `prediction` (a number, or the name of a class)
and `score`, of shape (records,). Values that copriv would refuse give the score NaN, and the empty text as a class; a text
in a column of numbers that is no number stops the runtime.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from copriv.data.cells import MISSING
from copriv.network.portable import Portable, TextColumn

OPSET, ML_OPSET, IR_VERSION = 19, 4, 9
"""The first opset with comparison of texts, and the first ML opset that maps texts to 64-bit integers."""


class _Graph:
    """Nodes and constants of a graph, each with a name of its own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, *inputs: str, named: str = "", **options: Any) -> str:
        made = named or f"{kind} {len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [made], **options))
        return made

    def of(self, value: Any) -> str:
        """A constant: text, or numbers in double precision."""
        name, array = f"constant {len(self.constants)}", np.asarray(value)
        if array.dtype.kind == "U":
            texts = [text.encode() for text in array.ravel().tolist()]
            self.constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, texts))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def atoms(self, column: TextColumn) -> str:
        """The atoms of a column, of shape (records, atoms)."""
        cell = column.name
        if column.of_levels:
            same = self.double(self.node("Equal", cell, self.of([column.texts])))
            found = self.node("ReduceSum", same, self.of(np.array([1])), keepdims=1)
            return self.node("Div", same, found)  # 0/0 for a text that is none of the levels
        lacks = self.double(self.node("Equal", cell, self.of([sorted(MISSING)])))
        lacking = self.node("Greater", self.node("ReduceSum", lacks, self.of(np.array([1])), keepdims=1), self.of(0.0))
        cell = self.node("Where", lacking, self.of(column.missing or "nan"), cell)
        if column.texts:
            place = self.node(
                "LabelEncoder", cell, domain="ai.onnx.ml", keys_strings=list(column.texts),
                values_int64s=list(range(len(column.texts))), default_int64=-2,
            )  # fmt: skip
            value = self.double(place)
            value = self.node("Where", self.node("Less", value, self.of(-1.0)), self.of(np.nan), value)
        else:
            value = self.double(cell)
        above = self.node("Sub", value, self.of(column.low))
        for side, cut, end in (("Less", column.cut[0], 0.0), ("Greater", column.cut[1], column.width)):
            outside = self.node(side, above, self.of(end))
            above = self.node("Where", outside, self.of(end if cut else np.nan), above)
        if column.log:
            above = self.node("Log", self.node("Add", above, self.of(1.0)))
        return above

    def double(self, name: str) -> str:
        return self.node("Cast", name, to=TensorProto.DOUBLE)


def onnx_model(model: Portable) -> bytes:
    """Content of a model's ONNX file."""
    graph = _Graph()
    atoms = graph.node("Concat", *[graph.atoms(column) for column in model.columns], axis=1)
    inner, offset, outer = model.inner, model.inner_offset, model.outer
    if model.waves:
        angles = graph.node("Add", graph.node("MatMul", atoms, graph.of(inner)), graph.of(offset))
        atoms, weights, last = graph.node("Cos", angles), np.sqrt(2.0 / len(outer)) * outer, model.outer_offset
    else:
        weights, last = inner @ outer, float(offset @ outer) + model.outer_offset
    score = graph.node("MatMul", atoms, graph.of(weights))
    graph.node("Add", score, graph.of(last), named="score")
    kind = TensorProto.DOUBLE
    if model.classes is None:
        graph.node("Identity", "score", named="prediction")
    else:
        below, beyond = (graph.of(name) for name in model.classes)
        known = graph.node("Where", graph.node("Greater", "score", graph.of(0.0)), beyond, below)
        graph.node("Where", graph.node("IsNaN", "score"), graph.of(""), known, named="prediction")
        kind = TensorProto.STRING
    made = helper.make_graph(
        graph.nodes, "copriv",
        [helper.make_tensor_value_info(column.name, TensorProto.STRING, [None, 1]) for column in model.columns],
        [helper.make_tensor_value_info("prediction", kind, [None]),
         helper.make_tensor_value_info("score", TensorProto.DOUBLE, [None])],
        graph.constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    written: bytes = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
    return written
