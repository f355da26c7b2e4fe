"""--follow: user probes in files that processes map for the first time while they are traced."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sonde
from c_targets import build_target
from sonde.runtime.attach.late_images import LateImages
from support import run_sonde

LATE = "had no probes yet when process"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program that is there at the start, prog-old, and space for others."""
    shutil.copy(build_target("burst.c", tmp_path), tmp_path / "prog-old")
    return tmp_path


def run_script(folder: Path, text: str, program: str) -> tuple[str, str]:
    """What is printed about a shell script that runs in the folder, and the messages."""
    (folder / "work.sh").write_text(f"cd {folder}\n{text}")
    done = run_sonde("--follow", "-c", f"sh {folder}/work.sh", "-e", program.replace("FOLDER", str(folder)))
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_program_that_was_just_made(folder: Path) -> None:
    """Its first run may be missed, which is said; each further run is seen from its first call on."""
    text = "cp burst prog-new; ./prog-new 100; sleep 1; for i in 1 2 3 4 5; do ./prog-new 100; done; ./prog-old 7\n"
    out, said = run_script(folder, text, "uprobe:FOLDER/prog-*:work { @[comm, pid] = count(); }")
    counts = sorted(map(int, re.findall(r"\[prog-new, \d+\]: (\d+)", out)))
    assert counts[-5:] == [100] * 5 and "[prog-old" in out and ": 7\n" in out, out
    assert said.count(LATE) == 1 and "prog-new" in said and "1 file had no probes" in said, said


def test_what_is_there_at_the_start_is_no_late_file(folder: Path) -> None:
    out, said = run_script(folder, "./prog-old 5; ./burst 9\n", "uprobe:FOLDER/prog-*:work { @ = count(); }")
    assert "@: 5" in out and "no probes" not in said


def test_nothing_that_is_meant_is_there_at_the_start(folder: Path) -> None:
    text = "cp burst new-1; ./new-1 1; sleep 1; ./new-1 6; ./new-1 4\n"
    program = "uprobe:FOLDER/new-*:work { @[pid] = count(); } uretprobe:FOLDER/new-1:work { @returns = count(); }"
    out, said = run_script(folder, text, program)
    assert re.findall(r"@\[\d+\]: (\d+)", out)[-2:] == ["4", "6"] and int(
        re.findall(r"@returns: (\d+)", out)[0]) >= 10, out
    assert said.count(LATE) == 1 and said.count("no file has") == 2


def test_without_it_a_file_must_be_there(folder: Path) -> None:
    done = run_sonde("-c", "true", "-e", f"uprobe:{folder}/new-1:work {{ @ = count(); }}")
    assert done.returncode and "does not exist" in done.stderr


def test_many_files_and_functions_are_one_point(folder: Path) -> None:
    """The pattern had become two files' functions: a further file has each of its own once."""
    shutil.copy(folder / "prog-old", folder / "prog-older")
    out, said = run_script(folder, "cp burst prog-new; ./prog-new 1; sleep 1; ./prog-new 6; ./prog-old 2\n",
                           "uprobe:FOLDER/prog-*:w*k, uprobe:FOLDER/prog-*:mai* { @[comm, pid] = count(); }")
    assert re.findall(r"\[prog-\w+, \d+\]: (\d+)", out)[-2:] in (["3", "7"], ["7", "3"]), out
    assert said.count(LATE) == 1


