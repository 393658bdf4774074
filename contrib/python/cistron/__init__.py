"""Readers for the files of Cistron. Each class reads one kind of file and computes nothing: doc/formats.md of Cistron
describes the files. Classes that keep an HDF5 file open are context managers and have close()."""
from .checkpoint import Checkpoint
from .embeddings import Embeddings
from .run import Run, read_log
from .scores import Positions, Scores
from .store import Store

__all__ = ["Checkpoint", "Embeddings", "Positions", "Run", "Scores", "Store", "read_log"]
