"""How Sphinx makes the site; ``make site`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from docs.operator_cuts import lines_about  # noqa: E402 - found by the line above
from docs.reference_pages import write_pages  # noqa: E402 - found by the line above
from mpiparallel.graph.operator import Operator  # noqa: E402
from mpiparallel.launch.version import VERSION  # noqa: E402

project = "mpiparallel"
author = "the authors of mpiparallel"
version = release = VERSION
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser"]
exclude_patterns = ["__pycache__"]
templates_path = ["_templates"]
root_doc = "index"
html_theme = "pydata_sphinx_theme"
html_title = "mpiparallel"
html_theme_options = {"show_prev_next": True, "navigation_depth": 2, "secondary_sidebar_items": ["page-toc"]}
html_show_sourcelink = False
myst_heading_anchors = 4
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False

# Classes inside of the package that attributes of operators have as values: users do not name them.
nitpick_ignore_regex = [("py:class", r"mpiparallel\.(graph|ops\.reductions\.ranking)\..*")]


def add_cuts(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Say below the docstring of an operator what it may cut."""
    if what == "class" and isinstance(item, type) and issubclass(item, Operator):
        lines += ["", *lines_about(item)]


def setup(app: Sphinx) -> None:
    """Write the pages of the reference: Sphinx lists its pages, and autosummary reads them, right after this."""
    write_pages(FOLDER / "reference")
    # After numpydoc, which takes what it finds for sections of its own.
    app.connect("autodoc-process-docstring", add_cuts, priority=900)
