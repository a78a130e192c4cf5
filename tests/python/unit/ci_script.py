"""A script of .ci in a folder of its own, which the script takes for the repository."""

import shutil
import subprocess
import sys


class CiScript:
    def __init__(self, folder, root, name, *modules):
        """root: of the real repository. name: of the script. modules: scripts that it imports."""
        self.folder = folder
        (folder / ".ci").mkdir()
        for one in (name, *modules):
            shutil.copy(root / ".ci" / one, folder / ".ci")
        self._command = [sys.executable, folder / ".ci" / name]

    def run(self, *arguments):
        """(status, output)."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        ended = subprocess.run([*self._command, *arguments], **pipes)
        return ended.returncode, ended.stdout
