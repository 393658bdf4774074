#!/bin/bash
# `cistron sweep` writes the table that the logs of its cases say, does not repeat finished cases, notes failed ones
# with their message, refuses to mix builds and devices, collects a batch system's cases later, and reports mistakes in
# its list.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
cd "$work" || exit 1
ranks 2 measure --quick --largest 128 -o rates.cfg device.kind=cpu
check "rates are measured" codes_are 0 2
cat >small.cfg <<'END'
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; };
data = { source = "random"; random_median = 40; random_mean = 70; row_tokens = 64; split = false; };
train = { micro_batch = 2; };
device = { kind = "cpu"; threads = 1; peak = 0.5; rates_file = "rates.cfg"; };
END
mkdir lists
cat >lists/all.cfg <<'END'
ranks = [1, 2];
steps = 5;
warm_up = 2;
deck = "../small.cfg"; # as the list's folder sees it
keys : { train : { seed = 7; }; };
sweeps = (
    { scaling = "weak"; rows = 4; },
    { scaling = "strong"; rows = 8; keys : { parallel : { shard = ["none", "full"]; }; }; },
    { ranks = 1; keys : { parallel : { tensor = 2; }; }; },
    { ranks = 1; launch = "SITE=1 sh -c 'echo no such partition, or a full one; exit 7' {command}"; },
    { ranks = 1; launch = "SITE=1 sh -c 'echo no such partition, or a full one; exit 7' {command}"; },
    { ranks = 1; seconds = 5;
      launch = "cp all/results.csv seen.csv; {command} train.steps=1000000000; true"; },
    { ranks = 1; launch = "echo gone {command} | cut -c -4"; },
    { ranks = 1; keys : { data : { source = "store"; train = "small.cfg"; }; train : { seed = 8; }; }; }
);
END

# sweep ARGUMENTS...: output in $work/out, exit code in $code
sweep()
{
    timeout 120 "$CISTRON" sweep "$@" >"$work/out" 2>&1
    code=$?
}
begun()
{
    grep -c '^\[' "$work/out"
}

sweep lists/all.cfg --most-ranks 1
check "without cases of two ranks: code" test $code -eq 1
check "results are there while the sweep goes on" test "$(grep -c ',done,0,' seen.csv)" -eq 3
check "they are to come" says ", 3 to come" # rows: one stands there twice
sweep lists/all.cfg
check "cases that failed: code" test $code -eq 1
check "are counted" says "6 of 12 cases have failed"
check "only those of two ranks have run now" test "$(begun)" -eq 2
check "one that two groups have ran once" test "$(find all -name 'small-2-*' | wc -l)" -eq 2
check "one that takes too long was at work" grep -q '"event":"stop"' all/small-1-*/run/log.jsonl
check "nothing but the log is left of a case" test -z "$(find all -name '*.h5' ! -name results.h5)"

cat >table.py <<'PYTHON'
import csv, glob, json, math, os, statistics, sys
import xml.etree.ElementTree as tree
rows = list(csv.DictReader(open("all/results.csv", newline="")))
assert len(rows) == 12, len(rows)
def number(row, name):
    return float(row[name]) if row[name] else math.nan
def near(a, b, bound=1e-4):
    assert abs(a - b) <= bound * abs(b), (a, b)
def steps(case, run="run"):
    lines = [json.loads(line) for line in open("all/%s/%s/log.jsonl" % (case, run))]
    return lines[0], [line for line in lines if line["event"] == "step"]
