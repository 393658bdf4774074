"""A training that is interrupted in every way, again and again, ends as one that never was.

Each round trains on 1 to 4 ranks. Interruptions are drawn at random from the seed: actions, the ranks that they strike,
the steps or the moments at which they come. After each the run is started again, until it is finished. Then its losses
and the digest of its state must be, bit for bit, those of a run on as many ranks that nobody touched. Where each start
has other ranks (`moves`), and their state is cut in another way, each loss must be within MOVED of those of one rank. On
the way each program must end as it is asked to, in time, without losing what was saved. A round is drawn from the seed
and its number alone, but what a signal finds the program doing is a matter of time.

Actions. Before a start: damage (a byte of the newest checkpoint). While it goes on: usr2, save-file (save), pause
(SIGSTOP, then SIGCONT). To end it: term, int, hup, usr1 (to one rank: save and stop), stop-file, kill (SIGKILL to one
rank), kill-all (to all and the launcher), still (SIGSTOP for good; comm.timeout ends the run), full (the disk, by
tests/shim.so)."""
import os
import random
import shutil
import signal
import time

from training import STOPS, TIMEOUT, Wrong, checkpoints, listens, logged, result

GENTLE = ["usr2", "save-file", "pause"]
ENDING = [*STOPS, "stop-file", "kill", "kill-all", "still", "full"]
ACTIONS = ["damage", *GENTLE, *ENDING]
SHARDS = ["none", "optimizer", "gradients", "full"]
MOVED = 1e-6  # of a loss: sums over other ranks are rounded in another order


