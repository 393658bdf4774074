#!/bin/bash
# Tokens, rows, rates and perplexity in the log are right, also over a restart on other ranks. The Prometheus file
# follows its format and agrees with the log. A slow rank is named with its host and phase, and no rank where all are
# slow.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
small_deck || exit 1
padded=(train "$work/deck.cfg" data.format=padded train.global_batch=5 validation.every=4 checkpoint.every=4)

# -- counts ------------------------------------------------------------------------------------------------------------
# counts FOLDER: of each row step, tokens with and without padding, rows
counts()
{
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"consumed_tokens":\([0-9]*\),"consumed_unpadded_tokens":\([0-9]*\),"consumed_samples":\([0-9]*\),.*/\1 \2 \3 \4/p' \
        "$1/log.jsonl"
}
ranks 2 "${padded[@]}" train.steps=9 output.folder="$work/whole" log.prometheus=cistron.prom
check "a run" codes_are 0 2
ranks 2 "${padded[@]}" train.steps=6 output.folder="$work/parts"
rm "$work/parts/step_00000006.h5"* "$work/parts/final_model.h5"*
ranks 3 "${padded[@]}" train.steps=9 output.folder="$work/parts"
check "it goes on from before its last steps, on other ranks" says "at step 4"
check "it counts as if it had never stopped" cmp <(counts "$work/whole") <(counts "$work/parts")
check "each row" test "$(counts "$work/whole" | wc -l)" -eq 9
check "9 steps of 5 rows of 64 tokens, some of them padding" awk -v row="$(counts "$work/whole" | tail -n 1)" 'BEGIN {
    split(row, n, " "); exit !(n[1] == 9 && n[2] == 2880 && n[3] > 900 && n[3] < 2880 && n[4] == 45) }'
check "rates and perplexity" python3 - "$work/whole/log.jsonl" <<'PYTHON'
import json, math, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
before = 0
for row in (line for line in lines if line["event"] == "step"):
    assert abs(row["perplexity"] / math.exp(row["mean_loss"]) - 1) < 1e-5, row
    tokens = row["consumed_unpadded_tokens"] - before
    before = row["consumed_unpadded_tokens"]
    assert abs(row["tokens_per_second"] * row["seconds"] / tokens - 1) < 1e-4, row
    # 2 ranks compute 2 micro-batches of 2 rows each, of which 5 rows are in the global batch
    assert abs(row["padded_tokens_per_second"] * row["seconds"] / (8 * 64) - 1) < 1e-4, row
    assert "gpu_power" not in row and "device_memory" not in row
for row in (line for line in lines if line["event"] == "validation"):
    assert abs(row["perplexity"] / math.exp(row["loss"]) - 1) < 1e-5, row
assert [line for line in lines if line["event"] == "start"][0]["planned_memory"] > 0
PYTHON

# -- the file for Prometheus -------------------------------------------------------------------------------------------
check "the file for Prometheus is as the text format asks, and says what the log does" \
    python3 "$abs_top_srcdir/tests/interop/read_prometheus.py" "$work/whole/cistron.prom" "$work/whole/log.jsonl" 0
check "nothing else is left" test "$(find "$work/whole" -name '*.prom*' | wc -l)" -eq 1
check "no key, no file" test ! -e "$work/parts/cistron.prom"
"$CISTRON" "${padded[@]}" output.folder="$work/own" log.prometheus=log.jsonl >"$work/out" 2>&1
check "a file of the run's own" test $? -eq 2
check "is not written over" says 'key log.prometheus = "log.jsonl": must end in .prom'
mkdir "$work/collector"
touch "$work/whole/stop"
ranks 2 "${padded[@]}" output.folder="$(realpath --relative-to=. "$work/whole")" log.prometheus="$work/collector/a.prom"
check "stopped" codes_are 85 2
check "in a collector's folder, of a run that is to go on" \
    python3 "$abs_top_srcdir/tests/interop/read_prometheus.py" "$work/collector/a.prom" "$work/whole/log.jsonl" 85
ranks 2 "${padded[@]}" output.folder="$work/whole" train.steps=10 log.prometheus="$work/none/a.prom"
check "a file that cannot be written stops no run" codes_are 0 2
check "and is told once" test "$(grep -c "warning: $work/none/a.prom: cannot write it: " "$work/out")" -eq 1

# -- a rank that holds up the others -----------------------------------------------------------------------------------
# slow [NAME=VALUE...]: 2 ranks of which, by tests/shim.c, each region of work begins late
slow()
{
    rm -rf "$work/slow"
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_SLOW=0.001 "$@"
        ranks 2 train "$work/deck.cfg" output.folder="$work/slow" train.steps=54 train.global_batch=8 log.every=3 \
            data.valid= parallel.shard=optimizer)
    check "a slow run comes to its end" codes_are 0 2
}
# in_collectives FROM TO: of all steps behind the first, the share of the time, mean over ranks
in_collectives()
{
    python3 - "$work/slow/log.jsonl" "$@" <<'PYTHON'
import json, sys
rows = [line for line in map(json.loads, open(sys.argv[1])) if line["event"] == "step"][1:]
share = sum(row["collectives"] for row in rows) / sum(row["seconds"] for row in rows)
assert float(sys.argv[2]) < share < float(sys.argv[3]), share
PYTHON
}
slow SHIM_RANK=1
# the mean of one that waits and one that does not, on a loaded machine a little; the sum or the longest would be 1
check "the other waits for it, half of both ranks' time" in_collectives 0.4 0.75
check "a slow rank is named, with its host and what it does" says "rank 1 on $(hostname) is slow: in "
check "with what it does" grep -q 's more on forward and backward than the median of the ranks' "$work/out"
check "once" test "$(grep -c '"event":"straggler".*"rank":1,"host":"'"$(hostname)"'","phase":"forward and backward"' "$work/slow/log.jsonl")" -eq 1
check "and no other rank" test "$(grep -c '"event":"straggler".*"rank":0' "$work/slow/log.jsonl")" -eq 0
nobody_is_slow()
{
    ! grep straggler "$work/slow/log.jsonl" >&2
}
for _ in 1 2; do # the machine may hold up one rank itself
    slow
    nobody_is_slow && break
done
check "where all are slow, nobody waits long" in_collectives 0 0.3
check "where all are slow, nothing is said" nobody_is_slow
check "though there was time for it" python3 - "$work/slow/log.jsonl" <<'PYTHON'
import json, sys
times = [json.loads(line)["time"] for line in open(sys.argv[1])]
assert times[-1] - times[0] > 5.5, times
PYTHON
finish