rates = {}
for row in rows[:6]:
    start, done = steps(row["case"])
    counted = done[2:]  # warm_up
    assert [line["step"] for line in done] == list(range(1, 8)) and int(row["steps (steps)"]) == 5, done
    times = [line["step_seconds"][0] for line in counted]
    near(number(row, "step_least (s)"), min(times))
    near(number(row, "step_median (s)"), statistics.median(times))
    near(number(row, "step_most (s)"), max(times))
    tokens = sum(line["tokens_per_second"] * line["seconds"] for line in counted) / 5
    near(number(row, "step_tokens (tokens)"), tokens)
    rate, ranks = tokens / statistics.median(times), int(row["ranks"])
    near(number(row, "rate (tokens/s)"), rate)
    near(number(row, "rank_rate (tokens/s)"), rate / ranks)
    near(number(row, "padded_rate (tokens/s)"), 64 * int(row["global_batch (rows)"]) / statistics.median(times))
    assert start["ranks"] == ranks and start["peak"] == 0.5e12 * ranks
    for name in ("causal", "full", "opengenome2"):
        near(number(row, "mfu_" + name), start["flops_per_token_" + name] * rate / (0.5e12 * ranks))
    rates[row["series"], ranks] = rate / ranks
    near(number(row, "efficiency"), rates[row["series"], ranks] / rates[row["series"], 1])
    waited, seconds = (sum(line[name] for line in counted) for name in ("data_wait", "seconds"))
    near(number(row, "data_wait"), waited / seconds)
    near(number(row, "loss (nats)"), done[-1]["mean_loss"]) # of the last tenth of seven steps
    assert row["validation_loss (nats)"] == ""
    near(number(row, "resident (bytes)"), max(line["memory"] for line in done))
    plan = json.load(open("all/%s/plan.json" % row["case"]))
    assert plan["ranks"] == ranks
    near(number(row, "planned_memory (bytes)"), plan["fit"]["need"])
    near(number(row, "planned_step (s)"), plan["time"]["seconds"])
    assert abs(number(row, "planned_exposed") - plan["time"]["exposed"] / plan["time"]["seconds"]) < 1e-6
    near(number(row, "planned_host (bytes)"), plan["host_batches"] + plan["host_offloaded"])
    rows_all = {"weak": 4 * ranks, "strong": 8}[row["scaling"]]
    assert int(row["global_batch (rows)"]) == rows_all == plan["data"]["tokens_a_step"] // 64
    assert row["state"] == "done" and row["exit_code"] == "0" and row["message"] == ""
    assert row["exposed"] == "" and row["device_memory (bytes)"] == ""
    # a kept deck says what was asked for
    deck = open("all/%s/run/deck.cfg" % row["case"]).read()
    assert "shard = \"%s\"" % row["shard"] in deck and "seed = 7" in deck, deck
assert [row["varied"] for row in rows[:6]] == ["", ""] + ["parallel.shard=none"] * 2 + ["parallel.shard=full"] * 2
assert [row["series"] for row in rows] == list("001122345678"), [row["series"] for row in rows]
assert rows[1]["case"] == rows[3]["case"] and rows[7]["case"] == rows[8]["case"]
assert len({row["case"] for row in rows}) == 10
tensor, partition, again, late, gone, store = rows[6:]
for row, code, words in ((tensor, 2, "key parallel.tensor = 2: must divide the number of ranks"),
                         (partition, 7, "no such partition, or a full one"),
                         (again, 7, "no such partition, or a full one"), (late, 124, "took longer than 5 s"),
                         (gone, 0, "no step was measured: gone"), (store, 2, "small.cfg")):
    assert row["state"] == "failed" and int(row["exit_code"]) == code and words in row["message"], row
    assert row["rate (tokens/s)"] == "" and row["efficiency"] == ""
svg = "{http://www.w3.org/2000/svg}"
for name, lines in (("weak", 1), ("strong", 2)):
    root = tree.parse("all/%s.svg" % name).getroot()
    frame = [e for e in root.iter(svg + "svg")][-1]
    paths, points = frame.findall(svg + "path"), frame.findall(svg + "circle")
    assert len(paths) == lines + 1 and len(points) == 2 * lines, (name, len(paths), len(points))
    # y of the second point beside the ideal's, both above 0, is the efficiency
    height = 190
    ideal = paths[0].get("d").replace("M", " ").replace("L", " ").split()
    for line in range(lines):
        series = [row for row in rows if row["scaling"] == name][2 * line:2 * line + 2]
        y = float(points[2 * line + 1].get("cy"))
        assert abs((height - y) / (height - float(ideal[3])) - number(series[1], "efficiency")) < 0.01, (name, y, ideal)
    names = [e.text for e in root.iter(svg + "text")]
    ticks = [e.text for e in root.iter(svg + "text") if e.get("class") == "tick"]
    assert ticks[:2] == ["1", "2"] and ticks[2] == "0", ticks  # of ranks, then of the other axis
    assert "ideal" in names and any(text.startswith("small") for text in names), names
