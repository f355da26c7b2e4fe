"""What pyproject.toml cannot say: manual pages and completions are made from the package itself when it is built."""

import os
import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts"))

from manual import write_files

setup(data_files=list(write_files(Path("build/share-files")).items()))
