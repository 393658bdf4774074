"""Small trainings for drills: their data and deck, one start of the program and its processes, and what its folder
holds."""
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = 90      # seconds, for anything
TIMEOUT = 5        # seconds: comm.timeout where a rank stands still for good
KEPT = 3           # checkpoints
STOPS = {"term": signal.SIGTERM, "int": signal.SIGINT, "hup": signal.SIGHUP, "usr1": signal.SIGUSR1}


class Wrong(Exception):
    pass


# -- A run's folder ------------------------------------------------------------------------------------------------------

def events(folder):
    """The whole lines of its log."""
    try:
        with open(os.path.join(folder, "log.jsonl")) as log:
            return [json.loads(line) for line in log if line.endswith("\n")]
    except FileNotFoundError:
        return []


def logged(folder):
    return max((e["step"] for e in events(folder) if e["event"] == "step"), default=0)


def checkpoints(folder):
    """Steps that have a file, in order."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(m.group(1)) for m in (re.fullmatch(r"step_0*(\d+)\.h5", name) for name in names) if m)


def result(folder):
    """What must be equal in the end: each step's loss, as it is written, and the digest of the last state."""
    found = events(folder)
    losses = [(e["step"], e["loss"]) for e in found if e["event"] == "step"]
    digests = {e["digest"] for e in found if e["event"] == "checkpoint" and e["step"] == losses[-1][0]}
    return losses, digests


# -- What trainings share -------------------------------------------------------------------------------------------------

class Workshop:
    """A build, a folder to work in, data, and a deck of a tiny Llama. `settings`: more keys of every training; `ranks`:
    the most that a training may have."""

    def __init__(self, build, work, settings, ranks, steps, save_every):
        self.work, self.settings, self.ranks, self.steps = work, settings, ranks, steps
        self.cistron = os.path.join(build, "cistron")
        self.shim = os.path.join(build, "tests", "shim.so")
        self.deck = os.path.join(work, "deck.cfg")
        self.mpirun = shlex.split(os.environ.get("MPIRUN", "mpirun --oversubscribe --bind-to none"))
        own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_odls_base_sigkill_timeout": "0"}
        self.environment = {**os.environ, **own}
        self.references = {}
        for name, seed in (("g", 0), ("other", 1)):
            self.prepare(name, seed)
        with open(self.deck, "w") as deck:
            deck.write("""
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; kv_heads = 2; };
data = { train = "%s/g.h5"; valid = "%s/g.h5"; row_tokens = 64; };
train = { steps = %d; global_batch = 7; micro_batch = 2; };
schedule = { warmup = 3; };
validation = { every = 50; rows = 16; };
checkpoint = { every = %d; keep = %d; };
log = { every = 1; };
device = { threads = 1; };
""" % (work, work, steps, save_every, KEPT))

    def prepare(self, name, seed):
        """NAME.h5: as large for one seed as for another."""
        draw = random.Random(seed)
        fasta = os.path.join(self.work, name + ".fa")
        with open(fasta, "w") as out:
            for length in (300, 7000, 20000, 90, 11000):
                out.write(">r\n%s\n" % "".join(draw.choice("ACGTACA") for _ in range(length)))
        subprocess.run([self.cistron, "prepare", "--tokenizer", "nucleotide", "-o",
                        os.path.join(self.work, name + ".h5"), fasta], check=True, stdout=subprocess.DEVNULL)

    def start(self, folder, ranks, settings=(), environment=None):
        return Run(self, folder, ranks, [*self.settings, *settings], environment or {})

    def reference(self, ranks):
        """The result of a run on so many ranks that nobody touched."""
        if ranks not in self.references:
            folder = os.path.join(self.work, "whole.%d" % ranks)
            run = self.start(folder, ranks)
            if run.end() != 0:
                raise Wrong("a run that nobody touches fails:\n" + run.text())
            self.references[ranks] = result(folder)
        return self.references[ranks]

    def finish(self, folder, ranks):
        """Starts a run again, which must go on to its end."""
        run = self.start(folder, ranks)
        if run.end() != 0:
            raise Wrong("it does not go on to its end:\n" + run.text())

    def check_equal(self, folder, ranks):
        if result(folder) != self.reference(ranks):
            raise Wrong("losses or digest are not those of a run that nobody touched: %s against %s" %
                        (folder, os.path.join(self.work, "whole.%d" % ranks)))


class Run:
    """One start of the program: a process of its own, or a launcher and its ranks."""

    def __init__(self, shop, folder, ranks, settings, environment):
        self.folder, self.ranks = folder, ranks
        self.pids = os.path.join(shop.work, "pids")
        shutil.rmtree(self.pids, ignore_errors=True)
        os.mkdir(self.pids)
        command = [shop.cistron, "train", shop.deck, "output.folder=" + folder, *settings]
        start = ["sh", "-c", 'echo $$ >"$0/${OMPI_COMM_WORLD_RANK-0}.tmp"; '
                 'mv "$0/${OMPI_COMM_WORLD_RANK-0}.tmp" "$0/${OMPI_COMM_WORLD_RANK-0}"; exec "$@"', self.pids]
        if ranks > 1:
            start = shop.mpirun + ["-n", str(ranks)] + start
        self.output = tempfile.TemporaryFile("w+", dir=shop.work)
        self.process = subprocess.Popen(start + command, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, env={**shop.environment, **environment},
                                        preexec_fn=default_signals)

    def over(self):
        return self.process.poll() is not None

    def await_that(self, condition):
        """False when the run is over first."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.over():
                return False
            if time.monotonic() > end:
                raise Wrong("nothing happens")
            time.sleep(0.005)
        return True

    def rank_pids(self):
        names = [name for name in os.listdir(self.pids) if not name.endswith(".tmp")]
        return {int(name): int(open(os.path.join(self.pids, name)).read()) for name in names}

    def started(self):
        return self.await_that(lambda: len(self.rank_pids()) == self.ranks)

    def send(self, number, rank):
        try:
            os.kill(self.rank_pids()[rank], number)
        except ProcessLookupError:
            pass

    def left(self):
        """Ranks whose processes are there; a zombie is not."""
        return {rank for rank, pid in self.rank_pids().items() if status(pid, "State") not in ("", "Z")}

    def kill_all(self):
        for rank in self.rank_pids():
            self.send(signal.SIGKILL, rank)
        self.process.kill()

    def end(self):
        """Its exit code, once all its processes are gone."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Wrong("it does not end")
        end = time.monotonic() + PATIENCE
        while any(os.path.exists("/proc/%d" % pid) for pid in self.rank_pids().values()):
            if time.monotonic() > end:
                raise Wrong("a rank is left")
            time.sleep(0.01)
        return code

    def lines(self):
        self.output.seek(0)
        return self.output.readlines()

    def text(self):
        """The end of its output."""
        return "".join(self.lines()[-40:])


def default_signals():
    for number in STOPS.values():
        signal.signal(number, signal.SIG_DFL)


def status(pid, field):
    """The first word of a line of /proc/PID/status; "" when the process is gone."""
    try:
        with open("/proc/%d/status" % pid) as lines:
            return next(line for line in lines if line.startswith(field + ":")).split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def listens(pid):
    """Does the program wait to hear signals, or is it gone?"""
    blocked = status(pid, "SigBlk")
    return blocked == "" or int(blocked, 16) & (1 << (signal.SIGUSR1 - 1)) != 0