try:
    import h5py
except ImportError:
    print("no h5py: results.h5 is not looked at")
    sys.exit()
with h5py.File("all/results.h5") as file:
    cases = file["cases"]
    assert file.attrs["device"] == steps(rows[0]["case"])[0]["device_name"].encode(), dict(file.attrs)
    assert file.attrs["build"].decode() == open("all/%s/build" % rows[0]["case"]).read().strip()
    header = list(csv.reader(open("all/results.csv", newline="")))[0]
    for i, name in enumerate(cases.dtype.names):
        unit = cases.attrs["FIELD_%d_UNIT" % i].decode()
        assert cases.attrs["FIELD_%d_NAME" % i].decode() == name
        key = name + (" (%s)" % unit if unit not in ("", "1") else "")
        assert header[i] == key, (header[i], key)
        for value, row in zip(cases[name], rows):
            if isinstance(value, bytes):
                assert value.decode() == row[key]
            elif math.isnan(value):
                assert row[key] == ""
            else:
                near(float(value), float(row[key]), 1e-8)
PYTHON
python=$(transformers_python)
check "the table is what the logs say" "${python:-python3}" table.py

# -- again -------------------------------------------------------------------------------------------------------------
cp all/results.csv before.csv
sweep lists/all.cfg
check "nothing is left to run" test "$(begun)" -eq 0
check "the table stays" cmp all/results.csv before.csv
one=$(cut -d , -f 1 before.csv | sed -n 2p)
rm "all/$one/exit" # as if it had been killed
sweep lists/all.cfg --show
check "shown, not run" test "$(begun)" -eq 0
check "to come" says ", 1 to come"
sweep lists/all.cfg
check "a case that was killed is run again, alone" test "$(begun)" -eq 1

# -- Ctrl-C ------------------------------------------------------------------------------------------------------------
cat >stopped.cfg <<'END'
deck = "small.cfg";
launch = "sh -c 'trap \"touch ended; exit 1\" INT; touch begun; sleep 60 & wait' {command}"; # as mpirun ends
END
python3 - "$CISTRON" <<'PYTHON'
import os, signal, subprocess, sys, time
usual = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
sweep = subprocess.Popen([sys.argv[1], "sweep", "stopped.cfg"], start_new_session=True, preexec_fn=usual)
for _ in range(300):
    if os.path.exists("begun"):
        break
    time.sleep(0.1)
os.killpg(sweep.pid, signal.SIGINT)
sweep.wait(30)
while subprocess.run(["pgrep", "-g", str(sweep.pid), "bash"], stdout=subprocess.DEVNULL).returncode == 0:
    time.sleep(0.1)
try:
    os.killpg(sweep.pid, signal.SIGKILL)  # its sleep
except ProcessLookupError:
    pass
PYTHON
sweep stopped.cfg --show
check "Ctrl-C: the case has begun" test -e begun
check "Ctrl-C: its training is ended" test -e ended
check "Ctrl-C: the case has not failed" test $code -eq 0
check "Ctrl-C: it is to come" says ", 1 to come"

# -- A sweep that is killed takes the training with it -----------------------------------------------------------------
cat >killed.cfg <<'END'
deck = "small.cfg";
launch = "sh -c 'trap \"touch dead; exit 1\" TERM; touch alive; sleep 60 & wait' {command}";
END
"$CISTRON" sweep killed.cfg >/dev/null 2>&1 &
for _ in $(seq 300); do [ -e alive ] && break; sleep 0.1; done
kill -KILL $!
for _ in $(seq 300); do [ -e dead ] && break; sleep 0.1; done
check "killed: the case has begun" test -e alive
check "killed: its training is ended" test -e dead

