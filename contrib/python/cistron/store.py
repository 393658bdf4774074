"""A token store of `cistron prepare`. doc/formats_stores.md describes the file."""
import numpy

from .hdf5 import File, Names, attributes

# Texts of the ids; special tokens as in the published vocabularies
ESM2 = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>".split()
AMPLIFY = "<pad> <unk> <mask> <bos> <eos> | L A G V S E R T I D P K Q N F Y M H W C B".split()


class Store(File):
    """Tokenized sequences by name or number:
    names       list of str
    lengths     int64 [sequences], tokens without special tokens
    tokenizer   str: nucleotide, nucleotide_mask, esm2, amplify, bpe-HASH, wordpiece-HASH, words-HASH
    classes     list of str, with labels: names of the classes, or of the numbers; else []
    attributes  dict: vocabulary, sequences, token_count, ..."""

    mark = "cistron_store"
    kind = "a token store"
    versions = (1, 2)  # 2: with labels

    def __init__(self, path):
        super().__init__(path)
        self.attributes = attributes(self.file)
        self.tokenizer = self.attributes["tokenizer"]
        self.names = self.file["names"][:].tobytes().decode(errors="surrogateescape").split("\n")[:-1]
        self._offsets = self.file["offsets"][:]
        self.classes = self.file["classes"][:].tobytes().decode().split("\n")[:-1] if "classes" in self.file else []
        self.lengths = numpy.diff(self._offsets)
        self._names = Names(self.path, self.names)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, key):
        """The token ids of a sequence: uint8, uint16 or uint32 [length]. key: name or number."""
        number = self._names.number(key)
        return self.file["tokens"][self._offsets[number]:self._offsets[number + 1]]

    def label(self, key):
        """The label of a sequence: its class (int, -100: none), its numbers (float32 [numbers]), or the classes of its
        tokens (int16 [length]). Raises KeyError without labels."""
        number, labels = self._names.number(key), self.file["labels"]
        if self.attributes["label_kind"] == "token":
            return labels[self._offsets[number]:self._offsets[number + 1]]
        if self.attributes["label_kind"] == "class":
            return int(labels[number])
        count = self.attributes["label_count"]
        return labels[number * count:(number + 1) * count]

    def text(self, key):
        """The characters of a sequence of bases or residues; ids without a character have the names of their tokens.
        Raises ValueError for a text tokenizer, whose files tokenizer_files() returns."""
        if self.tokenizer in ("nucleotide", "nucleotide_mask"):
            return self[key].tobytes().decode("latin-1")
        if self.tokenizer not in ("esm2", "amplify"):
            raise ValueError(f"{self.path}: the tokenizer is {self.tokenizer}: decode ids with its tokenizer_files()")
        vocabulary = ESM2 if self.tokenizer == "esm2" else AMPLIFY
        return "".join(vocabulary[token] for token in self[key])

    def tokenizer_files(self):
        """The files of a text tokenizer: a dict from their names to bytes."""
        return {name: item[:].tobytes() for name, item in self.file.get("tokenizer", {}).items()}
