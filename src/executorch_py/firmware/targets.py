"""The targets that ``etpy firmware`` knows: processor, compiler flags, and the board that the emulator has for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .backend_folders import accelerators


@dataclass(frozen=True)
class Region:
    """A range of memory of a board."""

    name: str
    origin: int
    length: int
    access: str  # "rx" or "rwx", as in a linker script


@dataclass(frozen=True)
class Target:
    """A processor with a board around it."""

    name: str
    cpu: str
    flags: str
    board: str
    regions: tuple[Region, ...]  # FLASH, RAM, and others for models that flash has no room for
    machine: str = ""  # of qemu-system-arm; "": no emulated board
    emulated_cpu: str = ""  # what that machine has, where it is another
    accelerator: str = ""  # an NPU beside the processor; the emulator has none
    compiler: str = "arm-none-eabi-g++"
    program: str = "firmware.elf"  # what the project builds

    @property
    def is_host(self) -> bool:
        """True for the machine that this runs on."""
        return not self.cpu

    @property
    def is_page(self) -> bool:
        """True for WebAssembly, whose program runs in node and in a browser's page."""
        return self.cpu == "wasm32"

    @property
    def is_bare(self) -> bool:
        """True for a board: a start-up, a linker script and an image with sizes."""
        return not self.is_host and not self.is_page

    def emulator(self) -> list[str]:
        """The emulator's command, without the program. Empty where it has no such board."""
        if self.is_page:
            return ["node", "--no-experimental-fetch"]  # Emscripten 3.1.6 takes node's fetch for a browser's
        if not self.machine:
            return []
        return [
            "qemu-system-arm", "-M", self.machine, "-cpu", self.emulated_cpu or self.cpu,
            "-nographic", "-monitor", "none", "-serial", "none",
            "-semihosting-config", "enable=on,target=native", "-icount", "shift=5", "-kernel",
        ]  # fmt: skip


_MPS2 = (Region("FLASH", 0x00000000, 4 << 20, "rx"), Region("RAM", 0x20000000, 4 << 20, "rwx"))
_MPS3 = (
    Region("FLASH", 0x00000000, 512 << 10, "rx"),  # its ITCM
    Region("RAM", 0x20000000, 512 << 10, "rwx"),  # its DTCM
    Region("DDR", 0x60000000, 256 << 20, "rx"),
)

_AN505 = (Region("FLASH", 0x10000000, 4 << 20, "rx"), Region("RAM", 0x38000000, 2 << 20, "rwx"))  # both secure

_TARGETS = (
    Target("host", "", "", "this machine", (), compiler="g++"),
    Target("wasm", "wasm32", "-msimd128", "node or a browser", (), compiler="em++", program="firmware.js"),
    # No emulated board of an M0 has the memory. An M3 runs its instructions; board/cortex_m.cpp forbids it the rest.
    Target(
        "cortex-m0", "cortex-m0", "-mcpu=cortex-m0 -mthumb", "Arm MPS2 with AN385, whose core is an M3",
        _MPS2, "mps2-an385", "cortex-m3",
    ),
    Target("cortex-m3", "cortex-m3", "-mcpu=cortex-m3 -mthumb", "Arm MPS2 with AN385", _MPS2, "mps2-an385"),
    Target(
        "cortex-m4", "cortex-m4", "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16",
        "Arm MPS2 with AN386", _MPS2, "mps2-an386",
    ),
    Target(
        "cortex-m7", "cortex-m7", "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16",
        "Arm MPS2 with AN500", _MPS2, "mps2-an500",
    ),
    Target(
        "cortex-m33", "cortex-m33", "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16",
        "Arm MPS2 with AN505", _AN505, "mps2-an505",
    ),
    Target(
        "cortex-m55", "cortex-m55", "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
        "Arm MPS3 with AN547", _MPS3, "mps3-an547",
    ),
)  # fmt: skip

_PROCESSORS = {target.name: target for target in _TARGETS}

#: Target by name. Those of a backend's accelerator are the processor that it stands beside.
TARGETS = _PROCESSORS | {
    name: replace(_PROCESSORS[beside], name=name, board=f"{_PROCESSORS[beside].board}, beside an NPU", accelerator=name)
    for name, beside in accelerators().items()
}
