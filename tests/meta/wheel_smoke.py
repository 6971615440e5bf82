"""The least that an installed wheel must do. `export` needs torch, `run` and `plugin` only numpy; no argument: import
alone.

wheel_smoke.py export FOLDER            writes smoke.pte and custom.pte, which calls an operator of wheel_plugin/
wheel_smoke.py run FOLDER               runs smoke.pte
wheel_smoke.py plugin FOLDER LIBRARY    runs custom.pte with the kernels of a plug-in
"""

import os
import sys
import time


def export(path: str) -> None:
    import torch

    import executorch_py as et

    class Smoke(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            with torch.no_grad():
                self.linear.weight.copy_(torch.arange(12.0).reshape(3, 4))
                self.linear.bias.fill_(1.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.linear(x))

    program = et.to_edge_transform_and_lower(torch.export.export(Smoke(), (torch.ones(2, 4),))).to_executorch()
    program.save(os.path.join(path, "smoke.pte"))

    torch.library.define("smoke::triple", "(Tensor x) -> Tensor")
    torch.library.register_fake("smoke::triple", torch.empty_like)

    class Custom(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.smoke.triple(x) + 1

    edge = et.to_edge_transform_and_lower(torch.export.export(Custom(), (torch.ones(2),)))
    config = et.ExecutorchBackendConfig(target_kernels=["smoke::triple.out"])
    edge.to_executorch(config).save(os.path.join(path, "custom.pte"))


def run(path: str) -> None:
    import numpy as np

    import executorch_py as et

    program = et.Runtime.get().load_program(os.path.join(path, "smoke.pte"))
    (output,) = program.load_method("forward").execute((np.ones((2, 4), np.float32),))
    np.testing.assert_allclose(output, np.tile([7.0, 23.0, 39.0], (2, 1)), rtol=1e-6)
    assert "torch" not in sys.modules


def plugin(path: str, library: str) -> None:
    import numpy as np

    import executorch_py as et

    assert et.load_kernel_library(library) == "smoke"
    output = et.load(os.path.join(path, "custom.pte"))(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(output, [4, 7])


def main() -> None:
    started = time.perf_counter()
    import executorch_py

    print(
        f"executorch_py {executorch_py.__version__} from {executorch_py.__file__}, {time.perf_counter() - started:.3f} "
        "s"
    )
    if sys.argv[1:2] == ["export"]:
        export(sys.argv[2])
    elif sys.argv[1:2] == ["run"]:
        run(sys.argv[2])
    elif sys.argv[1:2] == ["plugin"]:
        plugin(sys.argv[2], sys.argv[3])
    else:
        import executorch_py._core


if __name__ == "__main__":
    main()
