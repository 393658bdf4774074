#!/usr/bin/env python3
"""parquet_files.py RECORDS FOLDER: what pyarrow writes, in every combination of encoding, codec, page version, row groups
and shape of columns, is what the program RECORDS (tests/records.c) reads. Files are made in FOLDER. Exit status 77:
pyarrow is not installed.
parquet_files.py golden FOLDER: writes the few files of tests/golden/parquet and `expected`, what they hold."""
import os
import random
import subprocess
import sys

try:
    import pyarrow
    import pyarrow.parquet as parquet
except ImportError:
    print("skipped: pyarrow is not installed")
    sys.exit(77)

CODECS = ["none", "snappy", "gzip", "zstd", "lz4"]
ENCODINGS = ["dictionary", "fallback", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
FIELDS = ["plain", "null", "all_null", "list", "document.text", "messages.content", "maybe.parts"]


def make_rows(count, seed):
    draw = random.Random(seed)

    def text():
        kind = draw.randrange(8)
        if kind == 0:
            return ""
        if kind == 1:
            return "the same text again"
        if kind == 2:  # a beginning in common, for differences
            return "ACGT" * 20 + str(draw.randrange(1000))
        return "".join(draw.choice("ACGTé\n {}\x00世") for _ in range(draw.randrange(60 if kind < 7 else 900)))

    def perhaps(value):
        return None if draw.randrange(4) == 0 else value

    def texts():
        return [perhaps(text()) for _ in range(draw.randrange(5))]

    return [{
        "plain": text(), "null": perhaps(text()), "all_null": None, "list": perhaps(texts()),
        "document": perhaps({"text": perhaps(text()), "n": draw.randrange(9)}),
        "messages": perhaps([perhaps({"role": "user", "content": perhaps(text())}) for _ in range(draw.randrange(4))]),
        "maybe": perhaps({"parts": perhaps(texts())}),
        "id": perhaps(f"r{i} and more")} for i in range(count)]


STRING = pyarrow.string()
SCHEMA = pyarrow.schema([
    pyarrow.field("plain", STRING, nullable=False), ("null", STRING), ("all_null", STRING), ("list", pyarrow.list_(STRING)),
    ("document", pyarrow.struct([("text", STRING), ("n", pyarrow.int64())])),
    ("messages", pyarrow.list_(pyarrow.struct([("role", STRING), ("content", STRING)]))),
    ("maybe", pyarrow.struct([("parts", pyarrow.list_(STRING))])), ("id", STRING)])


def entries(row, field):
    """What a field of a row stands for: its strings, None for those that are not there; and whether it is a list."""
    if field == "document.text":
        return [(row["document"] or {}).get("text")], False
    if field in ("plain", "null", "all_null"):
        return [row[field]], False
    if field == "messages.content":
        values = row["messages"] and [message and message["content"] for message in row["messages"]]
    elif field == "maybe.parts":
        values = (row["maybe"] or {}).get("parts")
    else:
        values = row[field]
    return values or [None], True


def expected(rows, field, path):
    out = []
    for i, row in enumerate(rows):
        name = row["id"].split()[0] if row["id"] else str(i + 1)
        values, is_list = entries(row, field)
        for part, value in enumerate(values):
            text = (value or "").encode()
            out.append(f"{name}{f'.{part + 1}' if is_list else ''} {len(text)}\n".encode() + text + b"\n")
    return b"".join(out) + f"end {path}\n".encode()


def write(path, rows, encoding, codec, version, groups, checksum=False):
    table = pyarrow.Table.from_pylist(rows, schema=SCHEMA)
    keep = {"use_dictionary": encoding in ("dictionary", "fallback")}
    if encoding == "fallback":  # the dictionary is full after a while, and the rest is plain
        keep["dictionary_pagesize_limit"] = 2000
    elif not keep["use_dictionary"]:
        leaves = ["plain", "null", "all_null", "list.list.element", "document.text", "messages.list.element.role",
                  "messages.list.element.content", "maybe.parts.list.element", "id"]
        keep["column_encoding"] = {leaf: encoding for leaf in leaves}
    parquet.write_table(table, path, compression=codec, data_page_version=version, row_group_size=-(-len(rows) // groups),
                        data_page_size=4000, write_batch_size=50, write_page_checksum=checksum, **keep)


def compare(records, files):
    """files: (path, rows). Returns how many of (file, field) are read as they were written."""
    pairs = [(path, field, expected(rows, field, path)) for path, rows in files for field in FIELDS]
    command = [records, "bytes", "-"] + [word for path, field, _ in pairs for word in (path, field)]
    got = subprocess.run(command, capture_output=True, check=True).stdout
    wrong = 0
    for path, field, wanted in pairs:
        if got.startswith(wanted):
            got = got[len(wanted):]
            continue
        if wrong == 0:
            print(f"{path}, {field}: differs, at {got[:200]!r}")
        wrong += 1
        cut = got.find(f"end {path}\n".encode())
        failed = got.find(b"error ")
        if 0 <= failed and (cut < 0 or failed < cut):
            cut = failed
        got = got[got.find(b"\n", cut) + 1:]
    return len(pairs), wrong


def all_files(folder):
    rows = {1: make_rows(400, 1), 3: make_rows(401, 2)}
    for encoding in ENCODINGS:
        for codec in CODECS:
            for version in ("1.0", "2.0"):
                for groups in (1, 3):
                    path = os.path.join(folder, f"{encoding}_{codec}_{version}_{groups}.parquet")
                    write(path, rows[groups], encoding, codec, version, groups, checksum=codec in ("none", "zstd"))
                    yield path, rows[groups]


def main():
    if sys.argv[1] == "golden":
        os.chdir(sys.argv[2])
        rows = make_rows(10, 3)
        with open("expected", "wb") as out:
            for encoding, codec, version in [("dictionary", "snappy", "1.0"), ("PLAIN", "gzip", "1.0"),
                                             ("DELTA_BYTE_ARRAY", "zstd", "2.0"), ("DELTA_LENGTH_BYTE_ARRAY", "lz4", "2.0")]:
                path = f"{encoding}_{codec}.parquet"
                write(path, rows, encoding, codec, version, 2, checksum=True)
                for field in FIELDS:
                    out.write(expected(rows, field, path))
        return 0
    count, wrong = compare(sys.argv[1], list(all_files(sys.argv[2])))
    print(f"{count} columns, {wrong} differ")
    return 1 if wrong else 0


sys.exit(main())
