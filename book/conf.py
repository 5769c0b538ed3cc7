"""Plain Sphinx's way into the book, should Jupyter Book ever fail us: the same pages from the same _config.yml.

sphinx-build -W --keep-going book _build/sphinx
"""

from pathlib import Path

import yaml

_config = yaml.safe_load((Path(__file__).parents[1] / "_config.yml").read_text(encoding="utf-8"))

project = html_title = _config["title"]
author = _config["author"]
copyright = _config["copyright"]
html_logo = _config["logo"]
html_favicon = _config["html"]["favicon"]
html_theme = "sphinx_book_theme"
exclude_patterns = ["_build", "conf.py", *_config["exclude_patterns"]]
external_toc_path = "_toc.yml"
nb_execution_mode = _config["execute"]["execute_notebooks"]
myst_enable_extensions = _config["parse"]["myst_enable_extensions"]
globals().update(_config["sphinx"]["config"])
extensions = [name for name in _config["sphinx"]["config"]["extensions"] if name != "jupyter_book"]
