"""Hundreds of failures, unattended: jobscripts/supervise trains on simulated hosts (tests/simulated_host) with spare ones,
and starts the run again after each failure. In the end losses and digest must be, bit for bit, those of a run that nobody
touched. Layouts take turns. Needs Open MPI 4 and, for simulated hosts and a full file system, the rights to unshare and to
mount.

Kinds. kill, segv, abort (a signal to one rank), launcher (SIGKILL to mpirun), vanish (SIGKILL to the daemon and all ranks of
a host, which then answers no more), freeze (SIGSTOP to them), hang (SIGSTOP to one rank, for which a collective of the others
waits until comm.timeout), full (a file takes all space of the run's file system until the run has failed), flip (a flipped
bit in the newest checkpoint, then kill)."""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

from training import Wrong, checkpoints, events, logged, result

HANG_SECONDS = 10  # comm.timeout
PATIENCE = 1800    # seconds, for anything: the machine may be loaded
# name, hosts, ranks of a host, keys
LAYOUTS = [
    ("replicas", 2, 1, ["parallel.shard=none"]),
    ("optimizer", 2, 1, ["parallel.shard=optimizer"]),
    ("gradients", 1, 2, ["parallel.shard=gradients"]),
    ("full", 2, 1, ["parallel.shard=full"]),
    ("hybrid", 2, 2, ["parallel.shard=full", "parallel.shard_size=2"]),
    ("tensor", 1, 2, ["parallel.tensor=2"]),
    ("pipeline", 2, 1, ["parallel.pipeline=2"]),
    ("ring", 2, 1, ["parallel.context=2", "parallel.context_method=ring"]),
    ("heads", 1, 2, ["parallel.context=2", "parallel.context_method=heads"]),
    ("gather_full", 2, 1, ["parallel.context=2", "parallel.context_method=gather", "parallel.shard=full"]),
    ("tensor_pipeline", 2, 2, ["parallel.tensor=2", "parallel.pipeline=2"]),
    ("tensor_optimizer", 2, 2, ["parallel.tensor=2", "parallel.shard=optimizer"]),
    ("pipeline_optimizer", 2, 2, ["parallel.pipeline=2", "parallel.shard=optimizer"]),
    ("pipeline_context", 2, 2, ["parallel.pipeline=2", "parallel.context=2"]),
    ("bf16_delayed", 2, 1, ["precision.compute=bf16", "precision.recipe=delayed", "parallel.shard=full"]),
]
# How often each kind is drawn; a frozen host and a hung rank cost comm.timeout each.
WEIGHTS = {"kill": 5, "segv": 3, "abort": 3, "launcher": 2, "vanish": 5, "freeze": 1, "hang": 1, "full": 4, "flip": 5}
SIGNALS = {"kill": signal.SIGKILL, "flip": signal.SIGKILL, "segv": signal.SIGSEGV, "abort": signal.SIGABRT,
           "hang": signal.SIGSTOP}


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait_for(condition, over=lambda: False):
    """False when it is over first."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if over():
            return False
        if time.monotonic() > end:
            raise Wrong("nothing happens")
        time.sleep(0.02)
    return True


class Supervised:
    """A supervised run on simulated hosts, of which `spares` are spare."""

    def __init__(self, shop, top, folder, layout, spares, environment):
        name, self.count, per_host, keys = layout
        self.folder = folder
        self.agent = os.path.join(top, "tests", "simulated_host")
        self.down = tempfile.mkdtemp(prefix="down.", dir=shop.work)
        stem = "h%d%s" % (os.getpid(), os.path.basename(self.down)[-3:].replace("_", "x"))
        self.hosts = ["%s-%d" % (stem, i) for i in range(self.count + spares)]
        self.output = tempfile.NamedTemporaryFile("w+", dir=shop.work, prefix=name + ".")
        own = {"SIMULATED_DOWN": self.down, "OMPI_MCA_plm_rsh_agent": self.agent, "OMPI_MCA_pml": "ob1",
               "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "1",
               "CISTRON": shop.cistron, "CISTRON_PAUSE": "0", "CISTRON_GRACE": "2", "CISTRON_LIVES": "10"}
        self.process = subprocess.Popen(
            [os.path.join(top, "jobscripts", "supervise"), "-n", str(per_host), "--hosts", ",".join(self.hosts),
             "--spares", str(spares), shop.deck, "output.folder=" + folder, "comm.timeout=%d" % HANG_SECONDS,
             *shop.settings, *keys],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
            env={**shop.environment, **own, **environment})

    def over(self):
        return self.process.poll() is not None

    def text(self):
        with open(self.output.name, errors="replace") as output:
            return output.read()

    def life(self):
        """The number of the current start, and its hosts."""
        found = re.findall(r"^# exit code \d+: start (\d+) of this job, on .* nodes: (.*)$", self.text(), re.M)
        return (int(found[-1][0]), found[-1][1].split()) if found else (1, self.hosts[:self.count])

    def processes(self, host):
        done = subprocess.run([self.agent, "--processes", host], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]

    def ranks(self, host):
        return [pid for pid in self.processes(host) if command(pid) == "cistron"]

    def kill_all(self):
        self.process.kill()
        for host in self.hosts:
            for pid in self.processes(host):
                send(pid, signal.SIGKILL)


def command(pid):
    try:
        with open("/proc/%d/comm" % pid) as name:
            return name.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid):
    """The processes that it has started, and those that these have."""
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    own = [int(child) for child in done.stdout.split()]
    return own + [child for parent in own for child in children(parent)]


def flip_bit(draw, folder):
    steps = checkpoints(folder)
    if len(steps) < 2:
        return
    with open(os.path.join(folder, "step_%08d.h5" % steps[-1]), "r+b") as file:
        place = draw.randrange(os.path.getsize(file.name))
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << draw.randrange(8))]))


def fill(path):
    """Takes all space of the file system."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