sweep lists/all.cfg --retry
check "what failed is tried again, what two groups have once" test "$(begun)" -eq 4
echo 'optimizer = { lr = 0.002; };' >>small.cfg
sed '/tensor/d; /seconds/d; /launch/d; s/},$/}/; /store/d; /strong/d' lists/all.cfg >lists/weak.cfg
sweep lists/weak.cfg -o all
check "another deck: its cases are others" test "$(begun)" -eq 2
check "all is well: code" test $code -eq 0

# -- what one table does not mix ---------------------------------------------------------------------------------------
python3 - "$CISTRON" "all/$(cut -d , -f 1 before.csv | sed -n 2p)/build" <<'PYTHON'
import os, sys
version, identity = open(sys.argv[2]).read().split()
program, identity = open(sys.argv[1], "rb").read(), bytes.fromhex(identity)
assert len(identity) >= 8 and program.count(identity) == 1
with open("other", "wb") as other:
    other.write(program.replace(identity, bytes(256 - byte & 255 for byte in identity)))
os.chmod("other", 0o755)
PYTHON
cp all/results.csv before.csv
timeout 60 ./other sweep lists/weak.cfg -o all >out 2>&1
check "another build: code" test $? -eq 2
check "is refused" says "one table cannot mix builds"
check "is named" says "is of build $(cat "all/$(cut -d , -f 1 before.csv | sed -n 2p)/build"), but this build is "
check "the table stays as it was" cmp all/results.csv before.csv
sed -i 's/"device_name":"[^"]*"/"device_name":"Another X1"/' "all/$(cut -d , -f 1 before.csv | sed -n 3p)/run/log.jsonl"
sweep lists/weak.cfg -o all
check "another device: code" test $code -eq 2
check "is named too" says "ran on Another X1, but "

# -- transfers ---------------------------------------------------------------------------------------------------------
library=$(ldd "$CISTRON" | awk '/libm\.so/ { print $3 }') # one that changes nothing
sweep lists/weak.cfg -o free --no-transfers "$library"
check "a second training of two ranks: code" test $code -eq 0
check "is what transfers are told by" python3 - <<'PYTHON'
import csv, json, statistics
one, two = csv.DictReader(open("free/results.csv", newline=""))
def median(run):
    lines = [json.loads(line) for line in open("free/%s/%s/log.jsonl" % (two["case"], run))]
    return statistics.median(line["step_seconds"][0] for line in lines if line["event"] == "step" and line["step"] > 2)
assert one["exposed"] == "" and abs(float(two["exposed"]) - (1 - median("free") / median("run"))) < 1e-6
PYTHON
rm free/*-2-*/free/log.jsonl # as if that training had failed
sweep lists/weak.cfg -o free --no-transfers "$library"
check "one that has failed is not run again by itself" test $code -eq 0 -a -z "$(ls free/*-2-*/free/log.jsonl 2>/dev/null)"
check "with the library" grep -q "LD_PRELOAD=$(realpath "$library")'.*free.txt" free/*-2-*/job.sh
sweep lists/weak.cfg -o free --no-transfers "$work/none.so"
check "no such library: code" test $code -eq 2

