"""What `cistron embed` writes: HDF5, or an array of NumPy with a table. doc/formats_results.md describes both."""
import csv
from pathlib import Path

import numpy

from .hdf5 import File, Names, attributes, texts


class Embeddings(File):
    """Vectors of records. Members for both formats:
    names       list of str, the records' names
    lengths     int64 [records], residues given to the model
    vectors     [records, hidden], per token [rows, hidden]; of several layers [.., layers, hidden]. A dataset of h5py
                or an array mapped from the file: index it, or read all with vectors[:]
    offsets     int64 [records + 1], rows of the records if there is a vector for each token; else None
    layers      int64 [layers], with --layers; None without, and for .npy, which does not have them
    attributes  dict: pool, checkpoint, step, ...; empty for .npy"""

    mark = "cistron_embeddings"
    kind = "embeddings"

    def __init__(self, path):
        if Path(path).suffix == ".npy":
            self._open_npy(path)
        else:
            super().__init__(path)
            self.attributes = attributes(self.file)
            self.names = texts(self.file["names"])
            self.lengths = self.file["lengths"][:]
            self.vectors = self.file["vectors"]
            self.offsets = self.file["offsets"][:] if "offsets" in self.file else None
            self.layers = self.attributes.get("layers")
        self._names = Names(self.path, self.names)

    def _open_npy(self, path):
        self.path, self.file, self.attributes, self.layers = str(path), None, {}, None
        self.vectors = numpy.load(path, mmap_mode="r")
        table = Path(path).with_suffix(".tsv")
        with open(table, encoding="utf-8", newline="\n") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        if not rows or rows[0] != ["name", "length", "row"]:
            raise ValueError(f"{table}: not the table of cistron embed: its columns are not name, length and row")
        self.names = [row[0] for row in rows[1:]]
        self.lengths = numpy.array([row[1] for row in rows[1:]], numpy.int64)
        first = numpy.array([row[2] for row in rows[1:]] + [len(self.vectors)], numpy.int64)
        if (numpy.diff(first) < 0).any():
            raise ValueError(f"{table}: rows are not those of {path}: it has {len(self.vectors)}")
        self.offsets = None if (numpy.diff(first) == 1).all() else first

    def close(self):
        if self.file:
            self.file.close()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, key):
        """A record's vector [hidden], or vectors of all its tokens, special tokens included [tokens, hidden]; with
        --layers [layers, hidden], [tokens, layers, hidden]. key: name or number."""
        number = self._names.number(key)
        if self.offsets is None:
            return self.vectors[number]
        return self.vectors[self.offsets[number]:self.offsets[number + 1]]

    def residues(self, key):
        """The vectors of a record's residues [length, hidden], special tokens left out. Needs --pool none."""
        if self.offsets is None:
            raise ValueError(f"{self.path}: has one vector for each record, not one for each token (--pool none)")
        number = self._names.number(key)
        first = self.attributes.get("begin_tokens", 1)  # of all models; .npy does not have the attribute
        return self[number][first:first + self.lengths[number]]

    def contacts(self, key):
        """The probabilities that a record's residues i and j touch [length, length]. Needs --contacts."""
        if self.file is None or "contacts" not in self.file:
            raise ValueError(f"{self.path}: has no contacts (--contacts)")
        number = self._names.number(key)
        length = int(self.lengths[number])
        first = int((self.lengths[:number] ** 2).sum())
        return self.file["contacts"][first:first + length * length].reshape(length, length)
