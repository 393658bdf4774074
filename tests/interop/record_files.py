#!/usr/bin/env python3
"""record_files.py RECORDS FOLDER: what Python's modules json and csv write, and pyarrow's CSV where it is installed, is what
the program RECORDS (tests/records.c) reads. Files are made in FOLDER."""
import csv
import gzip
import json
import os
import random
import subprocess
import sys

try:
    import pyarrow
    import pyarrow.csv
except ImportError:
    pyarrow = None


def make_rows(count, seed, id_kind):
    draw = random.Random(seed)

    def text():
        kind = draw.randrange(8)
        if kind == 0:
            return ""
        if kind == 1:  # longer than the readers' buffers together
            return "ACGT\n" * draw.randrange(60000)
        return "".join(draw.choice(["A", "C", "é", "世", "😀", "\n", "\r\n", '"', '""', ",", "\t", ";", "\\", "{", "]", " "])
                       for _ in range(draw.randrange(80)))

    def odd():
        return draw.choice([None, True, 1e999, -1e999, float("nan"), 1 << 70, -5, 0.25, "\ud83d", "a\\\"", [], {},
                            [[1], {"text": "no"}], {"id": 3, "text": ["no"]}])

    ids = {"none": lambda i: None, "integer": lambda i: i, "wide": lambda i: (1 << 80) - i, "text": lambda i: f"r{i} and more"}
    return [{"before": odd(), "text": text(), "id": ids[id_kind](i), "after": odd()} for i in range(count)]


def expected(rows, path):
    out = b""
    for i, row in enumerate(rows):
        text = row["text"].encode()
        name = str(row["id"]).split()[0] if row["id"] is not None else str(i + 1)
        out += f"{name} {len(text)}\n".encode() + text + b"\n"
    return out + f"end {path}\n".encode()


def json_files(folder, rows, tag):
    for ascii_only in (True, False):
        keep = [{key: value for key, value in row.items() if ascii_only or value != "\ud83d"} for row in rows]
        path = os.path.join(folder, f"{tag}_{ascii_only}.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for row in keep:
                out.write(json.dumps(row, ensure_ascii=ascii_only) + "\n")
        yield path, rows
        for indent in (None, 0, 2):
            for mark in ("utf-8", "utf-8-sig"):
                path = os.path.join(folder, f"{tag}_{ascii_only}_{indent}_{mark}.json")
                with open(path, "w", encoding=mark) as out:
                    json.dump(keep, out, ensure_ascii=ascii_only, indent=indent)
                yield path, rows
    path = os.path.join(folder, f"{tag}.json.gz")
    with gzip.open(path, "wt", encoding="utf-8") as out:
        json.dump(rows, out)
    yield path, rows


def csv_files(folder, rows, tag):
    def cell(value):
        return "" if value is None else str(value) if value != "\ud83d" else "x"

    table = [[cell(row[key]) for key in ("before", "text", "id", "after")] for row in rows]
    for dialect in ("excel", "excel-tab", "unix"):
        for delimiter in (None, ";"):
            for mark in ("utf-8", "utf-8-sig"):
                path = os.path.join(folder, f"{tag}_{dialect}_{delimiter}_{mark}.{'tsv' if dialect == 'excel-tab' else 'csv'}")
                with open(path, "w", encoding=mark, newline="") as out:
                    writer = csv.writer(out, dialect, **({"delimiter": delimiter} if delimiter else {}))
                    writer.writerow(["before", "text", "id", "after"])
                    writer.writerows(table)
                yield path, rows
    if pyarrow is not None:
        for quoting in ("needed", "all_valid"):
            path = os.path.join(folder, f"{tag}_{quoting}.csv")
            columns = pyarrow.table({"id": [cell(row["id"]) for row in rows], "text": [row["text"] for row in rows]})
            pyarrow.csv.write_csv(columns, path, pyarrow.csv.WriteOptions(quoting_style=quoting))
            yield path, rows


def main():
    files = []
    for seed, id_kind in enumerate(("none", "integer", "wide", "text")):
        rows = make_rows(60, seed, id_kind)
        files += list(json_files(sys.argv[2], rows, id_kind)) + list(csv_files(sys.argv[2], rows, id_kind))
    wrong = 0
    for path, rows in files:
        got = subprocess.run([sys.argv[1], "bytes", "-", path, "text"], capture_output=True, check=True).stdout
        if got != expected(rows, path):
            print(f"{path}: differs: {got[-200:]!r}")
            wrong += 1
    print(f"{len(files)} files, {wrong} differ")
    return 1 if wrong else 0


sys.exit(main())
