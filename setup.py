"""What pyproject.toml cannot say: manual pages, completions and the index of answers are made from the package itself
when it is built."""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts"))

from manual import pack_scripts, write_answers, write_files


class BuildWithAnswers(build_py):
    """The modules, the index that `sonde help QUESTION` reads, and all scripts in one file."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_answers(Path(self.build_lib))
            pack_scripts(Path(self.build_lib))


setup(data_files=list(write_files(Path("build/share-files")).items()), cmdclass={"build_py": BuildWithAnswers})
