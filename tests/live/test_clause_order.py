"""Clauses of one place run in the script's order, and exit() in one keeps the later ones from running."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import compile_c, run_sonde

PROGRAM = r"""
#include <unistd.h>
#define STATIC asm volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n" \
    ".4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte 0\n.asciz \"mine\"\n" \
    ".asciz \"point\"\n.asciz \"\"\n994: .balign 4\n.popsection\n")
__attribute__((noinline)) int one(int n) { asm volatile(""); return n + 1; }
__attribute__((noinline)) int other(int n) { asm volatile(""); return one(n) + 1; }
int main(void) { STATIC; for (int i = 0; i < 2; i++) other(i); getppid(); return 0; }
"""
PLACES = ["uprobe:{bin}:one", "uretprobe:{bin}:one", "usdt:{bin}:mine:point",
          "tracepoint:syscalls:sys_enter_getppid", "tracepoint:syscalls:sys_exit_getppid",
          "rawtracepoint:sys_enter", "rawtracepoint:sched_process_exit", "tracepoint:sched:sched_process_exit"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(PROGRAM, tmp_path_factory.mktemp("order"), "ordered", "-no-pie")


def printed(script: str, program: Path) -> list[str]:
    """The lines that a script prints while the program runs."""
    done = run_sonde("-q", "-e", script.replace("{bin}", str(program)), "-c", str(program))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("place", PLACES)
def test_clauses_run_in_order(place: str, program: Path) -> None:
    at = f"{place} /pid == cpid && @done == 0/"
    script = f'{at} {{ printf("a\\n"); }} {at} {{ printf("b\\n"); return; }} {at} {{ printf("c\\n"); @done = 1; }}'
    assert printed(script + " end { clear(@done); }", program) == ["a", "b", "c"]


@pytest.mark.parametrize("place", PLACES[:1] + PLACES[3:4] + PLACES[-1:])
def test_more_clauses_than_a_program_may_have_maps(place: str, program: Path) -> None:
    """64 of them: the clauses become several programs, in the script's order."""
    script = " ".join(f'{place} /pid == cpid/ {{ @c{i} = count(); printf("{i} "); }}' for i in range(150))
    done = run_sonde("-q", "-c", str(program), "-e", script.replace("{bin}", str(program)))
    assert done.returncode == 0, done.stderr
    times = 2 if place.startswith("uprobe") else 1
    assert done.stdout.split("@")[0].split() == times * [str(i) for i in range(150)]
    assert set(done.stdout.split()) >= {f"@c{i}:" for i in range(150)}
    assert done.stdout.count(f": {times}\n") == 150


@pytest.mark.parametrize("place", PLACES)
def test_a_loop_between_two_clauses_keeps_its_place(place: str, program: Path) -> None:
    at = f"{place} /pid == cpid && @done == 0/"
    script = (f'{at} {{ printf("a\\n"); }} {at} {{ $i = 0; while ($i < 9) {{ $i++; }} printf("%d\\n", $i); }} '
              f'{at} {{ printf("c\\n"); @done = 1; }}')
    assert printed(script + " end { clear(@done); }", program) == ["a", "9", "c"]


@pytest.mark.parametrize("place", PLACES)
def test_exit_ends_the_later_clauses(place: str, program: Path) -> None:
    at = f"{place} /pid == cpid/"
    script = f'{at} {{ printf("a\\n"); }} {at} {{ printf("b\\n"); exit(); }} {at} {{ printf("c\\n"); }}'
    assert printed(script + ' end { printf("end\\n"); }', program) == ["a", "b", "end"]


def test_overlapping_patterns_keep_the_order(program: Path) -> None:
    script = ('uprobe:{bin}:o* { printf("%s\\n", func); } uprobe:{bin}:one { printf("second\\n"); } '
              'uprobe:{bin}:ot* { printf("third\\n"); }')
    assert printed(script, program) == ["other", "third", "one", "second"] * 2


def test_one_place_by_two_names_keeps_the_order(program: Path) -> None:
    assert printed('uprobe:{bin}:one { printf("a\\n"); } uprobe:{bin}:one+0 { printf("b\\n"); }', program) \
        == ["a", "b"] * 2


def test_clauses_of_one_timer_keep_the_order() -> None:
    done = run_sonde("-q", "-e", 'interval:ms:20 { printf("a "); } interval:ms:20 { printf("b "); } '
                     'interval:ms:20 { printf("c\\n"); if (++@n == 5) { clear(@n); exit(); } }')
    assert done.stdout.split() == ["a", "b", "c"] * 5


def test_every_clause_of_every_place_counts_as_a_probe(program: Path) -> None:
    done = run_sonde("-e", f"uprobe:{program}:one {{ @a++ }} uprobe:{program}:one {{ @b++ }} end {{ }}",
                     "-c", str(program))
    assert done.stderr.splitlines()[0] == "Attached 3 probes"
    assert done.stdout.split() == ["@a:", "2", "@b:", "2"]


def test_a_time_that_a_value_reads_does_not_move_the_line(program: Path) -> None:
    script = ('tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { $then = nsecs; '
              'printf("%.0sa\\n", strftime("%S", nsecs)); printf("b\\n"); if ($then == 0) { exit(); } } '
              "interval:s:9 { exit(); }")
    assert printed(script, program) == ["a", "b"]
