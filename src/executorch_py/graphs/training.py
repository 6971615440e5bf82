"""Training methods: programs that return the gradients of a loss beside the model's own outputs.

``torch.export.experimental._export_forward_backward`` makes such a program. Its method returns, one after another,

* the model's outputs, the loss among them;
* the gradient of each trained parameter;
* each trained parameter itself, in the same order. These outputs are the method's mutable state, not copies of it.

Three constant methods tell a reader where the gradients and the parameters begin and what they are called. Their names
are the published ones, so that ``TrainingModule`` of either runtime reads files of either exporter.

    >>> training_methods({"forward": joint})  # doctest: +SKIP
    {'__et_training_gradients_index_forward': 1, '__et_training_parameters_index_forward': 3,
     '__et_training_fqn_forward': ['linear.weight', 'linear.bias']}
"""

from collections.abc import Mapping

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

#: Metadata of the placeholder of a parameter that some method of the program trains.
TRAINED = "is_trained"

_RETURNED = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)


def trained_parameters(program: ExportedProgram) -> list[str]:
    """Names of the parameters whose gradients a program returns, in the order of the gradients; empty for inference."""
    return [
        str(spec.target)
        for spec in program.graph_signature.output_specs
        if spec.kind == OutputKind.GRADIENT_TO_PARAMETER
    ]


def training_methods(programs: Mapping[str, ExportedProgram]) -> dict[str, int | list[str]]:
    """The constant methods that describe the training methods among ``programs``, by name."""
    described: dict[str, int | list[str]] = {}
    for name, program in programs.items():
        if names := trained_parameters(program):
            first = sum(spec.kind in _RETURNED for spec in program.graph_signature.output_specs)
            described[f"__et_training_gradients_index_{name}"] = first
            described[f"__et_training_parameters_index_{name}"] = first + len(names)
            described[f"__et_training_fqn_{name}"] = names
    return described
