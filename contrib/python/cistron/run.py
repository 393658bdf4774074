"""A run's folder (output.folder) and its log. doc/formats_logs.md lists events and their members."""
import json
import re
from pathlib import Path

from .checkpoint import Checkpoint


def read_log(path, event=None):
    """The lines of a log.jsonl as a list of dicts, in order; with `event` only lines of that event. A last line without
    newline, which a live run is writing, is left out. Raises ValueError with file and line for another damaged line."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                break
            try:
                members = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: not a line of JSON: {error}") from None
            if event is None or members.get("event") == event:
                lines.append(members)
    return lines


class Run:
    """The folder of a run, finished or live."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if not (self.folder / "log.jsonl").is_file():
            raise FileNotFoundError(f"{folder}: not a run: log.jsonl is missing")

    @property
    def deck(self):
        """The text of the effective deck."""
        return (self.folder / "deck.cfg").read_text(encoding="utf-8")

    def log(self, event=None):
        """The log's lines as a list of dicts; event: `step`, `validation`, `checkpoint`, `start`, `end`, ..."""
        return read_log(self.folder / "log.jsonl", event)

    def frame(self, event="step"):
        """The log's lines of one event as a pandas DataFrame, members as columns. Needs pandas."""
        import pandas

        return pandas.DataFrame(self.log(event))

    def steps(self):
        """The steps of the folder's checkpoints, in ascending order."""
        found = (re.fullmatch(r"step_(\d{8,})\.h5", path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def checkpoint(self, step=None):
        """The checkpoint of `step`, or the latest one. The caller closes it."""
        if step is None:
            steps = self.steps()
            if not steps:
                raise FileNotFoundError(f"{self.folder}: no checkpoint")
            step = steps[-1]
        return Checkpoint(self.folder / f"step_{step:08d}.h5")

    def final_model(self):
        """The model at the end of the run, without moments. The caller closes it."""
        return Checkpoint(self.folder / "final_model.h5")
