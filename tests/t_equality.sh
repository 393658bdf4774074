#!/bin/bash
# bench/gpu/equality, on CPU ranks, accepts a layout of four ranks that computes one rank's losses, notices a wrong
# layout and a missing step, and does not repeat what has passed.
. "$abs_top_srcdir/tests/lib.sh"
needs python3

# The program, with a fault in the layout "full" and an early end of the layout "optimizer".
cat >"$work/planted" <<PLANTED
#!/bin/bash
case "\$*" in
*product_full:*) exec "$CISTRON" "\$@" optimizer.weight_decay=0.2 ;;
*product_optimizer:*) exec "$CISTRON" "\$@" train.steps=11 ;;
esac
exec "$CISTRON" "\$@"
PLANTED
chmod +x "$work/planted"

# layouts NAMES [KEY=VALUE]...: exit code in $code, lines in $work/lines
layouts()
{
    local names=$1
    shift
    KIND=cpu GPUS=4 PARTS=products TYPES=fp32 LAYOUTS=$names RESULTS=$work/results "$abs_top_srcdir/bench/gpu/equality" \
        "$work/planted" "$abs_top_srcdir/bench/gpu/cases/sanitize.cfg" data.row_tokens=64 data.window=64 "$@" \
        >"$work/lines" 2>&1
    code=$?
    cat "$work/lines"
}
says()
{
    [ "$code" -eq "$1" ] && grep -qE "$2" "$work/lines"
}

layouts "tensor2_pipeline2 full optimizer"
check "four ranks agree with one" says 1 '^tensor2_pipeline2:default fp32 [0-9.e-]+ PASS$'
check "another weight decay is seen" says 1 '^full:default fp32 [0-9.e-]+ FAIL$'
check "a missing step is seen" says 1 '^optimizer:default fp32 11_and_12_steps FAIL$'
check "results are kept" [ "$(grep -c . "$work/results")" -eq 3 ]
layouts tensor2_pipeline2 model.layers=no
check "what has passed is not run again" says 0 '^tensor2_pipeline2:default fp32 [0-9.e-]+ PASS$'
layouts unknown
check "an unknown layout is refused" says 1 'no layout unknown'
finish
