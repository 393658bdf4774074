"""pages.py CISTRON ROOT FOLDER PAGE...: runs the blocks of pages that are marked as checked, each page in a folder of
its own below FOLDER, and compares what they print with the page. It also looks whether the files of the project that a
page names in code marks are in the source tree, ROOT.

A mark is an HTML comment before an indented or fenced block, which a rendered page does not show:

    <!-- checked: KIND [ARGUMENT] [within X] [needs WHAT] -->

    <!-- checked: KIND
    commands that the page does not show, run before the block
    -->

| kind | the block |
|---|---|
| session | lines "$ COMMAND", each with the lines that it prints; where none follow, output is not compared |
| output | what the hidden commands print |
| script | commands; they must succeed |
| file NAME | is written to NAME; the hidden commands are run after it, and must succeed |

In what is printed "..." alone in a line stands for any number of lines, and elsewhere for any text; blanks count as one.
within X: numbers with a decimal point may differ by this share; digits that depend on vector instructions do.
needs WHAT: the block is left out where this Python lacks that module, or the machine that file ($VARIABLE/...); several
with commas. A command ends with 0, and with another code
only where the page has a line "cistron: ...". Blocks of a page run in their order, in one folder with build/cistron and
the source tree's folders."""
import difflib
import glob
import importlib.util
import os
import re
import subprocess
import sys

MARK = re.compile(r"<!-- checked: (.*?)-->\n\n?", re.S)
NUMBER = r"\d+\.\d+(?:e[+-]?\d+)?"
SECONDS = 300  # for a command; builds that check themselves are slow


class Wrong(Exception):
    pass


def block_at(text, start):
    """The lines of the block that begins at `start`, without its indentation or fences, and the number of the first."""
    lines, number = text[start:].split("\n"), text[:start].count("\n") + 1
    if lines[0].startswith("```"):
        return lines[1 : lines.index("```", 1)], number + 1
    indent = len(lines[0]) - len(lines[0].lstrip())
    if indent < 4:
        raise Wrong(f"{number}: no block follows the mark")
    after = (i for i, line in enumerate(lines) if line.strip() and not line.startswith(" " * indent))
    count = next(after, len(lines))  # the page may end with the block
    block = [line[indent:] for line in lines[:count]]
    while not block[-1]:
        block.pop()
    return block, number


def fits(expected, got, within):
    """Is the line `got` what the page expects?"""
    parts = re.split(rf"(\.\.\.|{NUMBER}|\s+)", expected.strip())
    numbers = [float(part) for part in parts if within and re.fullmatch(NUMBER, part)]
    pattern = "".join(
        ".*" if part == "..."
        else f"({NUMBER}|\\d+)" if within and re.fullmatch(NUMBER, part)
        else r"\s+" if part.isspace()
        else re.escape(part)
        for part in parts
    )
    match = re.fullmatch(pattern, got.strip())
    return match and all(abs(float(a) - b) <= within * abs(b) for a, b in zip(match.groups(), numbers))


def compare(expected, number, got, within):
    """Each run of lines between two "..." must be in `got`, in order. number: that of the first expected line."""
    runs, at = [[]], 0
    for i, line in enumerate(expected):
        if line.strip() == "...":
            runs.append([])
        else:
            runs[-1].append((number + i, line))
    for r, run in enumerate(runs):
        last = len(got) - len(run)
        starts = range(at, last + 1)
        if r == 0:
            starts = [0]
        elif r == len(runs) - 1 and run:
            starts = [max(last, at)]
        furthest, found = (-1, 0), None
        for start in starts or [at]:
            same = 0
            while same < len(run) and start + same < len(got) and fits(run[same][1], got[start + same], within):
                same += 1
            furthest = max(furthest, (same, start))
            if same == len(run):
                found = start + same
                break
        if found is None:
            (line, words), place = run[furthest[0]], furthest[0] + furthest[1]
            near = got[place : place + 1]
            if r > 0 and furthest[0] == 0:
                near = difflib.get_close_matches(words, got[at:], 1, 0) or near
            raise Wrong(f"{line}: expected: {words.strip()}\n    got: {near[0].strip() if near else 'no more lines'}")
        at = found
    if len(runs) == 1 and at < len(got):
        raise Wrong(f"{number + len(expected) - 1}: expected: the last line\n    got: {got[at].strip()}")


def run(command, folder, number, may_fail=False):
    """The lines that a command prints. number: its line in the page."""
    words = ["timeout", "--kill-after=5", str(SECONDS), "bash", "-e", "-c", command]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, cwd=folder, text=True, errors="replace", check=False, **pipes)
    lines = done.stdout.splitlines()
    if done.returncode == 124 or (done.returncode != 0 and not may_fail):
        got = "no end" if done.returncode == 124 else f"{done.returncode}, after " + "\n".join(lines[-5:])
        raise Wrong(f"{number}: {command.strip()}\n    expected: exit code 0 within {SECONDS} s\n    got: {got}")
    return lines


