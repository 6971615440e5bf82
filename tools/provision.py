#!/usr/bin/env python3
"""Fetch third-party sources with pinned checksums and build them once, into a cache outside the build folder.

Not for Debian packages that the build machine itself needs (a compiler, GoogleTest), nor for Python packages: those are
``tools/provision_system.py``'s. CMake calls this at configure time (cmake/EtThirdParty.cmake); so can a person:

    tools/provision.py build pthreadpool hwy xnnpack     # prints one line "<name>=<prefix>" for each
    tools/provision.py fetch                             # sources only
    tools/provision.py build xnnpack --source DIR   # the user's own XNNPACK and its neighbours (-DET_XNNPACK_SOURCE)

The cache is ``$ET_CACHE``, or ``executorch_py`` in the user's cache folder:

    src/<name>-<hash>/       unpacked sources
    built/<name>-<hash>/     installed static libraries and headers; the hash covers sources, compiler and options

Sources come from Debian's own archive through apt with a private state: nothing of the system is read but the address
of its mirror, and nothing of it is changed. Needs no root.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "third_party.txt"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# component -> the components whose headers or libraries its build needs
BUILDS: dict[str, tuple[str, ...]] = {
    "pthreadpool": ("fxdiv",),
    "hwy": (),
    "xnnpack": ("fxdiv", "cpuinfo", "pthreadpool"),
}
# Headers alone, which do for every processor: taken from the packages of the machine that builds.
HEADERS = ("fxdiv",)

WITHOUT_DEBIAN = (
    "Give -DET_XNNPACK_SOURCE=dir, a clone of XNNPACK with clones of pthreadpool, FXdiv, cpuinfo and highway beside "
    "it; or bring the src folder of a cache that was filled elsewhere (tools/provision.py fetch) as $ET_CACHE/src; "
    "or do without: -DET_BACKENDS=example -DET_BUILD_THREADS=OFF -DET_BUILD_OPTIMIZED=OFF"
)
# component -> the folder that its upstream repository is cloned into
UPSTREAM_FOLDERS = {"pthreadpool": "pthreadpool", "hwy": "highway", "fxdiv": "FXdiv", "cpuinfo": "cpuinfo"}


class ProvisionError(Exception):
    """Something that the user has to know; the message says what to do."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    arch: str
    kind: str
    suite: str
    package: str
    sha256: str


def say(message: str) -> None:
    """Prints to stderr: stdout carries results only."""
    print(f"[provision] {message}", file=sys.stderr, flush=True)


def cache_root() -> Path:
    """The cache folder; created if missing."""
    base = os.environ.get("ET_CACHE")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "executorch_py")
    root = Path(base).resolve()
    root.mkdir(parents=True, exist_ok=True)
    return root


def debian_arch(processor: str) -> str:
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf"}.get(processor, processor)


def rows(name: str, arch: str) -> list[Row]:
    """The rows of a component for an architecture.

    Raises:
        ProvisionError: the table has none.
    """
    lines = (line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    found = [row for row in (Row(*line) for line in lines) if row.name == name and row.arch in ("any", arch)]
    if not found:
        raise ProvisionError(f"{TABLE.name} has no '{name}' for {arch}. {WITHOUT_DEBIAN}")
    return found


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on `path`, so that two builds do not make the same thing at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build that makes {path.stem}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | Path], cwd: Path | None = None, log: Path | None = None) -> str:
    """Runs a command and gives its stdout; on failure the error shows the end of what it printed."""
    result = subprocess.run([str(word) for word in command], cwd=cwd, text=True, capture_output=True)
    if log:
        log.write_text(result.stdout + result.stderr)
    if result.returncode != 0:
        tail = "\n".join((result.stdout + result.stderr).splitlines()[-25:])
        raise ProvisionError(f"'{' '.join(str(word) for word in command)}' failed ({result.returncode}):\n{tail}")
    return result.stdout


# --- sources
# -----------------------------------------------------------------------------------------------------------


def debian_mirror() -> str:
    """The address of the Debian archive, as this machine's own apt has it."""
    if not shutil.which("apt-get"):
        raise ProvisionError(f"no apt-get here. {WITHOUT_DEBIAN}")
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"])
    mirrors = []
    for line in sorted(set(targets.splitlines())):
        uri, release, component = line.split()
        if component == "main" and re.fullmatch(r"[a-z]+", release) and uri.rstrip("/").endswith("debian"):
            mirrors.append(uri)
    if not mirrors:
        raise ProvisionError(f"apt knows no Debian archive. {WITHOUT_DEBIAN}")
    return mirrors[0]