class Interruptions:
    """interruptions: of a round; slow: seconds by which each parallel region is slowed down, since a run that is fast
    comes far while it looks for what it is to do."""

    def __init__(self, shop, seed, interruptions, actions, slow, moves):
        self.shop, self.seed, self.interruptions, self.actions, self.moves = shop, seed, interruptions, actions, moves
        self.slow = {"LD_PRELOAD": shop.shim, "SHIM_SLOW": str(slow)}
        self.counts = dict.fromkeys(ACTIONS, 0)

    def damage(self, draw, folder):
        """A byte of the newest checkpoint; one before it must be there."""
        steps = checkpoints(folder)
        if len(steps) < 2:
            return False
        path = os.path.join(folder, "step_%08d.h5" % steps[-1])
        with open(path, "r+b") as file:
            place = draw.randrange(os.path.getsize(path))
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ (1 << draw.randrange(8))]))
        return True

    def strike(self, run, action, draw, when):
        """Does the action at the step, or somewhere near. Returns the exit codes that may follow; None where the run goes
        on, or is over before."""
        rank = draw.randrange(run.ranks)
        rest = draw.uniform(0.05, 0.5)
        at_step = draw.random() < 0.8
        if not run.started() or (at_step and not run.await_that(lambda: logged(run.folder) >= when)):
            return None
        if not at_step:  # at start-up, in a save, wherever it is
            time.sleep(rest)
        self.counts[action] += 1
        if action in STOPS or action == "usr2":
            # before the program listens a signal does what it always does
            run.await_that(lambda: listens(run.rank_pids()[rank]))
            run.send(STOPS.get(action, signal.SIGUSR2), rank)
            return {85} if action in STOPS else None
        if action == "kill":
            run.send(signal.SIGKILL, rank)
            return {137, -signal.SIGKILL}
        if action == "kill-all":
            run.kill_all()
            return {-signal.SIGKILL}
        if action in ("stop-file", "save-file"):
            if not run.await_that(lambda: os.path.isdir(run.folder)):
                return None
            open(os.path.join(run.folder, "stop" if action == "stop-file" else "checkpoint"), "w").close()
            return {85} if action == "stop-file" else None
        run.send(signal.SIGSTOP, rank)
        if action == "still" and run.ranks > 1 and at_step:
            # once the others have left there is nobody to miss it but the launcher, which waits for ever
            run.await_that(lambda: run.left() <= {rank})
            run.send(signal.SIGCONT, rank)
            return {1}
        time.sleep(rest)
        run.send(signal.SIGCONT, rank)
        return None

    def full(self, draw, folder, ranks):
        """What tests/shim.so reads."""
        error, call = draw.choice([("ENOSPC", "pwrite"), ("ENOSPC", "open"), ("EIO", "fsync"), ("ENOSPC", "rename")])
        return {"SHIM_FOLDER": folder, "SHIM_MATCH": "step_", "SHIM_RANK": str(draw.randrange(ranks)),
                "SHIM_FAIL": "%s:%d:%s" % (call, draw.randrange(1, 12), error)}

    def interrupt(self, draw, folder, ranks):
        """One start of the run, struck by actions; True when it is finished."""
        chosen = self.actions
        gentle, ending = [a for a in GENTLE if a in chosen], [a for a in ENDING if a in chosen]
        actions = draw.sample(gentle, draw.randint(0, len(gentle))) + draw.sample(ending, min(1, len(ending)))
        ahead = max(2, self.shop.steps // self.interruptions)  # so that they are spread over the run
        steps = sorted(logged(folder) + draw.randrange(1, ahead) for _ in actions)
        settings = ["comm.timeout=%d" % TIMEOUT] if "still" in actions else []
        if self.moves:
            settings.append("parallel.shard=" + draw.choice(SHARDS))
        environment = {**self.slow, **(self.full(draw, folder, ranks) if "full" in actions else {})}
        before = checkpoints(folder)
        if "damage" in chosen and draw.random() < 0.3 and self.damage(draw, folder):
            actions, steps, before = ["damage", *actions], [0, *steps], before[:-1]
            self.counts["damage"] += 1
        run = self.shop.start(folder, ranks, settings, environment)
        codes = {0}  # it may have come to its end before the action
        try:
            for action, step in zip(actions, steps):
                if action == "full":
                    self.counts["full"] += 1
                    codes |= {1}
                elif action != "damage":
                    codes |= self.strike(run, action, draw, step) or set()
            code = run.end()
            self.check(run, folder, before, code, codes, actions)
        except Wrong as wrong:
            run.kill_all()
            raise Wrong("%s: %s\n%s" % (" ".join(actions), wrong, run.text()))
        print("    %d ranks, exit code %3d, step %4d logged, %4d saved: %s" %
              (ranks, code, logged(folder), max(checkpoints(folder), default=0), " ".join(actions)), flush=True)
        return code == 0

    def check(self, run, folder, before, code, codes, actions):
        if code not in codes:
            raise Wrong("exit code %d, not one of %s" % (code, sorted(codes)))
        after = checkpoints(folder)
        if before and (not after or after[-1] < before[-1]):
            raise Wrong("a checkpoint is lost: %s, then %s" % (before, after))
        if code == 85 and after and after[-1] != logged(folder):
            raise Wrong("stopped after step %d, saved at %d" % (logged(folder), after[-1]))
        if code == 1 and "still" in actions and not any("comm.timeout" in line for line in run.lines()):
            raise Wrong("it is not said why the run ends")

    def check_moved(self, folder):
        """Returns the largest relative difference of a loss from those of one rank."""
        losses, whole = result(folder)[0], self.shop.reference(1)[0]
        if [step for step, _ in losses] != [step for step, _ in whole]:
            raise Wrong("its log does not have each step once: %s" % folder)
        apart = max(abs(a - b) / b for (_, a), (_, b) in zip(losses, whole))
        if apart > MOVED:
            raise Wrong("a loss is %.1e from that of one rank, more than %.0e: %s" % (apart, MOVED, folder))
        return apart

    def round(self, number):
        """Returns what was found."""
        draw = random.Random("%d %d" % (self.seed, number))
        ranks = draw.randint(1, self.shop.ranks)
        folder = os.path.join(self.shop.work, "run.%d" % number)
        print("  round %d" % number, flush=True)
        struck = 0
        for _ in range(self.interruptions):
            if self.moves:
                ranks = draw.randint(1, self.shop.ranks)
            struck += 1
            if self.interrupt(draw, folder, ranks):
                break
        else:
            self.shop.finish(folder, ranks)
        if self.moves:
            found = "losses within %.1e of one rank's" % self.check_moved(folder)
        else:
            self.shop.check_equal(folder, ranks)
            found = "losses and digest equal"
        shutil.rmtree(folder)
        return "%d starts, %s" % (struck, found)

    def rounds(self, numbers):
        found = [self.round(number) for number in numbers]
        return "%s; %s" % ("; ".join(found), ", ".join("%s %d" % pair for pair in self.counts.items() if pair[1]))
