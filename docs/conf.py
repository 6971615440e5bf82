"""Sphinx reads this. ``make docs`` calls ``tools/docs_site.py``, which assembles the folder and calls Sphinx."""

project = "executorch_py"
copyright = "the executorch_py maintainers"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "breathe",
]
intersphinx_mapping: dict[str, tuple[str, None]] = {}  # a build needs no network

html_theme = "furo"
html_title = "executorch_py"
html_copy_source = False
exclude_patterns = ["lab/*"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/notebooks runs them; the site shows what docs_site.py stored

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

breathe_default_project = "cpp"
breathe_default_members = ("members",)
# A namespace and a forward declaration stand in several headers.
suppress_warnings = ["duplicate_declaration.cpp", "duplicate_declaration.c"]
