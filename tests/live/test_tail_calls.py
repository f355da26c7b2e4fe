"""Returns of functions that end with a jump to another, which returns in their place: results, counts and times are of
the calls that the program counts itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import run_sonde

# Two threads call functions that end in each other, and that are left by longjmp() now and then: also from the same
# place, so that a function is entered where another one, which jumps to it, was left before.
SOURCE = r"""
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define NOIPA __attribute__((noipa))
static __thread jmp_buf out;
NOIPA int shared(int x) { if (x % 5 == 0) longjmp(out, 1); return x * 2; }
NOIPA int direct(int x) { return x > 250 ? x : shared(x + 1); }
NOIPA int second(int x) { return shared(x + 3); }
NOIPA int third(int x) { return x & 1 ? 5 : shared(x + 2); }
NOIPA int middle(int x) { return third(x + 1); }
NOIPA int outer(int x) { return middle(x + 1); }
NOIPA int last(int x) { return x; }
NOIPA int deep(int x) { return x < 2 ? last(x) : (x = deep(x - 1) + deep(x - 2), last(x)); }
NOIPA int even(int x);
NOIPA int odd(int x) { return x == 0 ? 0 : even(x - 1); }
NOIPA int even(int x) { return x == 0 ? 1 : odd(x - 1); }
NOIPA long away(const char *text) { return strtol(text, 0, 10); }
NOIPA int chosen(int (*function)(int), int x) { return function(x); }
static long calls[6], returns[6], sums[6];
static const char *names[] = {"shared", "direct", "second", "third", "middle", "outer"};
static int (*functions[])(int) = {shared, direct, second, third, middle, outer};
static void *work(void *unused) {
    for (int x = 0; x < 300; x++)
        for (int which = 0; which < 6; which++) {
            __atomic_add_fetch(&calls[which], 1, 5);
            if (!setjmp(out)) {
                int result = functions[which](x);
                __atomic_add_fetch(&returns[which], 1, 5), __atomic_add_fetch(&sums[which], result, 5);
            }
        }
    return 0;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    work(0);
    pthread_join(thread, 0);
    long total = deep(10);
    for (int x = 0; x < 40; x++)
        total += away("13") + even(x) + chosen(last, x);
    for (int which = 0; which < 6; which++)
        printf("%s %ld %ld %ld\n", names[which], calls[which], returns[which], sums[which]);
    printf("%ld\n", total);
    return 0;
}
"""
# function -> (calls, returns, sum of results): third is also called by middle, and so on.
TOTALS = {"direct": ["direct"], "second": ["second"], "outer": ["outer"], "middle": ["middle", "outer"],
          "third": ["third", "middle", "outer"]}


@pytest.fixture(scope="module", params=["-O2", "-O2 -fno-plt -fcf-protection", "-m32 -O2"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("tails")
    (folder / "t.c").write_text(SOURCE)
    made = subprocess.run(["gcc", *request.param.split(), "-pthread", "-o", "prog", "t.c"], cwd=folder,
                          capture_output=True, text=True)
    if made.returncode and "-m32" in request.param:
        pytest.skip("gcc-multilib is not installed")
    assert made.returncode == 0, made.stderr
    return folder / "prog"


def test_results(program: Path) -> None:
    """Of calls that are left by longjmp() there are none; a jump that leads back is not followed, but counted. What the
    other function takes is part of the call; where that is not known, the jump counts as the return."""
    names = [*TOTALS, "deep", "away"]
    script = "".join([f"uprobe:{program}:{name} {{ @c{name} = count(); }} uretprobe:{program}:{name} {{ "
                      f"@r{name} = count(); @s{name} = sum((int32)retval); }} " for name in names])
    word = 4 if program.read_bytes()[4] == 1 else 8  # which the return has taken off the stack
    script += (f"uretprobe:{program}:even {{ @reven = count(); @seven = sum((int32)retval); }} "
               f"uretprobe:{program}:chosen {{ @rchosen = count(); }} uprobe:{program}:last {{ @last[tid] = nsecs; }} "
               f"uprobe:{program}:deep {{ @call[reg(\"sp\")] = nsecs; }} uretprobe:{program}:deep "
               f"/@last[tid] > @call[reg(\"sp\") - {word}] && @call[reg(\"sp\") - {word}]/ {{ @after = count(); }}")
    alone = subprocess.run([program], capture_output=True, text=True, check=True)
    traced = run_sonde("-c", str(program), "--returns", "instructions", "-e", script)
    assert traced.returncode == 0 and alone.stdout in traced.stdout, (traced.stdout, traced.stderr)
    own = {name: [int(each) for each in rest] for name, *rest in
           re.findall(r"^(\w+) (\d+) (\d+) (\d+)$", alone.stdout, re.MULTILINE)}
    expected = {name: [sum(column) for column in zip(*[own[each] for each in parts])] for name, parts in TOTALS.items()}
    values = {name: int(value) for name, value in re.findall(r"^@(\w+): (\d+)$", traced.stdout, re.MULTILINE)}
    assert {name: [values[f"{key}{name}"] for key in "crs"] for name in TOTALS} == expected
    assert values["cdeep"] == values["rdeep"] == values["after"] == 177 and values["sdeep"] == 420  # of deep(10)
    assert [values[f"{key}away"] for key in "crs"] == [40, 40, 40 * 13]
    left = sum([counts[0] - counts[1] for counts in expected.values()])
    assert f"{left} calls did not return" in traced.stderr
    assert "even may end with a jump to another function" in traced.stderr
    assert values["rchosen"] == 40 and "chosen may end with a jump to another" in traced.stderr
    assert values["reven"] == values["seven"] == 20
    assert re.search(r"Return not seen: the call ended with a jump to another function.*\[\d+ times\]", traced.stderr)
