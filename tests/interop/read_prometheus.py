"""Reads a file of metrics strictly by the rules of Prometheus' text format 0.0.4 (exposition formats) and of its naming
practice, then compares it with a run's log: read_prometheus.py FILE LOG EXIT_CODE."""
import json
import math
import os
import re
import sys

path, log, code = sys.argv[1:]
raw = open(path, "rb").read()
assert raw.endswith(b"\n") and b"\r" not in raw
number = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN")
name = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
label = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
helped, types, samples, current = set(), {}, {}, None
for line in raw.decode().split("\n")[:-1]:
    if line.startswith("#"):
        what, family, rest = re.fullmatch(rf"# (HELP|TYPE) ({name}) (.+)", line).groups()
        if what == "HELP":
            assert family not in helped, line  # one of each, and all lines of a family together
            helped.add(family)
            current = None
        else:
            assert family in helped and family not in types and rest in ("gauge", "counter"), line
            assert (rest == "counter") == family.endswith("_total"), line
            types[family] = rest
            current = family
        continue
    metric, inside, value = re.fullmatch(rf"({name})\{{(.*)\}} (\S+)", line).groups()
    assert metric == current, line
    assert number.fullmatch(value), line
    labels, at = {}, 0
    while at < len(inside):
        one = label.match(inside, at)
        assert one and one[1] not in labels and not one[1].startswith("__"), line
        labels[one[1]] = one[2]
        at = one.end()
        assert at == len(inside) or inside[at] == ",", line
        at += at < len(inside)
    key = (metric, tuple(sorted(labels.items())))
    assert key not in samples, line
    samples[key] = float(value)
assert set(types) == helped
assert {dict(labels)["run"] for metric, labels in samples} == {os.path.realpath(os.path.dirname(log))}
by_name = {metric: value for (metric, labels), value in samples.items()}
lines = [json.loads(line) for line in open(log)]
row = [line for line in lines if line["event"] == "step"][-1]
assert by_name["cistron_finished"] == 1 and by_name["cistron_exit_code"] == int(code), by_name
if row["step"] == by_name["cistron_step"] and "cistron_loss" in by_name:
    pairs = {"cistron_loss": "mean_loss", "cistron_tokens_total": "consumed_tokens", "cistron_learning_rate": "lr",
             "cistron_unpadded_tokens_total": "consumed_unpadded_tokens", "cistron_samples_total": "consumed_samples",
             "cistron_tokens_per_second": "tokens_per_second", "cistron_gradient_norm": "grad_norm",
             "cistron_padded_tokens_per_second": "padded_tokens_per_second", "cistron_memory_peak_bytes": "memory"}
    for metric, key in pairs.items():
        assert math.isclose(by_name[metric], row[key], rel_tol=1e-5), (metric, by_name[metric], row[key])
