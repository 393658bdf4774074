#!/usr/bin/env python3
"""Reads a checkpoint with h5py: examples/read_checkpoint.py RUN/step_00000012.h5

A checkpoint is one HDF5 file, whatever the number of ranks that wrote it; doc/formats_checkpoints.md lists its
content. Weights have Hugging Face's names and shapes, so a model is read without Cistron. This program prints the
deck, the tensors and what AdamW knows of them. It needs h5py and numpy."""
import sys

import h5py
import numpy


def main(path):
    with h5py.File(path, "r") as file:
        meta = file["meta"].attrs  # numbers and texts about the training
        print(f"step {meta['step']} of a training on {meta['tokens']} tokens by {meta['ranks']} ranks")
        deck = meta["deck"]
        deck = deck.decode() if isinstance(deck, bytes) else deck
        print(f"deck of {len(deck.splitlines())} lines, with the keys that were left at their defaults")

        # /model is a flat group: names hold dots, not slashes. Matrices are [outputs, inputs] in f32, the masters.
        model = file["model"]
        moments = file.get("optim/v")  # absent in a final model and in an imported one
        for name, weight in model.items():
            values = weight[...]  # reads the tensor from the file
            line = f"{name:50} {str(weight.shape):14} rms {numpy.sqrt((values ** 2).mean()):.4f}"
            if moments is not None:
                # AdamW divides by the root of the second moment: it is the size of recent gradients.
                line += f"  gradient {numpy.sqrt(moments[name][...].mean()):.2e}"
            print(line)
        print(f"{sum(weight.size for weight in model.values())} parameters")

        # For PyTorch: {name: torch.from_numpy(weight[...]) for name, weight in model.items()} is a state dict with the
        # names of Hugging Face's models. `cistron export` writes a whole Hugging Face folder.


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