def session(block, number, folder, within):
    i = 0
    while i < len(block):
        if not block[i].startswith("$ "):
            raise Wrong(f"{number + i}: expected: a line '$ COMMAND'\n    got: {block[i]}")
        first, command = i, block[i][2:]
        while block[i].endswith("\\"):
            i += 1
            command += "\n" + block[i]
        i += 1
        begin = i
        while i < len(block) and not block[i].startswith("$ "):
            i += 1
        expected = block[begin:i]
        got = run(command, folder, number + first, any(line.startswith("cistron: ") for line in expected))
        if expected:
            compare(expected, number + begin, got, within)


def check_block(text, mark, folder):
    head, _, hidden = mark[1].partition("\n")
    words, number = head.split(), text[: mark.start()].count("\n") + 1
    kind, options = words.pop(0), {}
    while len(words) >= 2 and words[-2] in ("within", "needs"):
        options[words[-2]] = words[-1]
        del words[-2:]
    if kind not in ("session", "output", "script", "file") or len(words) != (kind == "file"):
        raise Wrong(f"{number}: a mark of another kind: {head}")
    for what in os.path.expandvars(options.get("needs", "sys")).split(","):
        if not (os.path.exists(what) if "/" in what else importlib.util.find_spec(what)):
            return False
    within = float(options.get("within", 0))
    block, first = block_at(text, mark.end())
    if kind == "file":
        with open(os.path.join(folder, words[0]), "w") as file:
            file.write("\n".join(block) + "\n")
    may_fail = kind == "output" and any(line.startswith("cistron: ") for line in block)
    got = run(hidden, folder, number + 1, may_fail)
    if kind == "output":
        compare(block, first, got, within)
    elif kind == "session":
        session(block, first, folder, within)
    elif kind == "script":
        run("\n".join(block), folder, first)
    return True


def check_page(page, folder):
    """Runs the blocks of a page. Returns how many were run, how many were left out, and what is wrong."""
    with open(page) as file:
        text = file.read()
    done, wrong = [], []
    for mark in MARK.finditer(text):
        try:
            done.append(check_block(text, mark, folder))
        except Wrong as error:
            wrong.append(str(error))
    if len(done) + len(wrong) != text.count("<!-- checked"):
        wrong.append("0: a mark is not as pages.py describes it")
    return done.count(True), done.count(False), wrong


MADE = re.compile(r"build|runs")  # folders that are not part of the source tree


def dead_names(page, root):
    """The files of the project that a page names in code marks and that the source tree does not have."""
    tops, parts = (
        "|".join(name for name in os.listdir(place) if os.path.isdir(os.path.join(place, name)) and not MADE.match(name))
        for place in (root, os.path.join(root, "src"))
    )
    rules = (
        (rf"(?:{tops})/[\w./*-]+", ("{}", "{}.c", "src/{}")),
        (rf"(?:{parts})/[\w/*]+\.[ch]", ("src/{}",)),
        (r"t_\w+(?:\.c|\.sh)?", ("tests/{}", "tests/{}.c", "tests/{}.sh")),
        (r"\w+_\w+\.cfg", ("input/{}", "bench/gpu/cases/{}")),
        (r"\w+\.md", ("{}", "doc/{}")),
    )
    with open(page) as file:
        lines = file.read().split("\n")
    for i, line in enumerate(lines):
        for name in re.findall(r"[^\s,]+", " ".join(re.findall(r"`([^`]+)`", line))):
            for pattern, places in rules:
                if re.fullmatch(pattern, name) and not re.search("[A-Z]{3}", name):
                    if not any(glob.glob(os.path.join(root, place.format(name))) for place in places):
                        yield f"{i + 1}: {name} is not there"
                    break


def main(cistron, root, folder, pages):
    failures = run_blocks = left_out = 0
    for page in pages:
        place = os.path.join(folder, os.path.relpath(page, root).replace("/", "_"))
        os.makedirs(os.path.join(place, "build"))
        os.symlink(cistron, os.path.join(place, "build", "cistron"))
        for name in os.listdir(root):
            if not name.startswith((".", "build")) and os.path.isdir(os.path.join(root, name)):
                os.symlink(os.path.join(root, name), os.path.join(place, name))
        done, absent, wrong = check_page(page, place)
        wrong += dead_names(page, root)
        run_blocks += done
        left_out += absent
        for text in wrong:
            print(f"{page}:{text}")
        failures += len(wrong)
    print(f"{run_blocks} blocks of {len(pages)} pages, {left_out} left out, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*(os.path.abspath(name) for name in sys.argv[1:4]), sys.argv[4:]))
