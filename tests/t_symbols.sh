#!/bin/bash
# Units never allocate, copy, or name a library: src/model's objects ask the linker for no such symbol.
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
[ $status -eq 0 ] && echo "${#objects[@]} objects clean"
exit $status
