#!/bin/bash
# bench/gpu/step_speed_eight, with stand-ins for cistron, mpirun and PyTorch, judges its rows: a failed row does not end
# the others, a late row counts with its finished steps, and no row starts without time.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
cd "$work" || exit
cat >cistron <<'END'
#!/usr/bin/env python3
import json, os, sys, time
if sys.argv[1] == "--version":
    sys.exit()
deck, keys = sys.argv[2], dict(word.split("=", 1) for word in sys.argv[3:])
if "esm3b" in deck:
    sys.exit("no room")
os.makedirs(keys["output.folder"])
print("# %s rows of 8192 tokens a step" % keys["train.global_batch"])
print("# memory of a rank, MiB:\n#   weights 1024.0\n", flush=True)
with open(keys["output.folder"] + "/log.jsonl", "w") as log:
    for step in range(1, 31):
        if "esm15b" in deck and step == 8:
            time.sleep(60)
        seconds = 9.0 if step < 3 else 2.0 if "LD_PRELOAD" not in os.environ else 1.5
        line = {"event": "step", "step": step, "seconds": seconds, "data_wait": 0, "time": time.time(), "mfu_full": 0.5}
        print(json.dumps({**line, "device_memory_peak": 2**31}), file=log, flush=True)
time.sleep(60)
END
cat >mpirun <<'END'
#!/bin/bash
exec "${@:3}"
END
cat >python <<'END'
#!/bin/bash
exec python3 "${@:4}"
END
cat >peer.py <<'END'
CASES = dict()
import sys
assert "--ga 4 --steps 14" in " ".join(sys.argv)
print("PEER x seq=8192 mbs=1 ga=4 bf16: step 1.0 ms  8192 tok/s/gpu  500 TFLOP/s/gpu  MFU 51.0%  mem 60 GiB")
END
chmod +x cistron mpirun python
export PYTHONDONTWRITEBYTECODE=1
eight()
{
    MPIRUN=$work/mpirun timeout 60 "$abs_top_srcdir/bench/gpu/step_speed_eight" --cistron ./cistron --python ./python --peer peer.py \
        "$@" >out 2>&1
}
touch none.so
eight --no-transfers ./none.so --rows llama8b_x8,llama8b_x8:alone,lingua1b_x8:peer,llama8b_x8:peer,llama31_70b_x8,esm3b_x8
check "exit code 1" test $? = 1
check "the median of 10 steps, of 4 rows a GPU" \
    grep -qE '^llama8b_x8 .* 16384 +50.0 +1.0 .* 10900 +11600 .* aim, 2.0 GiB in use$' out
check "ranks that share layers have the same rows" grep -qE '^llama31_70b_x8 .* 2048 ' out
check "a row that fails" grep -q '^    Cistron: exit code 1: no room' out
check "a job that fails" grep -qE '^lingua1b_x8:peer +Failure: exit code 1: ' out
check "transfers" grep -qE '^llama8b_x8:alone .* 25.00 % of a step' out
check "PyTorch" grep -qE '^llama8b_x8:peer +8192 .* Cistron 2.000 times$' out
eight --gpus 2 --seconds 60 --row-seconds 5 --rows esm15b_packed_x8.delayed,esm15b_packed_x8,llama8b_131072_x8
check "a late row is no failure" test $? = 0
check "but has fewer steps" grep -qE '^esm15b_packed_x8 .* - +- +0.00 .* of 5 steps$' out
check "and is made smaller" grep -q '^    model.layers=24; published: 7119' out
check "a row without time is named" grep -q '^No time was left for these: --rows llama8b_131072_x8$' out
finish
