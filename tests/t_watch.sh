#!/bin/bash
# Table, log, event files and report of a run hold each step once after restarts, and agree with each other. Verdicts,
# changed keys, unwritable logs and comparisons of several runs are checked.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
run="$work/run"
python=$(command -v python3)

# a run of four programs; the second and third go on from before the last steps of the one in front
go_on()
{
    ranks 2 train "$work/deck.cfg" checkpoint.every=4 optimizer.lr=0.003 schedule.decay=0 "$@"
}
go_on train.steps=5 device.peak=1
check "a run ends with 0" codes_are 0 2
cp "$work/out" "$work/table"
check "what was written beside steps has a timer" grep -q '"name":"background writing"' "$run/log.jsonl"
rm "$run"/step_00000005.h5*
go_on train.steps=9 device.peak=1
check "it goes on" says "at step 4"
rm "$run"/step_00000009.h5*
go_on train.steps=10 device.peak=1
check "and goes on" says "at step 8"
go_on log.every=3 log.tensorboard=false optimizer.lr=0.002 checkpoint.on_failure=continue
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

check "a short program prints no timers" test "$(grep -c 'seconds over ranks' "$work/table")" -eq 0
if [ -n "$python" ]; then
    check "in a terminal of 80 columns it fits" "$python" - "$CISTRON" "$MPIRUN" "$work" <<'PYTHON'