class PrivateApt:
    """apt with its own state in a temporary folder: sources of other releases without touching the system's lists."""

    def __init__(self, folder: Path, suites: set[str], arch: str):
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "download"):
            (folder / name).mkdir(parents=True)
        mirror = debian_mirror()
        signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        sources = folder / "sources.list"
        sources.write_text(
            "".join(
                f"{kind} {signed}{mirror} {suite} main\n" for suite in sorted(suites) for kind in ("deb", "deb-src")
            )
        )
        options = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": arch,
            "APT::Architectures": arch,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        self._options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        run(["apt-get", *self._options, "update"])

    def fetch(self, row: Row) -> Path:
        """Downloads what a row names, checks it, and gives the file."""
        # --tar-only: apt cannot always fetch the packaging diff of another release
        source = ("source", "--tar-only", "--download-only")
        return checked(self.download(row.package, *(source if row.kind == "source" else ("download",))), row)

    def download(self, package: str, *action: str) -> list[Path]:
        """Downloads a package, whose signature apt has checked, and gives the files."""
        folder = self._folder / "download" / package.split("=")[0]
        folder.mkdir()
        run(["apt-get", *self._options, *(action or ("download",)), package], cwd=folder)
        return [path for path in folder.iterdir() if path.is_file()]


def checked(files: Sequence[Path], row: Row) -> Path:
    """The one of the files that has the pinned checksum.

    Raises:
        ProvisionError: none has.
    """
    found = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    for path, digest in found.items():
        if digest == row.sha256:
            return path
    got = ", ".join(f"{path.name} {digest}" for path, digest in found.items()) or "nothing"
    raise ProvisionError(f"{row.package}: expected sha256 {row.sha256}, got {got}. Nothing was unpacked")


def source_folder(name: str, arch: str) -> Path:
    digest = hashlib.sha256(" ".join(row.sha256 for row in rows(name, arch)).encode()).hexdigest()[:12]
    return cache_root() / "src" / f"{name}-{digest}"


def fetch(names: Sequence[str], arch: str) -> None:
    """Makes sure that the sources of the components lie unpacked in the cache."""
    if all(source_folder(name, arch).is_dir() for name in names):
        return
    with locked(cache_root() / "src" / "sources.lock"):
        missing = [name for name in names if not source_folder(name, arch).is_dir()]
        if not missing:
            return
        wanted = [row for name in missing for row in rows(name, arch)]
        say(f"fetching {', '.join(row.package for row in wanted)} from the Debian archive")
        with tempfile.TemporaryDirectory(dir=cache_root(), prefix="apt-") as folder:
            apt = PrivateApt(Path(folder), {row.suite for row in wanted}, arch)
            for name in missing:
                unpacked = Path(folder) / "unpacked" / name
                unpacked.mkdir(parents=True)
                for row in rows(name, arch):
                    unpack(apt.fetch(row), row.kind, unpacked)
                unpacked.rename(source_folder(name, arch))


def unpack(archive: Path, kind: str, folder: Path) -> None:
    """Unpacks an archive into a folder; a single top folder of a source tarball is left out."""
    if kind == "deb":
        run(["dpkg-deb", "-x", archive, folder])
        return
    members = run(["tar", "-tf", archive]).splitlines()
    tops = {member.removeprefix("./").split("/")[0] for member in members if member not in ("./", ".")}
    strip = ["--strip-components=1"] if len(tops) == 1 else []
    run(["tar", "-xf", archive, "-C", folder, *strip])


# --- builds
# ------------------------------------------------------------------------------------------------------------


def build(name: str, arguments: argparse.Namespace) -> Path:
    """Builds a component, unless the cache has it, and gives the prefix it is installed in."""
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_C_FLAGS_RELEASE": "-O2 -DNDEBUG",
        "CMAKE_CXX_FLAGS_RELEASE": "-O2 -DNDEBUG",
    }
    if name == "xnnpack":  # never sanitized: its kernels read beyond their inputs by contract
        arguments = argparse.Namespace(**{**vars(arguments), "sanitize": ""})
    if arguments.sanitize:
        flags = f"-fsanitize={arguments.sanitize} -g"
        definitions |= {"CMAKE_C_FLAGS": flags, "CMAKE_CXX_FLAGS": flags}
    identity = [
        name,
        compiler_identity(arguments.cc),
        compiler_identity(arguments.cxx),
        *sorted(f"{k}={v}" for k, v in definitions.items()),
    ]

    for need in (name, *(need for need in BUILDS[name] if need not in BUILDS)):
        folder = own_source(need, arguments.source)
        if folder:
            identity.append(f"{folder} {tree_stamp(folder)}")
        else:
            arch = debian_arch(platform.machine()) if need in HEADERS else arguments.arch
            fetch([need], arch)
            folder = source_folder(need, arch)
            identity.append(folder.name)
        definitions[f"{need.upper()}_DIR"] = str(folder)
    for need in BUILDS[name]:
        if need in BUILDS:
            prefix = build(need, arguments)
            definitions[f"{need.upper()}_PREFIX"] = str(prefix)
            identity.append(prefix.name)
    if arguments.toolchain:
        definitions["CMAKE_TOOLCHAIN_FILE"] = str(arguments.toolchain.resolve())
        identity.append(arguments.toolchain.read_text())
    recipe = ROOT / "cmake" / "third_party" / name
    identity += [path.read_text() for path in sorted(recipe.iterdir()) if path.is_file()]

    prefix = cache_root() / "built" / f"{name}-{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:12]}"
    if prefix.is_dir():
        return prefix
    with locked(prefix.with_suffix(".lock")):
        if not prefix.is_dir():
            configure_and_install(name, recipe, definitions, prefix, arguments)
    return prefix


