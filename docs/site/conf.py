"""Sphinx settings of the documentation site; `make docs` builds it (docs/site/build.py)."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

sys.path.insert(0, str(Path(__file__).resolve().parent))

from docstrings import by_lines, plain_names, whole_entries

project = "dualclust"
author = "The dualclust authors"
copyright = "the dualclust authors, BSD-3-Clause"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["examples", "jobs"]
default_role = "py:obj"
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "dualclust"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

# The files of MathJax come from a package and lie in the built site: no page asks a network.
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "tex": {"macros": {"argmax": "\\operatorname*{argmax}", "OPT": "\\mathrm{OPT}"}},
}
MATHJAX = ("tex-chtml.js", "output/chtml/fonts", "input/tex/extensions")


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Copy the parts of MathJax that pages ask for, 3 MB of 24."""
    if error is not None or app.builder.format != "html":
        return
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        msg = "sphinx-mathjax-offline is missing. To fix: pip install 'dualclust[docs]'"
        raise ModuleNotFoundError(msg)
    source = Path(spec.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
        else:
            shutil.copy(source / name, target / name)


MEMBERS = {"method", "classmethod", "staticmethod", "property", "attribute"}

MOST_FIELDS = 12
"""Fields with a default that the signature of a class shows; a record of settings has up to 50."""


class ClaimRole(SphinxRole):
    """``claim`` with `S4`, or `text <S4>`: a link to the claim's section of the page of claims."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link."""
        match = re.fullmatch(r"(.+?)\s*<(\w+)>", self.text, flags=re.DOTALL)
        text, anchor = match.groups() if match else (self.text, self.text)
        return [_link(self.env, "claims", f"#{anchor}", text)], []


class PageRole(SphinxRole):
    """``sitepage`` with `decisions/0009-candidates`: a link to a page, by its name."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link."""
        return [_link(self.env, self.text, "", f"docs/{self.text}.md")], []


def _link(env: Any, page: str, anchor: str, text: str) -> nodes.Node:
    uri = env.app.builder.get_relative_uri(env.docname, page) + anchor
    return nodes.reference("", text, refuri=uri, internal=True)


def join_entries(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make the entries of a docstring whole, before numpydoc reads them."""
    lines[:] = whole_entries(lines)


def prepare_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Turn "docs/claims.md#S4, #S5", "docs/NAME.md" and "benchmarks/results/NAME.md" into links.

    A meaning that is one letter, such as "k.", would pass for the eleventh item of a list.
    """
    text = plain_names(by_lines("\n".join(lines)), what, obj)
    text = re.sub(r"^( *)([A-Za-z])\.(?=\s|$)", r"\1\\\2.", text, flags=re.MULTILINE)
    text = re.sub(
        r"docs/claims\.md((?:#\w+(?:,\s+(?=#))?)+)",
        lambda m: re.sub(r"#(\w+)", r":claim:`\1`", m[1]),
        text,
    )
    text = re.sub(
        r"(?<!`)`?\b(docs|benchmarks/results)/((?:[\w-]+/)?[\w-]+)\.md\b`?",
        lambda m: f":sitepage:`{'' if m[1] == 'docs' else 'benchmarks/'}{m[2]}`",
        text,
    )
    lines[:] = text.split("\n")


def short_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str, Any] | None:
    """Leave the fields of a record with many of them to the list below, one line instead of 50.

    A default that Python can only describe, as ``<function ...>``, becomes three dots.
    """
    if is_dataclass(obj) and signature is not None and signature.count("=") > MOST_FIELDS:
        return "(**fields)", returns
    if signature is not None and "=<" in signature:
        return re.sub(r"=<[^<>]*>", "=...", signature), returns
    return None


def keep_together(app: Sphinx, doctree: nodes.document) -> None:
    """Mark what no line may break: a formula with the sign behind it."""
    for formula in list(doctree.findall(nodes.math)):
        parent, place = formula.parent, formula.parent.index(formula)
        after = parent[place + 1] if place + 1 < len(parent) else None
        text = after.astext() if isinstance(after, nodes.Text) else ""
        if sign := re.match(r"[.,;:!?)\]]+", text):
            parent[place] = together = nodes.inline("", "", classes=["nobreak"])
            parent[place + 1] = nodes.Text(text[sign.end() :])  # by its place: texts may be equal
            together += [formula, nodes.Text(sign[0])]


def skip_member(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out fields of records, which "Attributes" has, and what scikit-learn adds to ours."""
    field = type(obj).__name__ in {"_tuplegetter", "member_descriptor"}
    return True if field or re.fullmatch(r"set_\w+_request", name) else None


def by_last_names(app: Sphinx, env: Any, node: Any, content: Any) -> nodes.Node | None:
    """Resolve a name by its last parts, such as `offline.assign_source`, where only one fits.

    A member of another class needs the name of its class: `fit` alone may be anything.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].strip("~.")
    objects = env.get_domain("py").objects
    found = {
        (entry.docname, entry.node_id)
        for name, entry in objects.items()
        if name == target or name.endswith(f".{target}")
        if "." in target or entry.objtype not in MEMBERS
    }
    if len(found) != 1:
        return None
    page, anchor = found.pop()
    uri = app.builder.get_relative_uri(node.get("refdoc", env.docname), page)
    reference = nodes.reference("", "", refuri=f"{uri}#{anchor}", internal=True)
    reference += content
    return reference


def breakable_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let names break after dots and underscores, not in a word: in headings and tables' links.

    Code in tables stays whole, as the style sheet has it.
    """
    cells = doctree.findall(nodes.entry)
    links = [link for cell in cells for link in cell.findall(nodes.reference)]
    plain = [link for link in links if not [*link.findall(nodes.literal)]]
    for place in [*doctree.findall(nodes.title), *plain]:
        for text in [t for t in place.findall(nodes.Text) if re.search(r"\w[._]\w", t)]:
            parts: list[nodes.Node] = []
            for part in re.split(r"(?<=\w[._])(?=\w)", text.astext()):
                parts += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]
            inside = text.parent
            at = next(i for i, child in enumerate(inside) if child is text)  # texts may be equal
            inside[at : at + 1] = parts[1:]


LONG_NAME = re.compile(r'(?<=<span class="pre">)[^<]{20,}(?=</span>)')


def breakable(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Let a long name of the text break behind a dot or an underscore, and not within a word."""
    if "body" in context:
        context["body"] = LONG_NAME.sub(
            lambda m: re.sub(r"(?<=\w[._/=,(])(?=\w)", "<wbr>", m[0]), context["body"]
        )


def short_navigation(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """List, of all pages, those around this one: all 200 on each took a third of the build."""
    if "toctree" in context:
        render = context["toctree"]
        context["toctree"] = lambda **options: render(**options | {"collapse": True})


def setup(app: Sphinx) -> None:
    """Register the roles and the events."""
    app.add_role("claim", ClaimRole())
    app.add_role("sitepage", PageRole())
    app.connect("autodoc-process-docstring", join_entries, priority=100)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=900)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("doctree-read", keep_together)
    app.connect("missing-reference", by_last_names)
    app.connect("doctree-resolved", breakable_names)
    app.connect("html-page-context", breakable)
    app.connect("html-page-context", short_navigation, priority=400)  # before the theme asks
    app.connect("build-finished", copy_mathjax)