# -- losses ------------------------------------------------------------------------------------------------------------
genome 3 5000 5000 5000 5000 >g.fa
"$CISTRON" prepare --tokenizer nucleotide --split train:0.8,valid:0.2 -o g.h5 g.fa >out || exit 1
cat >rate.cfg <<END
model = { layers = 1; hidden = 16; ffn = 32; heads = 2; };
data = { train = "$work/g.train.h5"; valid = "$work/g.valid.h5"; row_tokens = 64; };
validation = { every = 10; rows = 8; };
device = { kind = "cpu"; threads = 1; };
END
cat >lists/rates.cfg <<'END'
deck = "../rate.cfg"; steps = 15; warm_up = 5;
keys : { optimizer : { lr = [1e-5, 1e-2, 1e-3]; }; };
END
sweep lists/rates.cfg
check "learning rates: code" test $code -eq 0
check "learning rates: cases are named by them" test "$(grep -cE '^rate optimizer.lr=(1e-05|0.01|0.001) ' out)" -eq 3
cat >losses.py <<'PYTHON'
import csv, json, re, statistics
import xml.etree.ElementTree as tree
rows = list(csv.DictReader(open("rates/results.csv", newline="")))
for row in rows:
    lines = [json.loads(line) for line in open("rates/%s/run/log.jsonl" % row["case"])]
    last = [line["mean_loss"] for line in lines if line["event"] == "step" and line["step"] > 18]
    validations = [line["loss"] for line in lines if line["event"] == "validation"]
    assert abs(float(row["loss (nats)"]) - statistics.mean(last)) < 1e-6, (row, last)
    assert len(validations) == 2 and abs(float(row["validation_loss (nats)"]) - validations[-1]) < 1e-6, (row, validations)
best = min(rows, key=lambda row: float(row["validation_loss (nats)"]))
html = "{http://www.w3.org/1999/xhtml}"
page = tree.parse("rates/report.html").getroot()
marked = [[cell.text for cell in row] for row in page.iter(html + "tr") if row[3].find(html + "b") is not None]
assert len(marked) == 1 and marked[0][0] == "rate " + best["varied"], (marked, best)
svg = "{http://www.w3.org/2000/svg}"
root = tree.parse("rates/loss.svg").getroot()
names = [e.text for e in root.iter(svg + "text") if e.get("class") == "legend"]
assert names[0] == "rate " + best["varied"] and len(names) == 3, names
assert len(list(root.iter(svg + "path"))) == 3 and len(list(page.iter(svg + "path"))) == 3
PYTHON
check "learning rates: table, picture and page have the losses of the logs" python3 losses.py

# -- a batch system ----------------------------------------------------------------------------------------------------
submit='cp {script} queued.{name}.sh; echo Submitted batch job {nodes}{ranks}{ranks_per_node}'
sed "1i submit = \"$submit\"; ranks_per_node = 1;" lists/weak.cfg >lists/batch.cfg
sweep lists/batch.cfg
check "submitted: code" test $code -eq 0
check "both wait" test "$(grep -c ': waiting$' out)" -eq 2
check "what the batch system said is kept" grep -qx 'Submitted batch job 221' batch/*-2-*/submitted
check "scripts are handed over" test "$(ls queued.*.sh | wc -l)" -eq 2
sweep lists/batch.cfg
check "they are not submitted twice" test "$(begun)" -eq 0
for script in queued.*.sh; do
    bash "$script"
done
sweep lists/batch.cfg
check "collected" test "$(grep -c ',done,0,' batch/results.csv)" -eq 2
sed -i 's/cp {script}/false {script}/; s/; echo.*job.*}"/"/' lists/batch.cfg
sweep lists/batch.cfg -o refused
check "a batch system that refuses: code" test $code -eq 1
check "is told" says "cannot be submitted (exit code 1)"

