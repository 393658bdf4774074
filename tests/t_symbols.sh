#!/bin/bash
# The objects of src/model need no malloc, memcpy, BLAS, MPI or HDF5 symbol, since units never allocate, copy or call a
# library. Kernels for several instruction sets (base/clones.h) are compiled for them.
set -u
build=${abs_top_builddir:-$PWD}
if ! command -v nm >/dev/null; then
    echo "nm not found (package binutils)"
    exit 77
fi
objects=("$build"/src/model/*.o)
if [ ! -e "${objects[0]}" ]; then
    echo "no objects under $build/src/model"
    exit 1
fi
forbidden='^(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|free|memcpy|memmove|P?MPI_.*|H5.*|dnnl_.*|cblas_.*|[sd]gemm_?)$'
status=0
for object in "${objects[@]}"; do
    # a version suffix (memcpy@GLIBC_2.14) is no part of the name
    names=$(nm --undefined-only --format=posix "$object" | awk '{ sub(/@.*/, "", $1); print $1 }' | grep -E "$forbidden")
    if [ -n "$names" ]; then
        echo "src/model/$(basename "$object"): "$names
        status=1
    fi
done
compiler=$(sed -n 's/^CC = //p' "$build/Makefile")
wanted=$(grep '^#if.*__GLIBC__' "$abs_top_srcdir/src/base/clones.h") || status=1
if printf '#include <stdlib.h>\n%s\nyes\n#endif\n' "$wanted" | $compiler -E -P - | grep -q '^yes' &&
    ! grep -q CISTRON_NO_CLONES "$build/Makefile"; then
    for source in $(cd "$abs_top_srcdir" && grep -l '^CPU_CLONES' src/*/*.c); do
        if ! nm "$build/${source%.c}.o" | grep -q '\.resolver$'; then
            echo "$source: compiled for one instruction set"
            status=1
        fi
    done
fi
[ $status -eq 0 ] && echo "${#objects[@]} objects clean"
exit $status
