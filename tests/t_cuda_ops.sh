#!/bin/bash
# Every op of the CUDA executor matches the oracle, by the programs that test the CPU's ops; attention also by the
# kernels without warpgroups and by the backward that computes scores once; weight gradients also by the program's
# own kernels. Skipped without a GPU.
set -u
for program in t_ops t_ops_elements t_ops_loss t_ops_optimizer t_ops_matrix t_ops_quantize t_ops_quantized_gemm \
    t_ops_quantized_activation t_ops_layer t_ops_experts t_attention t_attention_parts t_far; do
    echo "== $program"
    "$abs_top_builddir/tests/$program" cuda
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -ne 0 ] && failed=yes
done
echo "== t_ops_matrix, gradients by own products"
"$abs_top_builddir/tests/t_ops_matrix" gradients || failed=yes
for program in t_attention t_attention_parts; do
    echo "== $program without warpgroups"
    "$abs_top_builddir/tests/$program" mma || failed=yes
    echo "== $program, scores computed once"
    "$abs_top_builddir/tests/$program" once || failed=yes
done
[ -z "${failed:-}" ]
