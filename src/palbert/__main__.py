"""`python -m palbert`, where the command is not on the path."""

import os
import sys

if not getattr(sys.flags, "safe_path", False) and sys.path[0] == os.getcwd():
    del sys.path[0]  # `-m` puts the current folder first, where a stranger's files may have the names of modules

from palbert.cli import main

main()
