#!/bin/bash
# What a run shows: table, log, event files and report hold each step once after restarts, and agree with each other.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
run="$work/run"
python=$(command -v python3)

# a run of four programs; the second and third go on from before the last steps of the one in front
go_on()
{
    ranks 2 train "$work/deck.cfg" checkpoint.every=4 optimizer.lr=0.003 "$@"
}
go_on train.steps=5 device.peak=1
check "a run ends with 0" codes_are 0 2
cp "$work/out" "$work/table"
rm "$run"/step_00000005.h5*
go_on train.steps=9 device.peak=1
check "it goes on" says "at step 4"
rm "$run"/step_00000009.h5*
go_on train.steps=10 device.peak=1
check "and goes on" says "at step 8"
go_on log.every=3 log.tensorboard=false
check "and to its end" codes_are 0 2

# -- the table ---------------------------------------------------------------------------------------------------------
# rows_fit FILE: each row has as many columns as the header, ends where it ends, and names the time that is left
rows_fit()
{
    awk '/^# +loss/ { names = 1 } /^# +step / { width = length($0); columns = NF - 1; headers++ }
        /^ +[0-9]+ / { rows++; if (length($0) != width || NF != columns || $NF !~ /^[0-9]+:[0-9][0-9]:[0-9][0-9]$/) bad++ }
        END { exit !(names && headers == 1 && rows > 0 && !bad) }' "$1"
}
check "the table is aligned" rows_fit "$work/table"
check "with units" grep -q 'nats .*tokens/s .*s/step .*MiB .*hh:mm:ss' "$work/table"
check "and utilisation" grep -q ' MFU ' "$work/table"
check "the last row has no time left" test "$(awk '/^ +5 / { print $NF }' "$work/table")" = 0:00:00
check "without a peak no utilisation" test "$(grep -c ' MFU ' "$work/out")" -eq 0

# -- the log -----------------------------------------------------------------------------------------------------------
steps_once()
{
    [ "$(cut -d ' ' -f 1 "$1" | tr '\n' ' ')" = "$2 " ]
}
losses "$run" >"$work/losses"
check "each step once" steps_once "$work/losses" "1 2 3 4 5 6 7 8 9 10 12"
starts=$(sed -n 's/^{"event":"start","step":\([0-9]*\),.*/\1/p' "$run/log.jsonl" | tr '\n' ' ')
check "a start line for each program" test "$starts" = "0 4 8 10 "
if [ -n "$python" ]; then
    check "each line is JSON, its times add up, its utilisation is what its speed makes of the peak" \
        "$python" - "$run/log.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert all("time" in line and "step" in line for line in lines)
assert all(a["step"] <= b["step"] and a["time"] <= b["time"] for a, b in zip(lines, lines[1:]))
start = lines[0]
assert start["peak"] == 1e12 * 2 and start["ranks"] == 2 and start["threads"] == 1, start
rows = [line for line in lines if line["event"] == "step"]
done = 0
for row in rows:
    assert len(row["step_seconds"]) == row["step"] - done, row
    assert abs(sum(row["step_seconds"]) / row["seconds"] - 1) < 1e-3, row
    done = row["step"]
    for name in ("causal", "full", "opengenome2"):
        if row["step"] > 10:
            assert "mfu_" + name not in row
        else:
            right = row["tokens_per_second"] * start["flops_per_token_" + name] / start["peak"]
            assert abs(row["mfu_" + name] / right - 1) < 1e-4, row
# of the sizes in the deck: 6 x matrix elements, and the pairs that 64 tokens see of each other
matrices = 2 * (32 * (32 + 2 * 16) + 32 * 32 + 3 * 32 * 64) + 32 * 256
assert start["flops_per_token_causal"] == 6 * matrices + 2 * 12 * 32 * 65 / 2
timers = [line for line in lines if line["event"] == "timers"][-1]["timers"]
names = {timer["name"]: timer for timer in timers}
assert names["training steps"]["calls"] == 2 and names["all"]["kind"] == "all"
assert all(t["minimum"] <= t["mean"] <= t["maximum"] for t in timers)
assert 0 < names["training steps"]["mean"] <= names["all"]["mean"]
PYTHON
fi