def test_a_library_of_the_same_name_elsewhere(folder: Path) -> None:
    """By dlopen(), long after the start of the process."""
    libm = next((line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libm.so" in line),
                "")
    if not libm:
        pytest.skip("this Python does not use libm")
    (folder / "lib").mkdir()
    shutil.copy(libm, folder / "lib" / Path(libm).name)
    work = f"""
import ctypes, time
library = ctypes.CDLL("{folder}/lib/{Path(libm).name}")
time.sleep(1)
library.cbrt.restype = ctypes.c_double
for _ in range(30):
    library.cbrt(ctypes.c_double(8))
"""
    (folder / "work.py").write_text(work)
    out, said = run_script(folder, f"{sys.executable} -S work.py\n", "uprobe:libm:cbrt { @ = count(); }")
    assert "@: 30" in out and LATE in said and str(folder / "lib") in said, (out, said)


def test_a_file_of_the_very_end(folder: Path) -> None:
    """The command ends with it: nobody can set a probe any more, which is said."""
    out, said = run_script(folder, "cp burst prog-new; exec ./prog-new 100\n",
                           "uprobe:FOLDER/prog-*:work { @ = count(); }")
    assert "prog-new" in said and "1 file had no probes" in said, (out, said)


def test_what_cannot_be_attached_is_said(folder: Path) -> None:
    out, said = run_script(folder, "cp burst prog-new; ./prog-new 100\n",
                           "uprobe:FOLDER/prog-old:work, uprobe:FOLDER/prog-*:main { @[probe] = count(); }")
    assert "the script asks for the names of probes" in said and "1 file had no probes" in said, (out, said)


def test_a_file_that_is_gone_is_let_go(folder: Path) -> None:
    """Each of them is another file by the same path, is said as such, and was attached when it ran for a while."""
    text = "for i in 1 2 3; do cp burst prog-new; ./prog-new 30 20; rm prog-new; done\n"
    out, said = run_script(folder, text, "uprobe:FOLDER/prog-*:work { @[comm] = count(); }")
    missed = re.search(r"(\d+) files had no probes", said)  # one that begins as its file goes is said to be another
    assert missed is not None and 3 <= int(missed[1]) <= 6, (out, said)


def test_a_process_of_others_is_none_of_it(folder: Path) -> None:
    """Another process runs a new program that the attach point means: no probe is set in it, and nothing said."""
    import subprocess
    script = folder / "others.sh"
    script.write_text(f"cd {folder}; cp burst prog-other; while :; do ./prog-other 5; sleep 0.05; done")
    with subprocess.Popen(["sh", str(script)]) as process:
        out, said = run_script(folder, "sleep 1; ./prog-old 3\n", "uprobe:FOLDER/prog-*:work { @ = count(); }")
        process.kill()
    assert "@: 3\n" in out + "\n" and LATE not in said, (out, said)


def test_a_probe_that_stays_with_its_file_is_said_to(folder: Path) -> None:
    """An address's is set in the program that was there, not in one of that name elsewhere."""
    text = "mkdir other; cp prog-old other/; ./prog-old 3; ./other/prog-old 5\n"
    symbols = subprocess.run(["nm", folder / "prog-old"], capture_output=True, text=True, check=True).stdout
    [address] = re.findall(r"^(\w+) \w work$", symbols, re.MULTILINE)
    out, said = run_script(folder, text, f"uprobe:FOLDER/prog-old:0x{address} {{ @ = count(); }}")
    assert "@: 3" in out, (out, said)
    assert said.count("such probes are set only in files that were there at the start") == 1, said


def test_a_file_that_takes_the_place_of_another_is_said_to_have_none(folder: Path) -> None:
    text = "./prog-old 3; cp burst next; mv next prog-old; ./prog-old 5\n"
    symbols = subprocess.run(["nm", folder / "prog-old"], capture_output=True, text=True, check=True).stdout
    [address] = re.findall(r"^(\w+) \w work$", symbols, re.MULTILINE)
    out, said = run_script(folder, text, f"uprobe:FOLDER/prog-old:0x{address} {{ @ = count(); }}")
    assert "@: 3" in out, (out, said)
    assert said.count("such probes are set only in files that were there at the start") == 1, said


def test_where_the_kernel_does_not_report_mappings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateImages, "open_rings", lambda self, more=0: False)
    with pytest.warns(RuntimeWarning, match="does not report what processes map"), sonde.trace(
            f"uprobe:{folder}/prog-old:work {{ @ = count(); }}", command=[str(folder / "prog-old"), "4"],
            follow=True) as trace:
        trace.run(timeout=30)
    assert trace.maps["@"].value == 4 and trace.losses.uncovered == 1
