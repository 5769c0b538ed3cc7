"""The labs: each folder here that holds a package is one, and `peaks` measures the device itself.

Labs of your own may lie elsewhere: ROOFBOOK_LABS names folders to look in as well, separated as in PATH.
"""

import os

_named = filter(None, os.environ.get("ROOFBOOK_LABS", "").split(os.pathsep))
__path__ = [*__path__, *(os.path.abspath(os.path.expanduser(folder)) for folder in _named)]
