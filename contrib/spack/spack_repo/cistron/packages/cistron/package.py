# SPDX-License-Identifier: Apache-2.0
import pathlib

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *

# the clone that this file lies in
SOURCE = pathlib.Path(__file__).resolve().parents[6]


class Cistron(AutotoolsPackage, CudaPackage):
    """Trains language models (Llama, ESM-2, AMPLIFY) on genomes, proteins and text as an HPC program: C11, MPI ranks,
    HDF5 data and checkpoints, CPUs and NVIDIA GPUs."""

    homepage = SOURCE.as_uri()
    git = SOURCE.as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    variant("onednn", default=True, description="Matrix products on CPUs by oneDNN, else by OpenBLAS")
    variant("nccl", default=True, when="+cuda", description="Several GPUs, by NCCL")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("autoconf@2.69:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi")
    depends_on("hdf5")
    depends_on("libconfig@1.5:")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("snappy")
    depends_on("lz4")
    depends_on("xxhash@0.8:")
    depends_on("jansson")
    depends_on("pcre2+jit")
    depends_on("utf8proc")
    depends_on("onednn", when="+onednn")
    depends_on("openblas", when="~onednn")
    depends_on("nccl", when="+nccl")
    depends_on("gnuplot", type="run")

    def autoreconf(self, spec, prefix):
        Executable("./bootstrap")()

    def configure_args(self):
        spec = self.spec
        args = [f"CC={spec['mpi'].mpicc}", "--with-gemm=" + ("dnnl" if spec.satisfies("+onednn") else "cblas")]
        if spec.satisfies("~cuda"):
            return args + ["--without-cuda"]
        # kernels of Hopper want what only 90a has
        chosen = spec.variants["cuda_arch"].value
        archs = ["90a" if arch == "90" else arch for arch in chosen if arch != "none"]
        args += [f"--with-cuda={spec['cuda'].prefix}", "CUDA_ARCH=" + (" ".join(archs) or "all")]
        args.append(f"--with-nccl={spec['nccl'].prefix}" if spec.satisfies("+nccl") else "--without-nccl")
        return args

    def test_version(self):
        """the program starts"""
        out = Executable(self.prefix.bin.cistron)("--version", output=str.split, error=str.split)
        assert "cistron" in out.lower()
