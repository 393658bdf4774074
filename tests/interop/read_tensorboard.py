#!/usr/bin/env python3
"""read_tensorboard.py FOLDER: prints "tag step value" for each scalar and text of the folder's event files, file by file.

The files are read by a reader of this script's own, checksums left out. Where the tensorboard package is installed, it
must read the same from each file, and show the same for the folder; else a line on standard error says so."""
import os
import struct
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field of a message; a value is an int or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a field ends behind its message"
        yield key >> 3, value


def text_of_tensor(data):
    tensor = dict(fields(data))
    assert tensor[1] == 7 and tensor[2] == b"", "a tensor that is no text"
    return tensor[8].decode()


def values_of_file(path):
    data = open(path, "rb").read()
    at, first = 0, True
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12:at + 12 + size]
        assert len(event) == size and at + 16 + size <= len(data), path + " ends within a record"
        at += 16 + size
        content = dict(fields(event))
        assert not first or content[3] == b"brain.Event:2", path + " does not begin with the version"
        first = False
        for number, value in fields(content.get(5, b"")):
            item = dict(fields(value))
            value = struct.unpack("<f", item[2])[0] if 2 in item else text_of_tensor(item[8])
            yield item[1].decode(), content[2], value


def check_with_package(folder, files):
    try:
        from tensorboard.backend.event_processing import event_accumulator, event_file_loader
    except ImportError:
        print("the tensorboard package is not installed: its reading is not compared", file=sys.stderr)
        return
    together = {}
    for path, own in files.items():
        theirs = []
        for event in event_file_loader.LegacyEventFileLoader(path).Load():
            theirs += [(value.tag, event.step, value.tensor.string_val[0].decode() if value.HasField("tensor")
                        else value.simple_value) for value in event.summary.value]
        assert theirs == own, path + ": the tensorboard package reads something else"
        for tag, step, value in own:
            together.setdefault(tag, []).append((step, value))
    shown = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    shown.Reload()
    tags = shown.Tags()
    assert sorted(tags["scalars"] + tags["tensors"]) == sorted(together), tags
    for tag in tags["scalars"]:
        assert [(e.step, e.value) for e in shown.Scalars(tag)] == together[tag], tag + ": is shown otherwise"
    assert sorted(tags["tensors"]) == sorted(shown.PluginTagToContent("text")), tags
    for tag in tags["tensors"]: # of texts at one step the newest is shown
        texts = [(e.step, e.tensor_proto.string_val[0].decode()) for e in shown.Tensors(tag)]
        assert texts == together[tag], tag + ": is shown otherwise"
    print("the tensorboard package reads the same", file=sys.stderr)


def main():
    folder = sys.argv[1]
    names = sorted(name for name in os.listdir(folder) if name.startswith("events.out.tfevents."))
    files = {os.path.join(folder, name): list(values_of_file(os.path.join(folder, name))) for name in names}
    check_with_package(folder, files)
    for values in files.values():
        for tag, step, value in values:
            print(tag, step, repr(value))


main()
