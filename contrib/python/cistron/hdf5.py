"""Shared code of the readers: opening an HDF5 file of a known kind, its strings, and records by name or number."""
import h5py


def text(value):
    """The str of an HDF5 string, which h5py returns as bytes or str."""
    return value.decode() if isinstance(value, bytes) else value


def texts(dataset):
    """The list of str of a one-dimensional dataset of strings."""
    return [text(value) for value in dataset[:].tolist()]


def attributes(item):
    """The attributes of a group or file as a dict of Python's int, float and str, and of numpy arrays."""
    values = {}
    for name, value in item.attrs.items():
        if getattr(value, "ndim", None) == 0:
            value = value.item()
        values[name] = text(value)
    return values


class File:
    """An open HDF5 file whose root attribute `mark` is its format version, one of `versions`. Raises ValueError for a file of another kind or version, OSError for one that h5py cannot open."""

    mark = ""
    kind = ""
    versions = (1,)

    def __init__(self, path):
        self.path = str(path)
        self.file = h5py.File(path, "r")
        version = self.file.attrs.get(self.mark)
        if version is None or version not in self.versions:
            self.file.close()
            if version is None:
                raise ValueError(f"{path}: not {self.kind}: attribute {self.mark} is missing")
            known = " and ".join(str(known) for known in self.versions)
            raise ValueError(f"{path}: format version {version} of {self.kind}, this package reads version {known}")

    def close(self):
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Names:
    """The numbers of records by name. FASTA allows equal names, so a name that several records have is refused."""

    def __init__(self, path, names):
        self.path = path
        self.count = len(names)
        self.numbers = {}
        for number, name in enumerate(names):
            self.numbers.setdefault(name, []).append(number)

    def number(self, key):
        """The number from 0 of the record `key`: a name, or a number, negative ones counted from the end. Raises
        KeyError for a name that is missing or ambiguous, IndexError for a number out of range."""
        if isinstance(key, str):
            found = self.numbers.get(key, [])
            if len(found) != 1:
                why = "no record has this name" if not found else f"{len(found)} records have this name, use numbers"
                raise KeyError(f"{self.path}: {key}: {why}")
            return found[0]
        number = int(key) + (self.count if key < 0 else 0)
        if not 0 <= number < self.count:
            raise IndexError(f"{self.path}: record {key} of {self.count}")
        return number
