"""words.py ROOT [PATH...]: phrases that the house style (doc/words.md) replaces, in comments of sources and in the prose of
documents. One line for each: FILE:LINE: what stands there, and what to write. Without PATH: every tracked source of src
and cuda, and every document."""
import re
import subprocess
import sys

# what is not written: what to write. Words are compared without regard to case.
PHRASES = {
    r"hangs? on\b": "depends on",
    r"goes on from|go on from": "resumes from",
    r"under way": "in flight, in progress",
    r"on (its|their) way": "in flight",
    r"so many (?!that)": "n, the number of",
    r"(?<!there )is no (?!longer|more|better)\w+": "is not a",
    r"(?<!there )are no (?!longer|more|better|farther)\w+": "are not",
    r"has not(?! (been|yet|to)\b)(?= (a|an|the|it|them|its|any)\b|[.,;:)]|$)": "does not have",
    r"anew\b": "again, from scratch",
    r"made again": "recomputed, repeated",
    r"mend(s|ed|ing)?\b": "fix",
    r"multiprocessors?": "SM",
    r"rehears\w+": "tuning pass",
    r"the door\b": "launch",
    r"keep tables?": "recompute policy",
    r"by itself\b": "alone, automatically",
    r"is told|are told|tells? (of|the user)|told of": "is logged, is reported",
    r"that which": "name the noun",
    r"planted": "injected",
    r"(row|column) cop(y|ies)\b": "rowwise, columnwise operand",
    r"wish(es)?\b": "request",
    r"dealt\b|deals? out": "assigned, balanced",
}
BEGINNING = re.compile(r"(Of|What|Where|That|The same|Such|Those|These|As far as)\b")
# "FILE PHRASE": why the phrase may stand there
ALLOWED = {
    ("cuda/kernel.h", r"multiprocessors?"): "a field's name",
    ("cuda/xent.cu", r"multiprocessors?"): "a parameter's name",
    ("doc/words.md", None): "names the phrases",
    ("ChangeLog", None): "is of earlier versions",
}


def comments(text, shell):
    """(line, comment) of each comment; code and strings become blanks."""
    if shell:
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r"\s*#(?!!)\s?(.*)", line)
            if match:
                yield number, match.group(1)
        return
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*(.*?)\*/|//([^\n]*)', text, re.S):
        body = match.group(1) if match.group(1) is not None else match.group(2)
        if body is not None:
            yield text[: match.start()].count("\n") + 1, re.sub(r"\n\s*\*?", "\n", body)


def prose(text):
    """(line, text) of each paragraph, list item or table row; without code blocks and code marks."""
    fenced, start, lines = False, 0, []
    for number, line in enumerate(text.split("\n") + [""], 1):
        fenced ^= line.startswith("```")
        code = fenced or line.startswith(("    ", "```", "<!--"))
        if lines and (code or not line.strip() or line.startswith(("|", "- ", "#")) or re.match(r"\d+\. ", line)):
            yield start, re.sub(r"`[^`]*`", "CODE", "\n".join(lines))
            lines = []
        if not code and line.strip():
            start = start if lines else number
            lines.append(line)


def faults(name, text):
    document = name.endswith(".md") or name == "ChangeLog"
    found = []
    for line, body in prose(text) if document else comments(text, name.endswith((".sh", ".am", ".py"))):
        if (name, None) in ALLOWED:
            continue
        body = re.sub(r" *\n *", "\n", re.sub(r"[ \t]+", " ", body))
        if not document and BEGINNING.match(body.strip()):
            found.append((line, body.strip().split("\n")[0][:40], "a subject first"))
        for phrase, better in PHRASES.items():
            for match in re.finditer(r"\b(?:" + phrase.replace(" ", r"\s") + ")", body, re.I):
                if (name, phrase) not in ALLOWED:
                    found.append((line + body[: match.start()].count("\n"), " ".join(match.group(0).split()), better))
    return found


def main():
    root, paths = sys.argv[1], sys.argv[2:]
    if not paths:
        tracked = subprocess.run(["git", "-C", root, "ls-files", "src", "cuda", "examples", "doc/*.md", "*.md"],
                                 capture_output=True, text=True, check=True).stdout.split()
        paths = [path for path in tracked if re.search(r"\.(c|h|cu|cuh|md)$", path) and "/golden/" not in path]
    count = 0
    for path in paths:
        with open(path if path.startswith("/") else f"{root}/{path}", encoding="utf-8") as file:
            for line, text, better in sorted(faults(path, file.read())):
                print(f"{path}:{line}: \"{text}\": {better}")
                count += 1
    print(f"{len(paths)} files, {count} phrases")
    sys.exit(count > 0)


main()
