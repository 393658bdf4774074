#!/bin/bash
# Whole models on a GPU match Hugging Face's: t_golden in fp32 and bf16, t_heads in fp32, and t_recipes with quantization. Skipped
# without a GPU.
"$abs_top_builddir/tests/t_golden" cuda && "$abs_top_builddir/tests/t_heads" cuda && exec "$abs_top_builddir/tests/t_recipes" cuda