def own_source(name: str, xnnpack: str) -> Path | None:
    """The user's own source of a component: their XNNPACK folder, or a folder beside it; None if there is none."""
    if not xnnpack:
        return None
    source = Path(xnnpack).resolve()
    if not (source / "CMakeLists.txt").exists():
        raise ProvisionError(f"{source} is no XNNPACK source: it has no CMakeLists.txt")
    folder = source if name == "xnnpack" else source.parent / UPSTREAM_FOLDERS[name]
    return folder if folder.is_dir() else None


def tree_stamp(folder: Path) -> str:
    """A cheap stamp of a source tree: names, sizes and times of its files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.[chS]*")):
        stat = path.stat()
        digest.update(f"{path.relative_to(folder)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def compiler_identity(compiler: str) -> str:
    return run([compiler, "--version"]).splitlines()[0]


def configure_and_install(
    name: str, recipe: Path, definitions: dict[str, str], prefix: Path, arguments: argparse.Namespace
) -> None:
    """Builds in a temporary folder and installs by a rename, so that a prefix is there whole or not at all."""
    started = time.monotonic()
    say(f"building {name}, kept in the cache for later builds")
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool):
            raise ProvisionError(f"'{tool}' is not on PATH: pip install {tool}")
    launcher = shutil.which("ccache")
    if launcher:
        definitions = definitions | {"CMAKE_C_COMPILER_LAUNCHER": launcher, "CMAKE_CXX_COMPILER_LAUNCHER": launcher}
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f"{name}-build-") as folder:
        tree, staged = Path(folder) / "tree", Path(folder) / "staged"
        definitions |= {
            "CMAKE_INSTALL_PREFIX": str(staged),
            "CMAKE_INSTALL_LIBDIR": "lib",
            "CMAKE_C_COMPILER": arguments.cc,
            "CMAKE_CXX_COMPILER": arguments.cxx,
            "Python_EXECUTABLE": sys.executable,
        }
        defined = [f"-D{key}={value}" for key, value in definitions.items()]
        run(["cmake", "-S", recipe, "-B", tree, "-G", "Ninja", *defined])
        ninja(tree, name)
        run(["cmake", "--install", tree])
        staged.rename(prefix)
    say(f"{name} built in {time.monotonic() - started:.0f} s")


def ninja(tree: Path, name: str) -> None:
    """Runs ninja and shows how far it is: in place on a terminal, every tenth part elsewhere."""
    shown = 0
    output: list[str] = []
    with subprocess.Popen(
        ["ninja", "-C", tree], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            match = re.match(r"\[(\d+)/(\d+)\]", line)
            if not match:
                continue
            done, total = int(match[1]), int(match[2])
            if sys.stderr.isatty():
                print(
                    f"\r[provision] {name} {done}/{total} ",
                    end="\n" if done == total else "",
                    file=sys.stderr,
                    flush=True,
                )
            elif done * 10 // total > shown and total > 50:
                shown = done * 10 // total
                say(f"{name} {done}/{total}")
    if process.returncode != 0:
        raise ProvisionError(f"building {name} failed:\n{''.join(output[-40:])}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch and build third-party libraries into the cache.")
    parser.add_argument("action", choices=("fetch", "build"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BUILDS)}; none: all")
    parser.add_argument("--processor", default=platform.machine(), help="of the result, as CMake names it")
    parser.add_argument("--toolchain", type=Path, help="CMake's toolchain file, for another processor than this one")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--sanitize", default="", help="as in -fsanitize=")
    parser.add_argument("--source", default="", help="XNNPACK's source folder, in place of the pinned one")
    arguments = parser.parse_args()
    arguments.arch = debian_arch(arguments.processor)
    names = arguments.names or list(BUILDS)
    try:
        if unknown := set(names) - set(BUILDS):
            raise ProvisionError(f"no such component: {', '.join(sorted(unknown))}; there are {', '.join(BUILDS)}")
        if arguments.action == "fetch":
            fetch([*names, *(need for name in names for need in BUILDS[name] if need not in names)], arguments.arch)
        else:
            for name in names:
                print(f"{name}={build(name, arguments)}", flush=True)
    except ProvisionError as error:
        print(f"provision: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