class Failures:
    """failures: of all layouts together; until: time.time() at which no other layout is begun, or None; layouts: some of
    LAYOUTS."""

    def __init__(self, shop, top, seed, failures, slow, until, layouts):
        self.layouts = layouts
        self.shop, self.top, self.seed, self.failures, self.until = shop, top, seed, failures, until
        self.environment = {"CISTRON_WRAPPER": "env LD_PRELOAD=%s SHIM_SLOW=%g" % (shop.shim, slow)}
        self.counts = dict.fromkeys(WEIGHTS, 0)
        self.shares = []  # seconds of steps that count, seconds of wall clock

    def undisturbed(self, layout):
        folder = os.path.join(self.shop.work, "whole." + layout[0])
        run = Supervised(self.shop, self.top, folder, layout, 0, {})
        try:
            if not wait_for(run.over) or run.process.returncode != 0:
                raise Wrong("a run that nobody touches fails:\n" + run.text()[-3000:])
        finally:
            run.kill_all()
        return result(folder)

    def strike(self, run, kind, draw):
        """One failure of this kind in the current start. Returns what to do once the start has ended."""
        life, hosts = run.life()
        host = draw.choice(hosts)
        ranks = run.ranks(host)
        if not ranks:
            return None
        if kind in SIGNALS:
            if kind == "flip":
                flip_bit(draw, run.folder)
            pid = draw.choice(ranks)
            send(pid, SIGNALS[kind])
            return lambda: send(pid, signal.SIGKILL)
        if kind == "launcher":
            for pid in children(run.process.pid):
                if command(pid) == "mpirun":
                    send(pid, signal.SIGKILL)
            return lambda: None
        if kind == "full":
            filler = os.path.join(os.path.dirname(run.folder), "filler")
            fill(filler)
            wait_for(lambda: re.search("No space left|free some space", run.text()[self.seen:]),
                     lambda: run.over() or run.life()[0] > life)
            os.remove(filler)
            return lambda: None
        if kind == "vanish":
            open(os.path.join(run.down, host), "w").close()
        pids = run.processes(host)
        for pid in pids:
            send(pid, signal.SIGKILL if kind == "vanish" else signal.SIGSTOP)
        return lambda: [send(pid, signal.SIGKILL) for pid in pids]

    def disturbed(self, layout, number, failures):
        draw = random.Random("%d %s %d" % (self.seed, layout[0], number))
        weights = dict(WEIGHTS)
        if layout[1] == 1:
            del weights["freeze"]  # nobody is left who would notice
        disk = os.path.join(self.shop.work, "disk")
        os.makedirs(disk, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "cistron-drill", disk], check=True)
        run = Supervised(self.shop, self.top, os.path.join(disk, "run"), layout, failures + 2, self.environment)
        struck = 0
        try:
            while struck < failures:
                life = run.life()[0]
                started = lambda: sum(e["event"] == "start" for e in events(run.folder)) >= 1 and run.life()[0] == life
                aim = max(checkpoints(run.folder), default=0) + draw.randint(1, 4)
                if not wait_for(lambda: started() and logged(run.folder) >= aim,
                                lambda: run.over() or run.life()[0] > life):
                    if run.over():
                        break
                    continue  # it has failed by itself, such as by comm.timeout on a loaded machine
                kind = draw.choices(list(weights), weights.values())[0]
                self.seen = len(run.text())
                after = self.strike(run, kind, draw)
                if after is None:
                    continue
                if not wait_for(lambda: run.life()[0] > life, run.over):
                    break
                after()
                struck += 1
                self.counts[kind] += 1
            wait_for(run.over)
            self.check(run, layout)
            return struck, run.life()[0]
        except Wrong as wrong:
            raise Wrong("%s: %s\n%s" % (layout[0], wrong, run.text()[-3000:]))
        finally:
            run.kill_all()
            time.sleep(0.5)
            subprocess.run(["umount", disk], check=False)

    def check(self, run, layout):
        if run.process.returncode != 0:
            raise Wrong("exit code %d" % run.process.returncode)
        if result(run.folder) != self.whole:
            raise Wrong("losses or digest are not those of a run that nobody touched")
        found = events(run.folder)
        begun = next(e["begun"] for e in found if e["event"] == "start")
        last = [e for e in found if e["event"] == "step"][-1]
        self.shares.append((last["effective_time"] * (last["time"] - begun), last["time"] - begun))
        report = subprocess.run([self.shop.cistron, "report", run.folder], capture_output=True, text=True, check=True)
        self.report = report.stdout

    def all(self):
        """Returns what was found."""
        each = -(-self.failures // len(self.layouts))
        done = lives = number = 0
        for layout in self.layouts:
            if done >= self.failures or (self.until is not None and time.time() > self.until):
                break
            number += 1
            begun = time.monotonic()
            self.whole = self.undisturbed(layout)
            struck, starts = self.disturbed(layout, number, min(each, self.failures - done))
            done += struck
            lives += starts
            print("    %-18s %3d failures, %3d starts, %4.0f s, effective time %4.1f %%: losses and digest equal" %
                  (layout[0], struck, starts, time.monotonic() - begun, 100 * self.shares[-1][0] / self.shares[-1][1]),
                  flush=True)
            shutil.rmtree(os.path.join(self.shop.work, "whole." + layout[0]))
        steps, wall = (sum(part) for part in zip(*self.shares))
        return "%d failures in %d layouts, %d starts; effective time %.1f %%; %s" % (
            done, number, lives, 100 * steps / wall, ", ".join("%s %d" % pair for pair in self.counts.items()))
