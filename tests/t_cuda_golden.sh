#!/bin/bash
# Whole models on the GPU against Hugging Face's: t_golden's cases in fp32 and bf16; and quantized ones against fp32.
"$abs_top_builddir/tests/t_golden" cuda && exec "$abs_top_builddir/tests/t_recipes" cuda
