"""Whether the Spack package asks configure for what there is, and names every library that configure wants.

    spack_recipe.py SOURCE

SOURCE is the root of the sources, with configure. Spack is not needed: its classes and directives are stood for here,
which shows that the file is read, what it declares and what it passes, not that Spack finds a solution.
"""

import pathlib
import re
import subprocess
import sys
import types

source = pathlib.Path(sys.argv[1]).resolve()
path = source / "contrib/spack/spack_repo/cistron/packages/cistron/package.py"
declared = {}


def directive(kind):
    return lambda name, *rest, **more: declared.setdefault(kind, []).append((name, more))


class Package:
    pass


class Named:
    def __init__(self, prefix):
        self.prefix, self.mpicc = prefix, f"{prefix}/bin/mpicc"


class Spec(dict):
    def __init__(self, variants, archs):
        super().__init__({name: Named(f"/opt/{name}") for name in ("mpi", "cuda", "nccl")})
        self.on, self.variants = variants, {"cuda_arch": types.SimpleNamespace(value=archs)}

    def satisfies(self, text):
        return (text[1:] in self.on) == (text[0] == "+")


def module(name, **members):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(members)


directives = ("license", "version", "variant", "depends_on", "resource", "conflicts")
module("spack")
module("spack.package", Executable=None, **{name: directive(name) for name in directives})
for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
    module(name)
module("spack_repo.builtin.build_systems.autotools", AutotoolsPackage=type("AutotoolsPackage", (Package,), {}))
module("spack_repo.builtin.build_systems.cuda", CudaPackage=type("CudaPackage", (Package,), {}))
scope = {"__file__": str(path)}
exec(compile(path.read_text(), path, "exec"), scope)
assert scope["SOURCE"] == source, scope["SOURCE"]

wanted = set(re.findall(r"^CISTRON_LIBRARY\(\[([a-z0-9]+)\]", (source / "configure.ac").read_text(), re.M))
assert len(wanted) >= 8, wanted
wanted |= {"mpi", "hdf5", "libconfig", "onednn", "openblas", "nccl"}
named = {re.split("[@+~ ]", name)[0].removesuffix("-api") for name, _ in declared["depends_on"]}
assert wanted <= named, f"not named: {wanted - named}"
version = re.search(r"AC_PREREQ\(\[(.*?)\]", (source / "configure.ac").read_text())[1]
assert f"autoconf@{version}:" in [name for name, _ in declared["depends_on"]], version

known = subprocess.run([source / "configure", "--help"], capture_output=True, text=True, check=True).stdout
options = set(re.findall(r"--with-([a-z0-9-]+)", known))
for variants, archs in (
    ((), ("none",)),
    (("onednn",), ("none",)),
    (("cuda", "onednn", "nccl"), ("90", "80")),
    (("cuda",), ("none",)),
):
    package = scope["Cistron"]()
    package.spec = Spec(variants, archs)
    package.stage = types.SimpleNamespace(source_path="/stage")
    arguments = package.configure_args()
    print(" ".join(arguments))
    for argument in arguments:
        option = re.match(r"--with(?:out)?-([a-z0-9-]+)", argument)
        assert option and option[1] in options or argument.startswith(("CC=", "CUDA_ARCH=")), argument
    assert ("CUDA_ARCH=90a 80" in arguments) == (archs != ("none",))
