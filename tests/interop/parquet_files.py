#!/usr/bin/env python3
"""parquet_files.py RECORDS FOLDER: what pyarrow writes, in every combination of encoding, codec, page version, row groups
and shape of columns, and with ids of every type, is what the program RECORDS (tests/records.c) reads. Files are made in FOLDER. Exit status 77:
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
# what integers have in place of these
OF_INTEGERS = {"DELTA_LENGTH_BYTE_ARRAY": "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY": "BYTE_STREAM_SPLIT"}
ID_TYPES = ["string", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FIELDS = ["plain", "null", "all_null", "list", "document.text", "messages.content", "maybe.parts"]


def make_rows(count, seed, id_type="string"):
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

    def make_id(i):
        if id_type == "string":
            return f"r{i} and more"
        bits = int(id_type.lstrip("uint"))
        least = 0 if id_type[0] == "u" else -1 << bits - 1
        most = least + (1 << bits) - 1
        return draw.choice([i % 100, i % 100, least, most, draw.randint(least, most)])

    return [{
        "plain": text(), "null": perhaps(text()), "all_null": None, "list": perhaps(texts()),
        "document": perhaps({"text": perhaps(text()), "n": draw.randrange(9)}),
        "messages": perhaps([perhaps({"role": "user", "content": perhaps(text())}) for _ in range(draw.randrange(4))]),
        "maybe": perhaps({"parts": perhaps(texts())}),
        "id": perhaps(make_id(i))} for i in range(count)]


STRING = pyarrow.string()


def schema(id_type):
    return pyarrow.schema([
        pyarrow.field("plain", STRING, nullable=False), ("null", STRING), ("all_null", STRING), ("list", pyarrow.list_(STRING)),
        ("document", pyarrow.struct([("text", STRING), ("n", pyarrow.int64())])),
        ("messages", pyarrow.list_(pyarrow.struct([("role", STRING), ("content", STRING)]))),
        ("maybe", pyarrow.struct([("parts", pyarrow.list_(STRING))])), ("id", getattr(pyarrow, id_type)())])


def entries(row, field):
    """What a field of a row stands for: its strings, None for those that are null; and whether it is a list. An empty list
    is an empty string."""
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
    return [None] if values is None else values or [""], True


def expected(rows, field, path):
    out = []
    for i, row in enumerate(rows):
        name = str(row["id"]).split()[0] if row["id"] is not None else str(i + 1)
        values, is_list = entries(row, field)
        for part, value in enumerate(values):
            if value is None:  # left out
                continue
            text = value.encode()
            out.append(f"{name}{f'.{part + 1}' if is_list else ''} {len(text)}\n".encode() + text + b"\n")
    return b"".join(out) + f"end {path}\n".encode()


def write(path, rows, encoding, codec, version, groups, checksum=False, id_type="string"):
    table = pyarrow.Table.from_pylist(rows, schema=schema(id_type))
    keep = {"use_dictionary": encoding in ("dictionary", "fallback")}
    if encoding == "fallback":  # the dictionary is full after a while, and the rest is plain
        keep["dictionary_pagesize_limit"] = 2000
    elif not keep["use_dictionary"]:
        leaves = ["plain", "null", "all_null", "list.list.element", "document.text", "messages.list.element.role",
                  "messages.list.element.content", "maybe.parts.list.element", "id"]
        keep["column_encoding"] = {leaf: encoding for leaf in leaves}
        if id_type != "string":
            keep["column_encoding"]["id"] = OF_INTEGERS.get(encoding, encoding)
    parquet.write_table(table, path, compression=codec, data_page_version=version, row_group_size=-(-len(rows) // groups),
                        data_page_size=4000, write_batch_size=50, write_page_checksum=checksum, **keep)


def compare(records, files):
    """files: (path, rows). Returns how many of (file, field) are read as they were written."""
    pairs = [(path, field, expected(rows, field, path)) for path, rows in files for field in FIELDS]
    command = [records, "skip", "-"] + [word for path, field, _ in pairs for word in (path, field)]
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
    number = 0
    for encoding in ENCODINGS:
        for codec in CODECS:
            for version in ("1.0", "2.0"):
                for groups in (1, 3):
                    id_type = ID_TYPES[number % len(ID_TYPES)]
                    number += 1
                    rows = make_rows(399 + groups, groups, id_type)
                    path = os.path.join(folder, f"{encoding}_{codec}_{version}_{groups}_{id_type}.parquet")
                    write(path, rows, encoding, codec, version, groups, codec in ("none", "zstd"), id_type)
                    yield path, rows


def write_odd():
    """Files that are odd in one way: row groups without rows, no row group, columns of one name, ids that are none."""
    table = pyarrow.table({"plain": ["AC", "GT"], "id": pyarrow.array([0, 1])})
    with parquet.ParquetWriter("empty_groups.parquet", table.schema) as writer:
        for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
            writer.write_table(part)
    parquet.ParquetWriter("no_group.parquet", table.schema).close()
    parquet.write_table(pyarrow.table([["AC"], ["GT"]], names=["plain", "plain"]), "twice.parquet")
    parquet.write_table(pyarrow.table([["AC"], [1], [2]], names=["plain", "id", "id"]), "two_ids.parquet")
    ids = {"float_id": [1.5], "time_id": pyarrow.array([5], pyarrow.timestamp("ms")), "list_id": [["x"]], "struct_id": [{"x": 1}],
           "decimal_id": pyarrow.array([5], pyarrow.decimal128(5, 2))}
    for name, values in ids.items():
        parquet.write_table(pyarrow.table([["AC"], values], names=["plain", "id"]), f"{name}.parquet", store_decimal_as_integer=True)


def main():
    if sys.argv[1] == "golden":
        os.chdir(sys.argv[2])
        write_odd()
        with open("expected", "wb") as out:
            for encoding, codec, version, id_type in [
                    ("dictionary", "snappy", "1.0", "string"), ("PLAIN", "gzip", "1.0", "string"),
                    ("DELTA_BYTE_ARRAY", "zstd", "2.0", "string"), ("DELTA_LENGTH_BYTE_ARRAY", "lz4", "2.0", "string"),
                    ("dictionary", "zstd", "1.0", "uint32"), ("PLAIN", "zstd", "1.0", "int16"),
                    ("DELTA_BYTE_ARRAY", "zstd", "2.0", "int64"), ("DELTA_LENGTH_BYTE_ARRAY", "zstd", "2.0", "uint64")]:
                path = f"{encoding}_{codec if id_type == 'string' else id_type}.parquet"
                rows = make_rows(10, 3, id_type)
                write(path, rows, encoding, codec, version, 2, True, id_type)
                for field in FIELDS:
                    out.write(expected(rows, field, path))
        return 0
    count, wrong = compare(sys.argv[1], list(all_files(sys.argv[2])))
    print(f"{count} columns, {wrong} differ")
    return 1 if wrong else 0


sys.exit(main())