# -- cluster.cfg, whose lines of Slurm, PBS, LSF and Flux are tried with stand-ins for their commands --------------------
mkdir bin queue
cat >bin/submit <<'END'
#!/bin/bash
system=${0##*/}
[ $system != flux ] || shift # batch
echo "$*" >>asked
script=${*: -1}
[ $system != bsub ] || script=/dev/stdin
cat "$script" >"queue/$(grep -c . asked).sh" && echo "job $(grep -c . asked)"
END
cat >bin/start <<'END'
#!/bin/bash
echo "${0##*/} $*" >>"$work/asked"
ranks=$(sed 's/.*--ntasks=\([0-9]*\).*/\1/' <<<"$*")
while [[ $1 != */cistron ]]; do shift; done
exec mpirun -n "$ranks" --bind-to none --oversubscribe "$@"
END
cat >bin/flux <<'END'
#!/bin/bash
exec "$work/bin/flux-$1/flux" "$@"
END
mkdir bin/flux-{batch,run}
chmod +x bin/*
ln -s submit bin/sbatch && ln -s submit bin/qsub && ln -s submit bin/bsub && ln -s start bin/srun
ln -s ../submit bin/flux-batch/flux && ln -s ../start bin/flux-run/flux
hostname | tee hosts | cat >>hosts # a line for each rank
cat >expected <<END
slurm --job-name=N --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --time=15 --output=/dev/null S
slurm srun --mpi=pmix --ntasks=2 --cpus-per-task=8
pbs -V -N N -l select=2:ncpus=64:mpiprocs=1:ompthreads=8:ngpus=8 -l place=scatter:excl -l walltime=00:15:00 -j oe -o /dev/null S
lsf -J N -n 2 -R span[ptile=1] affinity[core(8)] -gpu num=8:mode=shared:j_exclusive=yes -W 15 -o /dev/null
flux --job-name=N --nodes=2 --nslots=2 --cores-per-slot=8 --gpus-per-slot=1 --exclusive --time-limit=15m --output=/dev/null S
flux flux run --nodes=2 --ntasks=2 --cores-per-task=8 --gpus-per-task=1 --setopt=exit-on-error
END
export work
usual_path=$PATH
PATH=$work/bin:$PATH:$(dirname "$(command -v "${MPIRUN%% *}")")
binding="slot:PE=1 --bind-to core"
[ "$(nproc)" -gt 1 ] || binding="slot --bind-to none"
for system in slurm pbs lsf flux; do
    rm -f asked queue/*
    {
        echo 'deck = "../small.cfg"; ranks = [1, 2]; ranks_per_node = 1; steps = 2; warm_up = 1;'
        sed -n "/^# $system/I,/submit/{s/^#\([ls]\)/\1/; s/slot:PE=8 --bind-to core/$binding/; p}" \
            "$abs_top_srcdir/bench/sweeps/cluster.cfg"
    } >lists/$system.cfg
    sweep lists/$system.cfg
    check "$system: submitted" test $code -eq 0 -a "$(grep -c ': waiting$' out)" -eq 2
    for script in queue/*.sh; do
        (cd / && env PBS_NODEFILE="$work/hosts" LSB_DJOB_HOSTFILE="$work/hosts" bash "$work/$script")
    done
    check "$system: its options and launcher" cmp <(sed -n "s/^$system //p" expected) \
        <(grep -v small-1- asked | sed 's/small-2-[-0-9a-f]*/N/; s/[^ ]*job\.sh$/S/; s/ [^ ]*cistron .*//')
    sweep lists/$system.cfg
    check "$system: collected" test "$(grep -c ',done,0,' $system/results.csv)" -eq 2
    check "$system: two ranks of one run" grep -q '"event":"start".*"ranks":2,' $system/small-2-*/run/log.jsonl
done
PATH=$usual_path

# -- decks and lists of others -----------------------------------------------------------------------------------------
cat >lists/strange.cfg <<END
deck = "../exports.cfg";
steps = 2;
warm_up = 0;
keys = { data : { train = ["a\x1b[31mred", "b\x1b[31mred"]; }; };
END
cp small.cfg exports.cfg
echo 'checkpoint = { export_final = true; keep_best = true; };' >>exports.cfg
sweep lists/strange.cfg
check "a deck that exports its model: code" test $code -eq 0
check "both cases have run" says "2 cases, 0 to come"
check "control characters of the list are seen" says 'a\x1b[31mred'
check "and none moves the cursor" test "$(grep -c $'\x1b' out)" -eq 0
mkdir mine && echo "mine" >mine/results.csv
sweep lists/strange.cfg -o mine
check "a table of the user's: code" test $code -eq 2
check "a table of the user's: is told" says "mine/results.csv: exists, and its folder was not made by a sweep"
check "a table of the user's stays" test "$(cat mine/results.csv)" = mine

# -- mistakes ----------------------------------------------------------------------------------------------------------
# wrong TEXT MESSAGE: of a list
wrong()
{
    printf '%s\n' "$1" >wrong.cfg
    sweep wrong.cfg -o none
    check "$1: code" test $code -eq 2
    check "$1: is told" says "$2"
    check "$1: makes nothing" test ! -e none
}
wrong 'deck = ' 'wrong.cfg:2: syntax error'
wrong 'ranks = 1;' 'wrong.cfg:1: deck: is missing'
wrong 'deck = "none.cfg";' 'none.cfg'
wrong 'deck = 3;' 'wrong.cfg:1: deck: must be a deck'
wrong 'deck = "small.cfg"; rank = 1;' 'wrong.cfg:1: rank: is not a setting of a sweep; known: deck, ranks'
wrong 'deck = "small.cfg"; ranks = [1, 0];' 'wrong.cfg:1: ranks: must be a number from 1 to 2147483647'
wrong 'deck = "small.cfg"; warm_up = -1;' 'warm_up: must be a number from 0 to 2147483647'
wrong 'deck = "small.cfg"; ranks = 1.5;' 'wrong.cfg:1: ranks: must be a whole number'
wrong 'deck = "small.cfg"; scaling = "string"; rows = 1;' 'must be one of "none", "weak", "strong"'
wrong 'deck = "small.cfg"; scaling = "weak";' 'scaling: needs rows'
wrong 'deck = "small.cfg"; rows = 4;' 'rows: needs scaling'
wrong 'deck = "small.cfg"; ranks = 3; scaling = "weak"; rows = 0.5;' 'rows: 0.5 makes 1.5 rows of a step on 3 ranks'
wrong 'deck = "small.cfg"; keys = { train : { sed = 1; }; };' 'key train.sed: unknown'
wrong 'deck = "small.cfg"; keys = { train : { seed = [1, "x"]; }; };' 'wrong.cfg:1: '
wrong 'deck = "small.cfg"; keys = { train : { seed = []; }; };' 'seed: has no value'
wrong 'deck = "small.cfg"; keys = { train : { steps = 9; }; };' 'steps: is set by the sweep'
wrong 'deck = "small.cfg"; keys = { log : { every = 9; }; };' 'every: is set by the sweep'
wrong 'deck = "small.cfg"; scaling = "weak"; rows = 4; keys = { train : { global_batch = [8, 16]; }; };' \
    'wrong.cfg:1: rows: sets train.global_batch, which is also set in keys'
wrong 'deck = "small.cfg"; keys = 3;' 'keys: must be a group'
wrong 'deck = "small.cfg"; launch = "mpirun x";' 'launch: must have {command}'
wrong 'deck = "small.cfg"; submit = "sbatch";' 'submit: must have {script}'
wrong 'deck = "small.cfg"; sweeps = 3;' 'sweeps: must be a list of groups'
wrong 'deck = "small.cfg"; sweeps = ( 3 );' 'sweeps: must be a list of groups'
sweep lists/all.cfg -o none --most-ranks -1
check "fewer than no ranks" test $code -eq 2
check "fewer than no ranks: is told" says "--most-ranks -1: must be 0 (all cases) or positive"
check "fewer than no ranks: makes nothing" test ! -e none
for list in "$abs_top_srcdir"/bench/sweeps/{gpus,cluster,tiny}.cfg; do
    sweep "$list" --show -o "shown.${list##*/}"
    check "$list: code" test $code -eq 0
done

# CPUs that were not measured: their steps are planned without seconds
sed 's/ rates_file = "rates.cfg";//' small.cfg >untimed.cfg
printf 'steps = 2;\nwarm_up = 0;\ndeck = "../untimed.cfg";\nkeys : { train : { global_batch = 4; }; };\n' >lists/untimed.cfg
sweep lists/untimed.cfg
check "CPUs that were not measured: code" test $code -eq 0
check "CPUs that were not measured: planned memory alone" python3 - <<'PYTHON'
import csv
row, = csv.DictReader(open("untimed/results.csv", newline=""))
assert float(row["planned_memory (bytes)"]) > 0 and row["planned_step (s)"] == row["planned_exposed"] == "", row
PYTHON
finish
