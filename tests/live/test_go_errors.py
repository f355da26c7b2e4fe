"""Go's errors as texts: types and what they say, against what the program prints of them; memory that is no error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from go_programs import COMPILERS, build_go
from support import run_sonde

# Each error is printed as Go has it, and passed to functions; then come interfaces that point anywhere.
PROGRAM = r"""
package main

import ("errors"; "fmt"; "os"; "strings"; "unsafe")

type own struct { text [2]string }
func (own) Error() string { return "own" }
type LONG int
func (x LONG) Error() string { return "x" }

//go:noinline
func handle(err error, n int) (int, error) { if n > 5 { return n, nil }; return -n, err }
//go:noinline
func hostile(err error) { w := (*[2]uintptr)(unsafe.Pointer(&err)); if w[0] == 3 { fmt.Println(w) }; w[0], w[1] = 0, 0 }

type inner struct { code int; err error }
type outer struct { in inner; err error; next *outer }
//go:noinline
func within(in inner, out *outer, n int) inner { if n > 5 { return inner{} }; return inner{in.code + 1, out.err} }

func main() {
	_, path := os.Open("/nosuch/file")
	all := []error{nil, errors.New("plain"), fmt.Errorf("more: %w", os.ErrNotExist), path, own{}, errors.New(""),
		errors.New(strings.Repeat("a", 2000)),
		LONG(1)}
	for n, err := range all {
		fmt.Printf("type %T %v\n", err, err)
		handle(err, n)
	}
	table := &[16]uintptr{}
	for i := range table { table[i] = ^uintptr(0) }
	kind := &[16]uintptr{0, uintptr(unsafe.Pointer(table))}
	for _, at := range []uintptr{1, 0x1000, 1 << 47 - 8, 1 << 63, ^uintptr(7), uintptr(unsafe.Pointer(kind))} {
		fake := [2]uintptr{at, at}
		hostile(*(*error)(unsafe.Pointer(&fake)))
	}
	next := &outer{inner{3, nil}, errors.New("next"), nil}
	within(inner{1, errors.New("value")}, &outer{inner{2, path}, errors.New("more"), next}, len(all) - 5)
	good := errors.New("good")
	(*[2]uintptr)(unsafe.Pointer(&good))[1] = uintptr(unsafe.Pointer(&[2]uintptr{0x10, ^uintptr(0)}))
	hostile(good)
	fmt.Println("over")
}
"""

SCRIPT = """
uprobe:PROG:main.handle { printf("arg %s\\n", args.err); @[args.err] = count(); }
uretprobe:PROG:main.handle /results.r1 != "nil"/ { printf("ret %s\\n", str(results.r1)); print(results); }
uprobe:PROG:main.within { print(args.in); printf("in %s, %s\\n", args.in.err, args.out->in.err); print(args.out->in);
    printf("next %s\\n", args.out->next->err); @in[args.in] = count(); }
uretprobe:PROG:main.within { print(retval); printf("back %s\\n", retval.err); }
uprobe:PROG:main.hostile { @hostile = count(); @texts[args.err] = count(); }
"""
LONG = "ATypeWithSuchALongNameThatItsVarintHasTwoBytes" * 3  # 138 bytes


@pytest.fixture(scope="module", params=[(compiler, *flags) for compiler in COMPILERS for flags in ((), (
    "-buildmode=pie",))], ids=lambda words: "-".join(words))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = PROGRAM.replace("LONG", LONG)
    return build_go(tmp_path_factory.mktemp("errors"), source, *request.param[1:], compiler=request.param[0])


def test_errors(program: Path) -> None:
    """The program prints the types by their names (``%T``), so that these are in its memory."""
    done = run_sonde("-e", SCRIPT.replace("PROG", str(program)), "-c", str(program))
    printed = done.stdout.splitlines()
    assert done.returncode == 0 and "over" in printed, done.stderr
    said = [re.split(" ", line, maxsplit=2)[1:] for line in printed if line.startswith("type ")]
    texts = ["nil", *[f"{kind}: {text}" for kind, text in said[1:3]], f"{said[3][0]}: open /nosuch/file", said[4][0],
             "*errors.errorString: ", f"*errors.errorString: {'a' * 127}", f"main.{LONG}"[:63]]
    assert [line[4:] for line in printed if line.startswith("arg ")] == texts
    assert [line[4:] for line in printed if line.startswith("ret ")] == texts[1:6]
    assert f"{{ .r0 = -1, .r1 = {texts[1]} }}" in printed
    assert {f"@[{text}]: 1" for text in texts} <= set(printed)
    assert "@hostile: 7" in printed and "@texts[*errors.errorString: ]: 1" in printed
    value, path = "*errors.errorString: value", texts[3]
    assert {f"{{ .code = 1, .err = {value} }}", f"in {value}, {path}", f"{{ .code = 2, .err = {path} }}",
            "next *errors.errorString: next", f"@in[{{ .code = 1, .err = {value} }}]: 1",
            "{ .code = 2, .err = *errors.errorString: more }", "back *errors.errorString: more"} <= set(printed)
