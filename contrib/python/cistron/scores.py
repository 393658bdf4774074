"""What `cistron score` writes: scores of variants (text or HDF5) and of positions (HDF5). doc/score.md explains the
methods, doc/formats_results.md the files."""
import csv

import h5py
import numpy

from .hdf5 import File, Names, attributes, texts

METHODS = ("masked-marginals", "masked-together", "wt-marginals", "pseudo-log-likelihood", "pseudo-perplexity",
           "log-likelihood-ratio")


class Scores:
    """Scores of variants, read from text (CSV, TSV, semicolons) or HDF5 and kept in memory:
    names       list of str, records of the variants; None if a text has no column for them (one record)
    mutations   list of str: A42G, A42G:L50P, WT, as in the table; of a VCF REF, POS and ALT joined, NCT10N
    methods     list of str; of a text with one method `score`, the name of its column
    scores      float64 [variants, methods]; NaN where a text has an empty cell
    measured    float64 [variants], or None
    columns     dict from the names of all columns of a text to lists of str; None for HDF5
    attributes  dict of an HDF5 file: checkpoint, method, context, ...; empty for text"""

    def __init__(self, path, measured="DMS_score"):
        """measured: the text's column of measured values, if it is there; HDF5 has them under no name."""
        self.path = str(path)
        self.columns, self.attributes, self.measured, self.names = None, {}, None, None
        if h5py.is_hdf5(path):
            self._read_hdf5(path)
        else:
            self._read_text(path, measured)

    def _read_hdf5(self, path):
        with _ScoresFile(path) as opened:
            file = opened.file
            if "scores" not in file:
                raise ValueError(f"{path}: has scores of positions, not of variants: use Positions")
            self.attributes = attributes(file)
            self.names, self.mutations, self.methods = (texts(file[name]) for name in ("names", "mutations", "methods"))
            self.scores = file["scores"][:]
            if "measured" in file:
                self.measured = file["measured"][:]

    def _read_text(self, path, measured):
        with open(path, encoding="utf-8", newline="") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            file.seek(0)
            head, *rows = list(csv.reader(file, delimiter=delimiter)) or [[]]
        # cistron score appends its columns: one `score`, or one for each method
        first = len(head)
        while first > 0 and head[first - 1] in METHODS:
            first -= 1
        if head and head[-1] == "score":
            first = len(head) - 1
        if first == len(head):
            raise ValueError(f"{path}: no column of cistron score at the end: {', '.join(head)}")
        self.methods = head[first:]
        self.scores = numpy.array([[_number(cell) for cell in row[first:]] for row in rows]).reshape(len(rows), -1)
        self.columns = {name: [row[at] for row in rows] for at, name in enumerate(head)}
        if "chrom" in self.columns:
            self.names = self.columns["chrom"]
            parts = zip(*(self.columns[name] for name in ("ref", "pos", "alt")))
            self.mutations = ["".join(part) for part in parts]
        else:
            self.names = self.columns.get("name")
            column = "mutation" if "mutation" in self.columns else "mutant"
            if column not in self.columns:
                raise ValueError(f"{path}: a column mutation or mutant is missing: {', '.join(head)}")
            self.mutations = self.columns[column]
        if measured in self.columns:
            self.measured = numpy.array([_number(cell) for cell in self.columns[measured]])

    def __len__(self):
        return len(self.mutations)

    def __getitem__(self, method):
        """The scores of one method, float64 [variants]."""
        if method not in self.methods:
            raise KeyError(f"{self.path}: {method}: its methods are {', '.join(self.methods)}")
        return self.scores[:, self.methods.index(method)]

    def frame(self):
        """A pandas DataFrame with columns name, mutation, measured (those that there are) and the methods."""
        import pandas

        columns = {"name": self.names, "mutation": self.mutations, "measured": self.measured}
        columns.update((method, self[method]) for method in self.methods)
        return pandas.DataFrame({name: values for name, values in columns.items() if values is not None})


class _ScoresFile(File):
    mark = "cistron_scores"
    kind = "scores"


class Positions(_ScoresFile):
    """Logits and log-probabilities of all tokens at all positions (--positions OUT.h5):
    names    list of str
    lengths  int64 [records], letters
    tokens   list of str, the vocabulary: columns of the arrays"""

    def __init__(self, path):
        super().__init__(path)
        if "log_probabilities" not in self.file:
            self.close()
            raise ValueError(f"{path}: has scores of variants, not of positions: use Scores")
        self.attributes = attributes(self.file)
        self.names, self.tokens = texts(self.file["names"]), texts(self.file["tokens"])
        self.lengths, self._offsets = self.file["lengths"][:], self.file["offsets"][:]
        self._names = Names(self.path, self.names)

    def __len__(self):
        return len(self.names)

    def _rows(self, key):
        number = self._names.number(key)
        return slice(self._offsets[number], self._offsets[number + 1])

    def log_probabilities(self, key):
        """float32 [length, vocabulary] of a record, in nats. key: name or number."""
        return self.file["log_probabilities"][self._rows(key)]

    def logits(self, key):
        """float32 [length, vocabulary] of a record."""
        return self.file["logits"][self._rows(key)]

    def wild_type(self, key):
        """The letters of a record as str."""
        return b"".join(self.file["wild_type"][self._rows(key)].tolist()).decode()


def _number(cell):
    return float("nan") if cell.strip() in ("", "NA") else float(cell)