import fcntl, os, pty, re, shlex, struct, subprocess, sys, termios
cistron, mpirun, work = sys.argv[1:]
os.environ.pop("COLUMNS", None)
def run(columns, launcher, more):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = launcher + [cistron, "train", work + "/deck.cfg", "output.folder=" + work + "/terminal", "train.steps=3"]
    with subprocess.Popen(command + more, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(ours)
    subprocess.run(["rm", "-r", work + "/terminal"], check=True)
    lines = shown.decode().replace("\r", "").split("\n")
    return [line for line in lines if re.match(r"# +(loss|step) |  +[0-9]+  ", line)]
launchers = [[]] + ([shlex.split(mpirun) + ["-n", "1"]] if os.environ.get("OMPI_ALLOW_RUN_AS_ROOT") else [])
for launcher in launchers:
    for more in ([], ["device.peak=1"]):
        narrow, wide = run(80, launcher, more), run(120, launcher, more)
        assert len(narrow) == len(wide) == 5, (narrow, wide)
        assert max(map(len, narrow)) <= 80 and len(set(map(len, narrow))) == 1, narrow
        assert len(narrow[1].split()) == len(narrow[2].split()) + 1 and "GiB" in narrow[1], narrow
        assert min(map(len, wide)) > 80 and "MiB" in wide[1], wide
PYTHON
fi

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
of_programs = ("start", "end", "stretched")
bad = [(a, b) for a, b in zip(lines, lines[1:]) if a["time"] > b["time"]]
assert not bad, bad
of_steps = [line for line in lines if line["event"] not in of_programs]
assert all(a["step"] <= b["step"] for a, b in zip(of_steps, of_steps[1:]))
programs = [line for line in lines if line["event"] in of_programs]
assert [(p["event"], p["step"]) for p in programs if p["event"] != "stretched"] == [
    ("start", 0), ("end", 5), ("start", 4), ("end", 9), ("start", 8), ("end", 10), ("start", 10), ("end", 12)], programs
assert all(p["how"] == "finished" and p["code"] == 0 for p in programs if p["event"] == "end")
changes = [p["changed"] for p in programs if p["event"] == "start"]
assert changes[0] == [] and changes[1] == [{"key": "train.steps", "old": 5, "new": 9}], changes
assert {"key": "log.tensorboard", "old": True, "new": False} in changes[3], changes
assert {"key": "optimizer.lr", "old": 0.003, "new": 0.002} in changes[3], changes
assert {"key": "checkpoint.on_failure", "old": "stop", "new": "continue"} in changes[3], changes
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
assert "background writing" not in names, names  # at a run's end steps wait
assert names["training steps"]["calls"] == 2 and names["all"]["kind"] == "all"
assert all(t["minimum"] <= t["mean"] <= t["maximum"] for t in timers)
assert 0 < names["training steps"]["mean"] <= names["all"]["mean"]
parts = sum(t["mean"] for t in timers if t["kind"] == "part")
assert abs(parts / names["all"]["mean"] - 1) < 1e-3, timers
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
    check "texts" grep -qx "run/start 8 'continues from step 8, with train.steps = 10 (was 9)'" "$work/scalars"
    check "ends" grep -qx "run/end 10 'finished: 10 steps'" "$work/scalars"
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
check "its restarts" says "at step 4; 8; 10"
check "the verdict comes first" test "$(head -n 1 "$work/out")" = "verdict            finished: step 12 of 12"
check "what changed" says 'optimizer.lr = 0.002 (was 0.003)'
check "a schedule that was stretched" says "which changed from 10 to 12: the schedule is stretched"
check "the perplexity" says "(mean of the last row), perplexity $(LC_ALL=C awk -v loss="$(value mean_loss step)" 'BEGIN { printf "%.4g", exp(loss) }')"
percents()
{
    awk -v from="$1" -v to="$2" 'index($0, from) == 1 { on = 1; next } index($0, to) == 1 { on = 0 } on { sum += $NF }
        END { exit !(sum > 99 && sum < 101) }' "$work/out"
}
check "the percents of the parts add up" percents "seconds over ranks" "all "
check "those of the ops too" percents "ops, percent of ops" "settings"
check "the last loss" says "$(printf '%.6f' "$(value mean_loss step)") nats"
check "the validation loss" says "$(printf '%.6f' "$(value loss validation)") nats at step 12"
best=$(sed -n 's/^{"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$run/log.jsonl" | sort -g | head -n 1)
check "the best one" says "(best: $(printf '%.6f' "$best")"
# rounded as llround does, with halves away from zero
commas()
{
    awk -v x="$1" 'BEGIN { printf "%d", x + 0.5 }' | sed ':again; s/\([0-9]\)\([0-9]\{3\}\)\(,\|$\)/\1,\2\3/; t again'
}
check "the speed of the last row" says "$(commas "$(value tokens_per_second step)") in the last row"
check "what it has learnt from" says "trained on         $(commas "$(value consumed_tokens step)") tokens, $(commas "$(value consumed_unpadded_tokens step)") without padding, in 84 rows"
check "without GPUs no energy" test "$(grep -c '^energy ' "$work/out")" -eq 0
check "the digest" says "step 12, digest $(digest "$run" 12)"
check "parameters" says "$(commas "$(sed -n 's/^#.* \([0-9]*\) parameters.*/\1/p' "$work/table")")"
check "settings that were given" says "model.hidden = 32"
check "and no others" test "$(grep -c 'optimizer.beta1' "$work/out")" -eq 0
check "model" grep -qE '^model +model\..*model\.hidden = 32$' "$work/out"
check "data" grep -qE '^data +data\.train = ".*", data\.valid = ".*"$' "$work/out"
check "a finished run has no time left" test "$(grep -c '^time left' "$work/out")" -eq 0
check "a phone shows the page at its own width" grep -q '<meta name="viewport" content="width=device-width' "$run/report.html"
check "what happened" says 'step 12: <b> & "so"'
check "the page has each setting on its line" grep -qx 'model.hidden = 32' "$run/report.html"
check "no line is damaged" test "$(grep -c damaged "$work/out")" -eq 0
if [ -n "$python" ]; then
    check "the page is XML, alone, with five pictures, and holds the text's facts" \
        "$python" - "$run/report.html" "$work/out" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
svg = "{http://www.w3.org/2000/svg}"
pictures = [e for e in root.iter(svg + "svg") if e.get("class") == "plot"]
titles = [picture.find(svg + "text").text for picture in pictures]
assert [t.split(",")[0].split(" of")[0] for t in titles] == ["loss", "speed", "learning rate", "gradient norm", "time"], titles
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
    assert " ".join(re.sub("^.*?, step [0-9,]+: ", "", line[18:]).split()) in text, line
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
check "no run: is said" says "has no log.jsonl"

# energy of 2 GPUs since the last start at step 10: 1500 J, and the tokens behind it
sed -i '/"event":"step","step":1[12],/s/,"step_seconds"/,"gpu_power":[300,350.5],"gpu_energy":[1000,500]&/' "$run/log.jsonl"
"$CISTRON" report "$run" >"$work/out" 2>&1
check "energy, and that of a token" says "energy             0.0004167 kWh of the GPUs since the last start, $(awk "BEGIN { printf \"%.4g\", 1500 / (2 * 7 * 64) }") J a token; they draw 650.5 W"
"$CISTRON" report "$run" -o "$work/none/page.html" >"$work/out" 2>&1
check "nowhere to write: exit code 2" test $? -eq 2

# -- a return to a checkpoint, whose save is under way -----------------------------------------------------------------
(export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work/back" SHIM_MATCH=.h5 SHIM_DELAY=pwrite:0.02
    ranks 2 train "$work/deck.cfg" output.folder="$work/back" optimizer.lr=1e30 checkpoint.every=1 train.on_divergence=rewind \
        data.valid= validation.every=0)
check "a run that returns" grep -q '"event":"rewind"' "$work/back/log.jsonl"
check "its last steps begin with one that was" grep -q '"last_steps":\[{"step":[1-9]' "$work/back/log.jsonl"
rest=$(sed -n 's/.*"name":"the rest","kind":"part","calls":1,"minimum":\([^,]*\),.*/\1/p' "$work/back/log.jsonl")
check "has waited for the save once: the rest of the time is $rest s" awk -v rest="$rest" 'BEGIN { exit !(rest > 0) }'

# -- what a removal of old checkpoints takes ---------------------------------------------------------------------------
(export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work/pruned" SHIM_MATCH=step_ SHIM_DELAY=unlink:0.6
    ranks 2 train "$work/deck.cfg" output.folder="$work/pruned" train.steps=8 checkpoint.every=2 checkpoint.keep=1 data.valid= \
        validation.every=0)
check "a run that removes old checkpoints" test "$(ls "$work"/pruned/step_*.h5)" = "$work/pruned/step_00000008.h5"
long=$(sed -n 's/.*"step_seconds":\[\([0-9]*\).*/\1/p' "$work/pruned/log.jsonl" | awk '$1 > 0 { n++ } END { print NR == 8 ? n + 0 : 9 }')
check "which takes time, but not of its steps: of one at most, which the machine held up" test "$long" -le 1

# -- several runs ------------------------------------------------------------------------------------------------------
ranks 1 train "$work/deck.cfg" output.folder="$work/other" train.steps=20 optimizer.lr=0.02 validation.every=0 data.valid= \
    train.seed=5 device.peak=2
target=$(sed -n 's/^{"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$run/log.jsonl" | head -n 1)
check "a warm-up alone compares nothing" cmp <("$CISTRON" report "$run" -o "$work/one.html" --force 2>&1) \
    <("$CISTRON" report "$run" -o "$work/one.html" --force --warm-up 3 2>&1)
(cd "$work" && "$CISTRON" report run other/log.jsonl --target "$target" --tokens 3e9 --warm-up 1 >out 2>said)
check "several runs" test $? -eq 0
check "days to as many tokens as are always told: once" \
    test "$(cd "$work" && "$CISTRON" report run other/log.jsonl --tokens 1e12 -o twice.html 2>/dev/null | grep -c 'days to 1e+12')" -eq 1
check "a damaged line is left out there too" grep -q 'the first is line 3' "$work/said"
if [ -n "$python" ]; then
    check "are what their logs say" "$python" - "$work" "$target" <<'PYTHON'
import json, math, re, sys
import xml.etree.ElementTree as tree
work, target = sys.argv[1], float(sys.argv[2])
def lines_of(run):
    for line in open("%s/%s/log.jsonl" % (work, run)):
        try:
            yield json.loads(line)
        except ValueError:
            pass
def clock(seconds):
    whole = math.floor(seconds + 0.5)
    return "%d:%02d:%02d" % (whole // 3600, whole // 60 % 60, whole % 60)
def commas(value):
    return "{:,}".format(math.floor(value + 0.5))
text = open(work + "/out").read()
cells = {}
for line in text.split("\n\n")[1].split("\n")[1:]:
    name, *values = re.split("  +", line.strip())
    cells[name] = values
root = tree.parse(work + "/comparison.html").getroot()
html = "{http://www.w3.org/1999/xhtml}"
page = {row.find(html + "th").text: [cell.text for cell in row.findall(html + "td")] for row in root.iter(html + "tr")}
assert "values up to" in "".join(root.itertext()) # the plots begin at the losses of the second half
assert page["A"] == ["run"] and page["B"] == ["other"], page
for name, values in cells.items():
    if not name.startswith("*"):
        assert page[name] == values, (name, page[name], values)
for r, run in enumerate(("run", "other")):
    log = list(lines_of(run))
    start = [line for line in log if line["event"] == "start"][-1]
    rows = [line for line in log if line["event"] == "step"]
    last = [row for row in rows if row["step"] - len(row["step_seconds"]) >= start["step"] + 1]
    times = sorted(second for row in last for second in row["step_seconds"])
    median = times[int(0.5 * (len(times) - 1) + 0.5)] if times else math.nan
    tokens = sum(row["tokens_per_second"] * row["seconds"] for row in last) / len(times) if times else math.nan
    got = {name: values[r] for name, values in cells.items() if len(values) == 2}
    assert got["steps"] == str(rows[-1]["step"]) and got["training loss"] == "%.6f" % rows[-1]["mean_loss"], got
    assert got["tokens, no padding"] == commas(rows[-1]["consumed_unpadded_tokens"]), got
    if times:
        assert abs(float(got["speed, tokens/s"].replace(",", "")) / (tokens / median) - 1) < 1e-3, got
        assert abs(float(got["a rank, tokens/s"].replace(",", "")) / (tokens / median / start["ranks"]) - 1) < 1e-3, got
        padded = sum(row["padded_tokens_per_second"] * row["seconds"] for row in last) / len(times)
        assert abs(float(got["with padding, tokens/s"].replace(",", "")) / (padded / median) - 1) < 1e-3, got
        assert padded >= tokens and got["step, shortest, s"] == "%.4f" % times[0] and got["step, longest, s"] == "%.4f" % times[-1]
        assert abs(float(got["days to 1e+12 tokens"]) / (1e12 / (tokens / median) / 86400) - 1) < 1e-3, got
        assert abs(float(got["days to 3e+09 tokens"]) - 3e9 / (tokens / median) / 86400) < 6e-3, got
    if times and "peak" in start:
        mfu = start["flops_per_token_causal"] * tokens / median / start["peak"]
        assert abs(float(got["MFU causal, %"]) - 100 * mfu) < 6e-3 + 1e-3 * mfu, (got, mfu)
    else:
        assert got["MFU causal, %"] == "-", got
    # the time of its programs, without what lies between them
    def trained(until):
        begun, sum_, before = None, 0, None
        for line in log:
            if line["event"] == "start":
                sum_ += before - begun if begun is not None else 0
                begun = line["time"]
            if line["event"] != "lost": # it stands for lines that are no longer there
                before = line.get("time", before)
            if line is until:
                return sum_ + (before - begun) # in the order in which the program adds, since half seconds are rounded
    assert got["trained"] == clock(trained([line for line in log if "time" in line][-1])), got
    validations = [line for line in log if line["event"] == "validation"]
    name = "time to loss %g" % target
    if run == "run":
        best = min(validations, key=lambda line: line["loss"])
        assert got["best validation"] == "%.6f" % best["loss"] and got["at step"] == str(best["step"])
        first = next(line for line in validations if line["loss"] <= target)
        assert got[name] == "%s (step %d)" % (clock(trained(first)), first["step"]), (got, first)
    else:
        losses, window = [row["mean_loss"] for row in rows], 1 + len(rows) // 25
        assert not validations and window == 1 and got["best validation"] == "-"
        found = next((row for row in rows if row["mean_loss"] <= target), None)
        wanted = "not yet *" if found is None else "%s (step %d) *" % (clock(trained(found)), found["step"])
        assert got[name] == wanted, (got, wanted)
keys = text.split("keys that differ:\n")[1].split("\n\n")[0]
differ = dict((line.split()[0], line.split()[1:]) for line in keys.split("\n")[1:])
assert differ["optimizer.lr"] == ["0.002", "0.02"] and differ["train.seed"] == ["42", "5"], differ
assert "output.folder" not in differ and "model.hidden" not in differ, differ
svg = "{http://www.w3.org/2000/svg}"
pictures = [e for e in root.iter(svg + "svg") if e.get("class") == "plot"]
assert len(pictures) == 2, len(pictures)
for picture in pictures:
    frame = picture.find(svg + "svg")
    first, second = (path.get("d") for path in frame.findall(svg + "path"))
    assert len(re.findall("[ML]", first)) > 5 and len(re.findall("[ML]", second)) > 5
    assert len(frame.findall(svg + "circle")) == len([l for l in lines_of("run") if l["event"] == "validation"])
assert "            . A" in text and "            * B" in text
PYTHON
fi
"$CISTRON" report "$run" "$work/none" >"$work/out" 2>&1
check "no second run: exit code 2" test $? -eq 2
check "no second run: is said" says "$work/none: no such file or folder"
"$CISTRON" report "$run" "$run/final_model.h5" >"$work/out" 2>&1
check "no log: exit code 2" test $? -eq 2
check "no log: is said" says "$run/final_model.h5: is not the log of a run"
"$CISTRON" report "$run" "$work/other/log.jsonl" -o "$work/other/log.jsonl" >"$work/out" 2>&1
check "several over a log: exit code 2" test $? -eq 2
check "several over a log: is said" says "is an input and the output"

# -- what becomes of a program -----------------------------------------------------------------------------------------
run="$work/life"
mkdir "$run"
touch "$run/stop"
ranks 2 train "$work/deck.cfg" output.folder="$run"
check "stopped before its first step" codes_are 85 2
check "the last words say how to go on" test "$(grep -v '^-*$' "$work/out" | grep -c '^# exit code 85: the run stopped on request, and the same command resumes it')" -eq 1
check "they are the last line" test "$(tail -n 1 "$work/out" | grep -c '^# exit code 85')" -eq 1
"$CISTRON" report "$run" >"$work/out" 2>&1
check "verdict: stopped" says "verdict            stopped: at step 0 of 12: the file stop requests a stop"
for command in "inspect $run" "train --from $run" "eval --checkpoint $run --fasta $work/g.fa -o $work/e.json"; do
    # shellcheck disable=SC2086
    "$CISTRON" $command >"$work/out" 2>&1
    check "$command: exit code 2" test $? -eq 2
    check "$command: says that nothing is saved yet" says "$run: the run there has not written a checkpoint yet"
done

# killed, and seen at work: a run that is too long to come to its end here
ranks 1 train "$work/deck.cfg" output.folder="$run" train.steps=6 checkpoint.every=3
"$CISTRON" train "$work/deck.cfg" output.folder="$run" train.steps=1000000 >"$work/long" 2>&1 &
for _ in $(seq 1200); do
    grep -q '^ *50 ' "$work/long" && break
    sleep 0.05
done
"$CISTRON" report "$run" --force -o "$work/page.html" >"$work/out" 2>&1
check "a run at work: the time left" grep -qE '^time left +[0-9-]+[0-9:]+ for 999,[0-9]{3} steps of the median time$' "$work/out"
check "verdict: running" says "verdict            running: last logged: step "
kill -KILL $!
wait $! 2>/dev/null
"$CISTRON" report "$run" --force -o "$work/page.html" >"$work/out" 2>&1
check "verdict: killed" says "verdict            killed: last seen at step "

# a checkpoint that is set aside, a log and event files that cannot be written: told, and the run goes on
printf x | dd of="$run/step_00000006.h5" bs=1 seek=3000 conv=notrunc 2>/dev/null
mv "$run/log.jsonl" "$work/log.before"
mkdir "$run/log.jsonl"
rm -r "$run/tensorboard"
touch "$run/tensorboard"
ranks 2 train "$work/deck.cfg" output.folder="$run" train.steps=9
check "no log and no event files: the run comes to its end" codes_are 0 2
check "the log is told" says "warning: $run/log.jsonl: cannot open it: Is a directory; the run continues"
check "and that it is lost" says "at its end could not be written: lost"
check "the event files too" says "warning: $run/tensorboard: cannot open it: Not a directory; the run continues"
rm -r "$run/log.jsonl" "$run"/step_00000009.h5* "$run/final_model.h5"*
mv "$work/log.before" "$run/log.jsonl"
cp "$run/step_00000003.h5" "$run/step_00000005.h5" # without its side file, and not of its step
head -c 9000 "$run/step_00000003.h5" >"$run/step_00000005.h5"
ranks 2 train "$work/deck.cfg" output.folder="$run" train.steps=9
check "from a checkpoint before a bad one" codes_are 0 2
check "that is in the log" grep -q '"event":"set_aside","step":3,"text":"'"$run"'/step_00000005.h5.*the file is renamed to ' "$run/log.jsonl"
"$CISTRON" report "$run" >"$work/out" 2>&1
check "and in the report" says "the file is renamed to $run/step_00000005.h5.bad"
check "verdict: finished" says "verdict            finished: step 9 of 9"
"$CISTRON" train "$work/deck.cfg" output.folder="$run" train.steps=5 >"$work/out" 2>&1
check "more steps done than asked for" says "nothing is left to do: the run has done 9 steps, and train.steps is 5"
check "adds to the log what it evaluates alone" test "$(tail -n 2 "$run/log.jsonl" | cut -d , -f 1-2 | tr '\n' ' ')" = \
    '{"event":"end","step":9 {"event":"evaluation","step":9 '
"$CISTRON" report "$run" >"$work/out" 2>&1
check "verdict: still finished" says "verdict            finished: step 9 of 9"
finish
