#!/bin/bash
# No CUDA kernel takes more registers, stack, spilled or shared memory, as ptxas counts, than tests/kernels.txt says for
# one version of nvcc. Each op has a row in the GPU benchmarks, and files with kernels for sm_90a compile for sm_80.
# Skipped without CUDA.
#
# With "record" as its argument, the script writes tests/kernels.txt.
set -u
build=${abs_top_builddir:-$PWD} top=${abs_top_srcdir:-$(dirname "$0")/..}
table=$top/tests/kernels.txt arch=sm_90a status=0

for op in $(sed -n '/define OP_DEVICE_TABLE/,/^$/s/.* X(\([A-Z_]*\),.*/\1/p' "$top/src/core/op.h"); do
    # what a helper of theirs launches is no row
    if ! grep -v 'LAUNCH(' "$top/bench/gpu/op_speed.c" "$top/bench/gpu/attention_speed.c" | grep -qE "(OP_|[ ,])$op\b"; then
        echo "no row for the op $op in bench/gpu/op_speed.c"
        status=1
    fi
done

# The table's lines, of what nvcc said when it compiled each file.
facts()
{
    local source name
    for source in "$top"/cuda/*.cu; do
        name=$(basename "$source" .cu)
        awk -v file="$name" -v arch="'$arch'" '
            /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2]; wanted = $NF == arch }
            /Function properties for/ { function_name = $NF }
            /bytes stack frame/ { stack[function_name] = $1; spilled[function_name] = $5 + $9 }
            / Used [0-9]+ registers/ && wanted {
                shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
                print $5, stack[kernel], spilled[kernel], shared, file, kernel
            }' "$build/cuda/$name.ptxas"
    done | c++filt | sed -E 's/ void / /' | LC_ALL=C sort -k 5
}

nvcc=$(sed -n 's/^NVCC = //p' "$build/Makefile")
compiler=$("$nvcc" --version 2>/dev/null | grep -o 'V[0-9.]*$')
for source in $(grep -l __CUDA_ARCH_FEAT_SM90_ALL "$top"/cuda/*.cu); do
    [ -n "$compiler" ] || break
    if ! "$nvcc" -std=c++17 -arch=sm_80 -I"$top" -I"$top/src" -cubin -o /dev/null "$source"; then
        echo "$source does not compile for sm_80"
        status=1
    fi
done
flags=$(sed -n 's/^NVCCFLAGS = //p' "$build/Makefile")
identity="# nvcc $compiler $flags, for $arch: registers, bytes of stack, spilled, of static shared memory; file, kernel"
if [ -z "$compiler" ] || ! grep -qs "for '$arch'" "$build"/cuda/*.ptxas; then
    echo "skipped: this build has no kernels for $arch"
    [ $status -eq 0 ] && exit 77
    exit $status
fi
if [ "${1:-}" = record ]; then
    { echo "$identity" && facts; } >"$table"
    exit
fi
if [ "$(head -n 1 "$table")" != "$identity" ]; then
    echo "skipped: kernels are recorded for another compiler: $(head -n 1 "$table")"
    [ $status -eq 0 ] && exit 77
    exit $status
fi

facts | awk -v table="$table" '
    function kernel_of(line) { sub(/^[0-9]+ [0-9]+ [0-9]+ [0-9]+ /, "", line); return line }
    BEGIN {
        split("registers;bytes of stack;bytes spilled;bytes of shared memory", names, ";")
        while ((getline line <table) > 0)
            if (line !~ /^#/)
                recorded[kernel_of(line)] = line
    }
    {
        kernel = kernel_of($0)
        seen[kernel] = 1
        if (!(kernel in recorded)) {
            print "not recorded: " kernel
            bad++
            next
        }
        split(recorded[kernel], most, " ")
        for (i = 1; i <= 4; i++)
            if ($i > most[i] + 0) {
                print kernel ": " $i " " names[i] ", recorded are " most[i]
                bad++
            }
            else if ($i < most[i] + 0)
                fewer[kernel] = 1
    }
    END {
        for (kernel in recorded)
            if (!(kernel in seen)) {
                print "recorded, but not there: " kernel
                bad++
            }
        for (kernel in fewer)
            print "takes less than is recorded: " kernel
        print NR " kernels, " bad + 0 " take more or are not recorded"
        if (bad)
            print "where that is wanted: tests/t_kernels.sh record, in the folder of the build"
        exit bad > 0
    }' || status=1
exit $status
