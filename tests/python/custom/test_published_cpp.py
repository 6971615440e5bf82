"""Programs written as the published C++ pages write them, with only the root of the includes changed: built and run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from tests.python.custom.page import user_environment

PROGRAMS = sorted(path for path in (Path(__file__).parent / "published_cpp").glob("*.cpp"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs, built, and the models that they run."""
    folder = tmp_path_factory.mktemp("published")
    names = " ".join(path.stem for path in PROGRAMS)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(published LANGUAGES CXX)\n"
        f"find_package(executorch_py CONFIG REQUIRED)\nforeach(name {names})\n"
        f'  add_executable(${{name}} "{PROGRAMS[0].parent}/${{name}}.cpp")\n'
        "  target_link_libraries(${name} PRIVATE executorch_py::extensions executorch_py::kernels)\nendforeach()\n"
    )
    environment = user_environment(folder / "scripts")
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    configure = [cmake, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={et.cmake_prefix_path}"]
    for command in (configure, [cmake, "--build", folder / "build", "-j2", "--", "-k", "0"]):
        result = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    exported = torch.export.export(model, (torch.ones(2, 8),))
    et.to_edge_transform_and_lower(exported).to_executorch().save(folder / "model.pte")
    torch.library.define("my_ops::triple", "(Tensor x) -> Tensor")
    torch.library.register_fake("my_ops::triple", torch.empty_like)

    class Custom(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.my_ops.triple(x) + 1

    edge = et.to_edge_transform_and_lower(torch.export.export(Custom(), (torch.ones(2),)))
    edge.to_executorch(et.ExecutorchBackendConfig(target_kernels=["my_ops::triple.out"])).save(folder / "custom.pte")
    for form in ("span", "pointer", "neither"):
        delegated(f"{form.title()}Backend").save(folder / f"{form}.pte")
    return folder


def delegated(backend: str) -> et.ExecutorchProgramManager:
    """``x * 3 + 1``, the product delegated to a backend of a C++ program, for one to nine elements."""
    kind = type(backend, (BackendDetails,), {"preprocess": staticmethod(lambda *_: PreprocessResult(b"scale"))})

    class Products(Partitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            for node in exported_program.graph.nodes:
                if node.target is torch.ops.aten.mul.Tensor:
                    node.meta["delegation_tag"] = "product"
            spec = DelegationSpec(kind.__name__, [CompileSpec("factor", bytes([3]))])
            return PartitionResult(exported_program, {"product": spec})

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3 + 1

    shapes = ({0: torch.export.Dim("n", min=1, max=9)},)
    exported = torch.export.export(Scaled(), (torch.ones(2),), dynamic_shapes=shapes)
    return et.to_edge_transform_and_lower(exported, partitioner=[Products()]).to_executorch()


@pytest.mark.parametrize("name", [path.stem for path in PROGRAMS])
def test_program(name: str, project: Path) -> None:
    result = subprocess.run([project / "build" / name], cwd=project, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    if name == "runner":
        assert "Output 0: tensor(sizes=[2, 4], [" in result.stdout, result.stdout
