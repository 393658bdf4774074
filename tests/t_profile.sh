#!/bin/bash
# The profile of a run covers the requested steps and ranks, counts every launch, changes no result, and its times add
# up; collectives are listed in order on each rank. Impossible requests are refused.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
small_deck || exit 1
run=(train "$work/deck.cfg" data.valid= validation.every=0 log.tensorboard=false)

ranks 2 "${run[@]}" profile.start=4 profile.stop=6
check "a profiled run ends with 0" codes_are 0 2
check "the log names the steps" says "# profile of 3 steps to step 6; milliseconds and calls a step"
check "one profile" test "$(grep -c '"event":"profile"' "$work/run/log.jsonl")" -eq 1
python3 - "$work/run/log.jsonl" <<'END' || failures=$((failures + 1))
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
rows = [line for line in lines if line["event"] == "profile"][0]["profile"]
calls = {}
for row in rows:
    calls[row["op"]] = calls.get(row["op"], 0) + row["calls"]
# 7 rows are 2 micro-batches of 2 rows on each of 2 ranks, of 2 layers and a head in one chunk
expected = {"attention_forward": 4, "attention_backward": 4, "gemm": 2 * (2 * 4 * 3 + 3), "xent_both": 2, "gradient_scale": 1}
for op, number in expected.items():
    assert calls.get(op) == number, (op, calls.get(op), number)
seconds = sum(line["seconds"] * 1 for line in lines if line["event"] == "step" and 4 <= line["step"] <= 6)
spent = 3e-3 * sum(row["milliseconds"] for row in rows)
assert 0 < spent < 1.5 * seconds, (spent, seconds)
times = [row["milliseconds"] for row in rows]
assert times == sorted(times, reverse=True)
gemms = [row for row in rows if row["op"] == "gemm"]
assert all(row["flops"] > 0 and row["bytes"] > 0 for row in gemms)
END
checks=$((checks + 1))
digest "$work/run" 12 >"$work/profiled"

# each rank's collectives: the same ones in the same order, and what they add up to is in the rows of the profile
ranks 2 "${run[@]}" output.folder="$work/traced" profile.start=4 profile.stop=6 profile.ranks=all \
    profile.collectives=true parallel.shard=full
check "a run whose collectives are written ends with 0" codes_are 0 2
check "the log says where" says "# collectives of steps 4 to 6: $work/traced/collectives_0000.csv"
check "no such key, no file" test ! -e "$work/run/collectives_0000.csv"
python3 - "$work/traced" <<'END' || failures=$((failures + 1))
import csv, json, os, sys
folder = sys.argv[1]
ranks = [list(csv.DictReader(open(f"{folder}/collectives_{rank:04d}.csv"))) for rank in range(2)]
what = ("step", "group", "ranks", "number", "op", "bytes")
assert [[row[key] for key in what] for row in ranks[0]] == [[row[key] for key in what] for row in ranks[1]]
lines = [json.loads(line) for line in open(folder + "/log.jsonl")]
profile = [line for line in lines if line["event"] == "profile"][0]["profile"]
assert {row["step"] for row in ranks[0]} == {"4", "5", "6"}
for rank, rows in enumerate(ranks):
    assert {row["rank"] for row in rows} == {str(rank)} and {row["host"] for row in rows} == {os.uname().nodename}
    assert {row["ranks"] for row in rows} == {"2"}
    for group in {row["group"] for row in rows}:
        own = [row for row in rows if row["group"] == group]
        assert [int(row["number"]) for row in own] == list(range(len(own)))
    times = [(int(row["step"]), float(row["start_us"]), float(row["end_us"])) for row in rows]
    assert times == sorted(times) and all(0 <= start <= end for step, start, end in times)  # the CPU runs one by one
seconds = {line["step"]: line["seconds"] for line in lines if line["event"] == "step"}
assert all(float(row["end_us"]) < 2e6 * seconds[int(row["step"])] for row in ranks[0])
for op in ("all_gather", "reduce_scatter"):
    own = [row for row in ranks[0] if row["op"] == op]
    told = [row for row in profile if row["op"] == op]
    assert len(own) == round(3 * sum(row["calls"] for row in told)) > 0
    spent = 1e-3 * sum(float(row["end_us"]) - float(row["start_us"]) for row in own)
    assert abs(spent - 3 * sum(row["milliseconds"] for row in told)) < 1e-3 * len(own), op
END
checks=$((checks + 1))

ranks 2 "${run[@]}" output.folder="$work/plain"
check "a profile changes no result" cmp -s "$work/profiled" <(digest "$work/plain" 12)
check "no profile, no lines" test "$(grep -c profile "$work/plain/log.jsonl")" -eq 0
ranks 2 "${run[@]}" output.folder="$work/other" profile.start=4 profile.stop=6 profile.ranks=1
check "of another rank the log shows nothing" test "$(grep -c '"event":"profile"' "$work/other/log.jsonl")" -eq 0
ranks 2 "${run[@]}" output.folder="$work/other" profile.start=13 profile.stop=99 train.steps=14 profile.collectives=true
check "a run that ends before its profile shows what there is" says "# profile of 2 steps to step 14;"
check "and its collectives" says "# collectives of steps 13 to 14: "
ranks 2 "${run[@]}" output.folder="$work/other" profile.start=15 profile.stop=16 train.steps=14
check "a profile behind the run's end is told" says "warning: key profile.start = 15: there is no profile"
"$CISTRON" "${run[@]}" output.folder="$work/other" profile.start=15 profile.stop=99999999 train.steps=100000000 \
    >"$work/out" 2>&1 &
for _ in $(seq 1200); do
    grep -q '"step":16,' "$work/other/log.jsonl" && break
    sleep 0.05
done
kill -USR1 $!
wait $!
check "a run that is stopped within its profile" test $? -eq 85
check "shows it too" grep -qE '^# profile of [0-9]+ steps to step [0-9]+;' "$work/out"
ranks 2 "${run[@]}" output.folder="$work/back" profile.start=2 profile.stop=99 optimizer.lr=1e30 checkpoint.every=1 \
    train.on_divergence=rewind
check "a run that diverges within its profile" codes_are 3 2
check "shows it, with the step that was made six times" says "# profile of 7 steps to step 3;"
check "and calls of a step" grep -qE '^# gradient_scale +[0-9]+ +[0-9]+ +1\.0 ' "$work/out"

# refuse TEXT KEY=VALUE...
refuse()
{
    local text=$1
    shift
    ranks 2 "${run[@]}" output.folder="$work/refused" "$@"
    check "$*: exit code 2" codes_are 2 2
    check "$*" says "$text"
}
refuse 'key profile.stop: 2 is before profile.start = 3' profile.start=3 profile.stop=2
refuse 'key profile.collectives = true: needs a profile' profile.collectives=true
refuse 'key profile.ranks: "0;1" is not a list of ranks' profile.ranks='0;1'
refuse 'key profile.ranks: "" is not a list of ranks' profile.ranks=
refuse 'key profile.ranks: "0,2,1" names rank 2; the ranks of this run are 0 to 1' profile.start=3 profile.stop=3 \
    profile.ranks=0,2,1
finish
