"""The set-up tools: what they refuse, what they take, and what they say."""

import argparse
import hashlib
import tarfile

import pytest
from repository import ROOT, load_tool

provision = load_tool("provision")
system = load_tool("provision_system")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ET_CACHE", str(tmp_path / "cache"))
    return provision.cache_root()


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_table_is_whole(arch):
    names = {*provision.BUILDS, *(need for needs in provision.BUILDS.values() for need in needs)}
    for name in names:
        for row in provision.rows(name, arch):
            assert len(row.sha256) == 64 and int(row.sha256, 16)
            assert row.kind in ("source", "deb")
            assert "=" in row.package, "a version that is not exact changes under us"


def test_unknown_architecture_says_what_to_do():
    with pytest.raises(provision.ProvisionError, match=r"ET_XNNPACK_SOURCE"):
        provision.rows("cpuinfo", "sparc")


class FakeApt:
    """Gives a file that somebody has changed."""

    def __init__(self, folder, suites, arch):
        self._folder = folder

    def fetch(self, row):
        path = self._folder / "download"
        path.mkdir()
        (path / "changed.tar.xz").write_bytes(b"not what was pinned")
        return provision.checked([path / "changed.tar.xz"], row)


def test_changed_file_is_refused_and_nothing_is_unpacked(cache, monkeypatch):
    monkeypatch.setattr(provision, "PrivateApt", FakeApt)
    with pytest.raises(provision.ProvisionError, match=r"expected sha256 90bde2ca.*Nothing was unpacked"):
        provision.fetch(["xnnpack"], "amd64")
    assert not provision.source_folder("xnnpack", "amd64").exists()


def test_right_file_is_taken_once(cache, tmp_path, monkeypatch):
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "LICENSE").write_text("free")
    archive = tmp_path / "x.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "top", "xnnpack-1.0")
    row = provision.Row("xnnpack", "any", "source", "trixie", "x=1", hashlib.sha256(archive.read_bytes()).hexdigest())
    calls = []

    class Apt:
        def __init__(self, folder, suites, arch):
            calls.append(suites)

        def fetch(self, row):
            return provision.checked([archive], row)

    monkeypatch.setattr(provision, "rows", lambda name, arch: [row])
    monkeypatch.setattr(provision, "PrivateApt", Apt)
    for _ in range(2):
        provision.fetch(["xnnpack"], "amd64")
    assert (provision.source_folder("xnnpack", "amd64") / "LICENSE").read_text() == "free", "the top folder is left out"
    assert calls == [{"trixie"}]


def test_without_apt_the_message_names_the_ways_out(monkeypatch):
    monkeypatch.setattr(provision.shutil, "which", lambda name: None)
    with pytest.raises(provision.ProvisionError, match=r"ET_XNNPACK_SOURCE=dir.*ET_BACKENDS=example"):
        provision.debian_mirror()


def test_own_sources_are_taken_with_what_lies_beside_them(tmp_path):
    for name in ("XNNPACK", "pthreadpool"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "CMakeLists.txt").write_text("")
    own = str(tmp_path / "XNNPACK")
    assert provision.own_source("xnnpack", own) == tmp_path / "XNNPACK"
    assert provision.own_source("pthreadpool", own) == tmp_path / "pthreadpool"
    assert provision.own_source("fxdiv", own) is None
    assert provision.own_source("xnnpack", "") is None
    with pytest.raises(provision.ProvisionError, match="no XNNPACK source"):
        provision.own_source("xnnpack", str(tmp_path))


def test_build_is_found_in_the_cache(cache, monkeypatch):
    built = []

    def install(name, recipe, definitions, prefix, arguments):
        built.append(name)
        prefix.mkdir(parents=True)

    monkeypatch.setattr(provision, "fetch", lambda names, arch: None)
    monkeypatch.setattr(provision, "configure_and_install", install)
    arguments = argparse.Namespace(arch="amd64", cc="cc", cxx="c++", sanitize="", source="", toolchain=None)
    first = provision.build("xnnpack", arguments)
    assert provision.build("xnnpack", arguments) == first
    assert built == ["pthreadpool", "xnnpack"]
    arguments.sanitize = "thread"
    provision.build("pthreadpool", arguments)
    assert built == ["pthreadpool", "xnnpack", "pthreadpool"], "other flags are another build"


def test_missing_debian_packages_are_named_when_not_root(monkeypatch):
    monkeypatch.setitem(system.DEBIAN, "tests", {"/nowhere/gtest.h": "libgtest-dev"})
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(SystemExit, match=r"sudo apt-get install .*libgtest-dev"):
        system.debian(["tests"])


def test_present_debian_packages_cost_nothing(monkeypatch, capsys):
    monkeypatch.setitem(system.DEBIAN, "tests", {"/": "base-files"})
    monkeypatch.setattr(system.subprocess, "run", lambda *_, **__: pytest.fail("nothing is missing"))
    system.debian(["tests"])
    assert capsys.readouterr().out == ""


def test_every_group_that_make_installs_exists():
    groups = system.read_groups()
    makefile = (ROOT / "Makefile").read_text()
    for line in makefile.splitlines():
        if " venv " in line and "$(SETUP)" in line:
            words = line.split(" venv ")[1].split("--tree")[0].split()[1:]
            assert [word for word in words if word not in groups] == []
    assert groups["torch"][0] == "torch==2.13.0", "a range pulls gigabytes of CUDA packages"
