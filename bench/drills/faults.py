"""What else befalls a run: each must be told in one clear line, and no work beyond the last save be lost. Each function
is a drill; it returns what the program said."""
import os
import re
import shutil
import signal
import subprocess

from training import TIMEOUT, Wrong, checkpoints, logged

RANKS = 2
MORE = 3


def say(run, pattern):
    """The line of its output that has the pattern, which must be the only one."""
    lines = [line.strip() for line in run.lines() if re.search(pattern, line)]
    if len(lines) != 1:
        raise Wrong("%d lines have %r:\n%s" % (len(lines), pattern, run.text()))
    return lines[0]


def ends(run, *wanted):
    code = run.end()
    if code not in wanted:
        raise Wrong("exit code %d, not one of %s:\n%s" % (code, wanted, run.text()))


def under_way(shop, folder, settings=(), environment=None, ranks=RANKS):
    """A run that has saved once."""
    slow = {"LD_PRELOAD": shop.shim, "SHIM_SLOW": "2e-4"}  # not at its end before this looks
    run = shop.start(folder, ranks, settings, {**slow, **(environment or {})})
    if not run.await_that(lambda: checkpoints(folder) and logged(folder) > checkpoints(folder)[-1]):
        raise Wrong("it ends too early:\n" + run.text())
    return run


def hung(shop):
    """A rank stands still for good."""
    folder, ranks = os.path.join(shop.work, "hung"), min(MORE, shop.ranks)
    run = under_way(shop, folder, ["comm.timeout=%d" % TIMEOUT], ranks=ranks)
    run.send(signal.SIGSTOP, 1)
    run.await_that(lambda: run.left() <= {1})
    run.send(signal.SIGCONT, 1)
    ends(run, 1)
    found = say(run, r"number \d+ .*has not finished .*\(comm.timeout\); missing: rank 1 on \S+$")
    shop.finish(folder, ranks)
    shop.check_equal(folder, ranks)
    return found


def build(shop):
    """One rank runs another build: a copy with another build ID."""
    notes = subprocess.run(["readelf", "-n", shop.cistron], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: (\w+)", notes)
    if not found:
        raise Wrong("%s has no build ID" % shop.cistron)
    own = bytes.fromhex(found.group(1))
    other = os.path.join(shop.work, "other")
    with open(shop.cistron, "rb") as program:
        content = program.read()
    if content.count(own) != 1:
        raise Wrong("%s has its build ID %d times" % (shop.cistron, content.count(own)))
    with open(other, "wb") as program:
        program.write(content.replace(own, own[::-1]))
    os.chmod(other, 0o755)
    folder = os.path.join(shop.work, "mixed")
    words = ["train", shop.deck, "output.folder=" + folder, *shop.settings]
    done = subprocess.run([*shop.mpirun, "-n", "1", shop.cistron, *words, ":", "-n", "1", other, *words],
                          env=shop.environment, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if "another build" in line]
    if done.returncode != 2 or len(lines) != 1 or os.path.exists(folder):
        raise Wrong("exit code %d: %s" % (done.returncode, done.stderr))
    return lines[0]


def store(shop):
    """The token store is replaced, overwritten, cut short."""
    path, kept, other = (os.path.join(shop.work, name + ".h5") for name in ("g", "kept", "other"))
    shutil.copy(path, kept)
    found = []
    # another file in its place: the run goes on with what it has open, and cannot be continued with the other
    folder = os.path.join(shop.work, "replaced")
    run = under_way(shop, folder)
    shutil.copy(other, path + ".tmp")
    os.rename(path + ".tmp", path)
    ends(run, 0)
    found.append(say(run, "was replaced or removed while the run was reading it"))
    run = shop.start(folder, RANKS, ["train.steps=%d" % (shop.steps + 10)])
    ends(run, 2)
    shutil.copy(kept, path)
    shop.check_equal(folder, RANKS)
    # other content in the same file: nothing that was learned of it is saved, and no run goes on with it
    folder = os.path.join(shop.work, "overwritten")
    run = under_way(shop, folder, ["checkpoint.on_failure=continue"])
    with open(other, "rb") as content, open(path, "r+b") as file:
        file.write(content.read())
    ends(run, 2)
    found.append(say(run, "was overwritten with other data while the run was reading it"))
    shutil.copy(kept, path)
    # a save may have been on its way when the file was written to: that one cannot be trusted
    last = os.path.join(folder, "step_%08d.h5" % checkpoints(folder)[-1])
    if len(checkpoints(folder)) > 1:
        os.remove(last)
    shop.finish(folder, RANKS)
    shop.check_equal(folder, RANKS)
    folder = os.path.join(shop.work, "cut")
    run = under_way(shop, folder)
    os.truncate(path, 0)
    ends(run, 1, 2)  # when it is read, or before a save, whichever comes first
    found.append(say(run, "was truncated while it was open|was overwritten with other data while the run was reading it"))
    if any(line.startswith("last launches") for line in run.lines()):
        raise Wrong("the flight recorder says nothing here:\n" + run.text())
    shutil.copy(kept, path)
    shop.finish(folder, RANKS)
    shop.check_equal(folder, RANKS)
    return "\n    ".join(found)


def folder(shop):
    """The run's folder goes away, and comes back."""
    path, away = os.path.join(shop.work, "gone"), os.path.join(shop.work, "away")
    run = under_way(shop, path)
    os.rename(path, away)
    ends(run, 1)
    found = say(run, "cistron: .*gone[/:].*No such file or directory")
    os.rename(away, path)
    shop.finish(path, RANKS)
    shop.check_equal(path, RANKS)
    return found


def clock(shop):
    """The machine's clock is set forth or back, by tests/shim.so."""
    for rank, ahead in ((0, 86400), (0, -86400), (1, 86400)):
        path = os.path.join(shop.work, "clock.%d.%d" % (rank, ahead))
        run = shop.start(path, RANKS, [], {"LD_PRELOAD": shop.shim, "SHIM_CLOCK": str(ahead), "SHIM_RANK": str(rank)})
        ends(run, 0)
        shop.check_equal(path, RANKS)
        if rank == 0:  # it writes the log
            found = say(run, "system clock jumped")
    return found


DRILLS = {drill.__name__: drill for drill in (hung, build, store, folder, clock)}