# -- event files -------------------------------------------------------------------------------------------------------
check "a file for each program that wrote one" test "$(ls "$run/tensorboard" | wc -l)" -eq 3
if [ -n "$python" ]; then
    "$python" "$abs_top_srcdir/tests/interop/read_tensorboard.py" "$run/tensorboard" >"$work/scalars" 2>"$work/said"
    check "the event files are read" test $? -eq 0
    cat "$work/said"
    sed -n 's/^train\/loss //p' "$work/scalars" >"$work/board"
    check "each step once in the event files" steps_once "$work/board" "1 2 3 4 5 6 7 8 9 10"
    check "with the log's losses" close_losses "$work/board" <(head -n 10 "$work/losses") 1e-6
    for tag in train/learning_rate train/grad_norm train/tokens_per_second train/step_seconds train/mfu; do
        check "$tag" test "$(grep -c "^$tag " "$work/scalars")" -eq 10
    done
    sed -n 's/^validation\/loss //p' "$work/scalars" >"$work/board"
    sed -n 's/.*"event":"validation","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$run/log.jsonl" >"$work/n"
    check "validation losses" close_losses "$work/board" <(head -n 2 "$work/n") 1e-6
fi
ranks 2 train "$work/deck.cfg" train.steps=2 log.tensorboard=false output.folder="$work/silent"
check "log.tensorboard = false writes none" test ! -e "$work/silent/tensorboard"

# -- the report --------------------------------------------------------------------------------------------------------
# value KEY EVENT: of the log's last line of that event
value()
{
    sed -n 's/^{"event":"'"$2"'",.*"'"$1"'":\([^,}]*\).*/\1/p' "$run/log.jsonl" | tail -n 1
}
printf '{"event":"signal","step":12,"text":"<b> & \\"so\\""}\n{"event":"st' >>"$run/log.jsonl"
"$CISTRON" report "$run" >"$work/out" 2>&1
check "a report" test $? -eq 0
check "of all steps" says "12 of 12"
check "its restarts" says "at step 4, 8, 10"
check "the last loss" says "$(printf '%.6f' "$(value mean_loss step)") nats"
check "the validation loss" says "$(printf '%.6f' "$(value loss validation)") nats at step 12"
best=$(sed -n 's/^{"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$run/log.jsonl" | sort -g | head -n 1)
check "the best one" says "(best: $(printf '%.6f' "$best")"
check "the speed of the last row" says "$(printf '%.0f' "$(value tokens_per_second step)") in the last row"
check "the digest" says "step 12, digest $(digest "$run" 12)"
check "parameters" says "$(sed -n 's/^#.* \([0-9]*\) parameters.*/\1/p' "$work/table")"
check "settings that were given" says "model.hidden = 32"
check "and no others" test "$(grep -c 'optimizer.beta1' "$work/out")" -eq 0
check "what happened" says 'step 12: <b> & "so"'
check "the page has each setting on its line" grep -qx 'model.hidden = 32' "$run/report.html"
check "no line is damaged" test "$(grep -c damaged "$work/out")" -eq 0
if [ -n "$python" ]; then
    check "the page is XML, alone, with five pictures, and holds the text's facts" \
        "$python" - "$run/report.html" "$work/out" <<'PYTHON'
import sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
svg = "{http://www.w3.org/2000/svg}"
pictures = [e for e in root.iter(svg + "svg") if e.get("class") == "plot"]
titles = [picture.find(svg + "text").text for picture in pictures]
assert [t.split(",")[0].split(" of")[0] for t in titles] == ["loss", "learning rate", "gradient norm", "speed", "time"], titles
assert len(pictures[0].findall(svg + "svg/" + svg + "circle")) == 3  # validations
for picture in pictures[:4]:
    path = picture.find(svg + "svg/" + svg + "path").get("d")
    assert path.count("M") == 1 and path.count("L") == 10, path
    assert len(picture.findall(svg + "svg/" + svg + "line")) == 3  # restarts
bars = pictures[4].findall(svg + "svg/" + svg + "rect")
assert bars
text = " ".join("".join(root.itertext()).split())
for line in open(sys.argv[2]):
    if line == "\n":
        break
    assert " ".join(line[18:].split()).removeprefix("step 12: ") in text, line
page = open(sys.argv[1]).read()
assert "<script" not in page and "href" not in page and "src=" not in page and "@import" not in page
PYTHON
fi
sed -i '3s/^{/{{/' "$run/log.jsonl"
"$CISTRON" report "$run" -o "$work/page.html" >"$work/out" 2>&1
check "a damaged line is left out" test $? -eq 0
check "and named" says "the first is line 3"
check "into a named file" test -s "$work/page.html"
check "nothing else is left" test "$(ls "$work"/page.html* | wc -l)" -eq 1
"$CISTRON" report "$work" >"$work/out" 2>&1
check "no run: exit code 2" test $? -eq 2
check "no run: is said" says "holds no log.jsonl"
"$CISTRON" report "$run" -o "$work/none/page.html" >"$work/out" 2>&1
check "nowhere to write: exit code 2" test $? -eq 2
finish
