"""Sphinx: how `make html` (doc/Makefile.am) turns README.md, CONTRIBUTING.md and doc/*.md into pages.

The same Markdown is read on a code host, where README names pages as doc/NAME.md and pages name each other as `NAME.md`
in code marks. Here both become links."""
import pathlib
import re

project = "Cistron"
author = "the Cistron developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Cistron"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "friendly"
highlight_language = "none"

CONTENTS = """

```{toctree}
:hidden:
:caption: Tutorials

tutorial_genomes
tutorial_proteins
tutorial_english
tutorial_cluster
```

```{toctree}
:hidden:
:caption: Guides

models
families
experts
objectives
embed
score
finetune
heads
lora
optimizers
parallel
precision
clusters
sweeps
recipes
speed
```

```{toctree}
:hidden:
:caption: Reference

deck
formats
formats_input
formats_stores
formats_checkpoints
formats_logs
formats_results
errors
glossary
dependencies
```

```{toctree}
:hidden:
:caption: Development

CONTRIBUTING
design
testing
words
```
"""


def link(match):
    name = match.group(1)
    return f"[{name}]({name}.md)" if (pathlib.Path(PAGES) / f"{name}.md").exists() else match.group(0)


def read(app, page, source):
    """Marks of tests are left out, and names of pages become links, but in code blocks."""
    global PAGES
    PAGES = app.srcdir
    text = re.sub(r"<!-- checked: .*?-->\n\n?", "", source[0], flags=re.S).replace("](doc/", "](")
    parts = re.split(r"(^```.*?^```|^    .*?$)", text, flags=re.S | re.M)
    text = "".join(part if i % 2 else re.sub(r"`(?:doc/)?(\w+)\.md`", link, part) for i, part in enumerate(parts))
    source[0] = text + CONTENTS if page == "index" else text


def setup(app):
    app.connect("source-read", read)
