"""A checkpoint, a final model or an imported model. doc/formats_checkpoints.md lists what the file has."""
from collections.abc import Mapping

import numpy

from .hdf5 import File, attributes, text

# safetensors' names of element types; numpy does not have BF16
CARRIED_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
                 "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}


def from_bf16(values):
    """The float32 array of bf16 numbers given as uint16. Exact: bf16 is the upper half of float32."""
    return (numpy.asarray(values, "<u2").astype("<u4") << 16).view("<f4")


class Checkpoint(File, Mapping):
    """A mapping from the names of tensors (those of Hugging Face's models) to numpy arrays, read when asked for:
    matrices [outputs, inputs], vectors [columns]. Masters are float32; bf16 of a rewritten file becomes float32."""

    mark = "cistron_checkpoint"
    kind = "a checkpoint or model"

    def __init__(self, path):
        super().__init__(path)
        self.meta = attributes(self.file["meta"])  # step, tokens, seed, tokenizer, ... and the deck's text
        self.data = attributes(self.file["data"]) if "data" in self.file else {}  # position in the training data

    def __getitem__(self, name):
        return self._read("model", name)

    def __iter__(self):
        return iter(self.file["model"])

    def __len__(self):
        return len(self.file["model"])

    def __contains__(self, name):
        return name in self.file["model"]

    @property
    def step(self):
        """Steps done; 0 in an imported file."""
        return self.meta["step"]

    @property
    def deck(self):
        """The text of the effective deck."""
        return self.meta["deck"]

    @property
    def digest(self):
        """The digest of weights and moments, 16 hexadecimal digits as in log.jsonl; None in a file without one."""
        digest = self.meta.get("digest")
        return None if digest is None else f"{digest & 0xffffffffffffffff:016x}"

    def shape(self, name):
        """The shape of a tensor, without reading it."""
        return self.file["model"][name].shape

    def moments(self, name):
        """AdamW's first and second moment of a tensor, or None in a file without them (final and imported models)."""
        return (self._read("optim/m", name), self._read("optim/v", name)) if "optim" in self.file else None

    def carried(self):
        """The names of the imported model's tensors that are not trained but kept."""
        return list(self.file["carried"]) if "carried" in self.file else []

    def carried_tensor(self, name):
        """A kept tensor as numpy array of its own type; BF16 becomes float32. Raises ValueError for other types."""
        dataset = self.file["carried"][name]
        dtype = text(dataset.attrs["dtype"])
        shape = tuple(numpy.atleast_1d(dataset.attrs.get("shape", ())).astype(int))
        if dtype == "BF16":
            return from_bf16(dataset[:].view("<u2")).reshape(shape)
        if dtype not in CARRIED_TYPES:
            raise ValueError(f"{self.path}: {name}: numpy does not have the type {dtype}")
        return dataset[:].view(CARRIED_TYPES[dtype]).reshape(shape)

    def tokenizer_files(self):
        """The files of a text model's tokenizer: a dict from their names to bytes."""
        return {name: item[:].tobytes() for name, item in self.file.get("tokenizer", {}).items()}

    def _read(self, group, name):
        # numpy does not have bf16: HDF5 converts any float type of at most four bytes to float32
        dataset = self.file[group][name]
        size = dataset.id.get_type().get_size()
        return dataset[...] if size >= 4 else dataset.astype("float32")[...]
