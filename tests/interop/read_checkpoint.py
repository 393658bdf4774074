"""Reads a Cistron checkpoint with h5py alone, as another program would, and checks what a reader may rely on.

    read_checkpoint.py [--final] CHECKPOINT.h5

--final: the file is a finished model and has no optimizer state. Prints every tensor's name, type and shape; ends with
exit code 1 and a line per fault if something is missing, does not fit or is not finite.
"""

import argparse
import sys

import h5py
import numpy


def tensors(file, path):
    """All datasets below path by name; none if the group is not there."""
    found = {}
    if path in file:
        file[path].visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def read_meta(file):
    """The entries of /meta, be they attributes or datasets; what holds one element counts as a scalar."""
    if "meta" not in file:
        return {}
    group = file["meta"]
    entries = {name: item[()] for name, item in group.items() if isinstance(item, h5py.Dataset)}
    entries.update(group.attrs)
    scalars = {name: value.item() if getattr(value, "size", 0) == 1 else value for name, value in entries.items()}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in scalars.items()}


def check_meta(meta):
    faults = [f"/meta has no '{name}'" for name in ("step", "deck") if name not in meta]
    if "step" in meta and not (isinstance(meta["step"], int) and meta["step"] >= 0):
        faults.append(f"/meta step is {meta['step']!r}, not a whole number of steps")
    if "deck" in meta and not (isinstance(meta["deck"], str) and meta["deck"].strip()):
        faults.append("/meta deck is not a text, or is empty")
    return faults


def check_values(path, found):
    faults = []
    for name, dataset in found.items():
        if not numpy.issubdtype(dataset.dtype, numpy.floating):
            faults.append(f"{path}/{name} is of type {dataset.dtype}, not floating point")
        elif not numpy.isfinite(dataset[()]).all():
            faults.append(f"{path}/{name} holds values that are not finite")
    return faults


def check_moment(path, found, model):
    """One moment of the optimizer: a tensor of the same name and shape for each of the model's."""
    faults = [f"{path} has no '{name}'" for name in model if name not in found]
    faults += [f"{path}/{name} belongs to no tensor of /model" for name in found if name not in model]
    faults += [
        f"{path}/{name} has shape {found[name].shape}, /model/{name} {model[name].shape}"
        for name in found
        if name in model and found[name].shape != model[name].shape
    ]
    return faults + check_values(path, found)


def main():
    parser = argparse.ArgumentParser(description="Checks a Cistron checkpoint with h5py.")
    parser.add_argument("checkpoint")
    parser.add_argument("--final", action="store_true", help="a finished model: there must be no optimizer state")
    arguments = parser.parse_args()
    with h5py.File(arguments.checkpoint, "r") as file:
        meta = read_meta(file)
        model = tensors(file, "model")
        faults = check_meta(meta) + check_values("/model", model)
        if not model:
            faults.append("/model holds no tensor")
        if arguments.final:
            if "optim" in file:
                faults.append("a finished model holds /optim")
        else:
            second = tensors(file, "optim/v")
            faults += check_moment("/optim/m", tensors(file, "optim/m"), model)
            faults += check_moment("/optim/v", second, model)
            faults += [f"/optim/v/{name} holds negative values" for name, v in second.items() if (v[()] < 0).any()]
        for name, value in sorted(meta.items()):
            print(f"meta {name}: {f'{len(value)} characters' if name == 'deck' else value}")
        for name, dataset in model.items():
            print(f"model {name} {dataset.dtype} {list(dataset.shape)}")
        print(f"{len(model)} tensors, {sum(int(d.size) for d in model.values())} parameters")
    for fault in faults:
        print(f"{arguments.checkpoint}: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
