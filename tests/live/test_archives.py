"""Uprobes in members of ZIP archives, which programs map from where they lie in them (Android's loader does so)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from support import compile_c, run_sonde

# Maps a page of a file and calls the code at an offset of it, three times.
CALLER = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    long at = atol(argv[2]), sum = 0;
    char *page = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), at & ~4095);
    for (long n = 1; n <= 3; n++)
        sum += ((long (*)(long))(page + (at & 4095)))(n);
    return sum;
}
"""


class Archived:
    """An archive with one library three times: after a member of odd length, aligned to a page, and compressed."""

    def __init__(self, folder: Path) -> None:
        self.caller = compile_c(CALLER, folder, "caller")
        self.library = compile_c("long thrice(long n) { return 3 * n; }\n", folder, "lib.so", "-shared", "-fPIC", "-O1")
        self.archive = folder / "some.apk"
        with ZipFile(self.archive, "w") as archive:
            archive.writestr("notes.txt", "odd")
            for name, method in (("first/lib.so", ZIP_STORED), ("lib.so", ZIP_STORED), ("packed.so", ZIP_DEFLATED)):
                info = ZipInfo(name)
                info.compress_type = method
                start = archive.start_dir + 30 + len(name) + 4  # behind the header, with one extra field
                info.extra = b"\xff\xff" + (-start % 4096).to_bytes(2, "little") + bytes(-start % 4096)
                archive.writestr(info, self.library.read_bytes())
            archive.comment = b"with a comment PK"
        data = self.archive.read_bytes()
        self.starts = [at for at in range(0, len(data), 4096) if data[at:at + 4] == b"\x7fELF"]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Archived:
    return Archived(tmp_path_factory.mktemp("archives"))


def offset_of(library: Path) -> int:
    """Where the function is in the library's file, by what other tools say of it."""
    address = next(line.split()[0] for line in subprocess.run(["nm", library], capture_output=True, text=True,
                                                              check=True).stdout.splitlines() if "thrice" in line)
    headers = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    code = next(line.split() for line in headers.splitlines() if "LOAD" in line and " R E " in line)
    return int(address, 16) - int(code[2], 16) + int(code[1], 16)


@pytest.mark.parametrize(("member", "number"), [("first/lib.so", 0), ("lib.so", 1)])
@pytest.mark.parametrize("function", ["thrice", "thr*"])
def test_a_member_is_traced_where_it_lies(archived: Archived, member: str, number: int, function: str) -> None:
    """And the other copy of it is not."""
    point = f'uprobe:"{archived.archive}!/{member}":{function}'
    for call, seen in ((number, "@: 6"), (1 - number, "")):
        at = archived.starts[call] + offset_of(archived.library)
        done = run_sonde("-q", "-e", f"{point} {{ @ = sum(arg0); }}", "-c",
                         f"{archived.caller} {archived.archive} {at}")
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, seen, ""), done.stderr


@pytest.mark.parametrize(("member", "words"), [
    ("packed.so", "compressed in the archive"), ("none.so", "has no member none.so"), ("notes.txt", "not an ELF file"),
])
def test_what_cannot_be_traced(archived: Archived, member: str, words: str) -> None:
    done = run_sonde("-e", f'uprobe:"{archived.archive}!/{member}":thrice {{ }}')
    assert done.returncode == 1 and f"No matches for uprobe {archived.archive}!/{member}:thrice." in done.stderr
    assert words in done.stderr


def test_listing(archived: Archived) -> None:
    done = run_sonde("-l", f"uprobe:{archived.archive}!/lib.so:thr*")
    assert done.stdout.split() == [f"uprobe:{archived.archive}!/lib.so:thrice"]


@pytest.mark.parametrize("damage", [b"", b"PK\5\6", b"PK\5\6" + b"\xff" * 18, b"PK\5\6" + b"\0" * 18])
def test_damaged_archives(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(b"PK\3\4" + b"x" * 30 + damage)
    done = run_sonde("-e", f'uprobe:"{path}!/lib.so":f {{ }}')
    assert done.returncode == 1 and "No matches for uprobe" in done.stderr and "Traceback" not in done.stderr


def test_a_folder_whose_name_ends_so_is_no_archive(archived: Archived, tmp_path: Path) -> None:
    folder = tmp_path / "odd!"
    folder.mkdir()
    (folder / "lib.so").write_bytes(archived.library.read_bytes())
    assert run_sonde("-l", f"uprobe:{folder}/lib.so:thrice").stdout.split() == [f"uprobe:{folder}/lib.so:thrice"]
