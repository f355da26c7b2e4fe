"""Equal texts are equal keys, and no JSON object has two members of one name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import compile_c, run_sonde

# Each name is written over a longer one, of which the rest stays behind the NUL; "full" has none at all.
NAMES = """
#include <string.h>
struct item { char pad; char name[16]; char long_name[100]; char huge[300]; short numbers[3]; };
__attribute__((noipa)) void hit(struct item *item) { __asm__ volatile ("" :: "r"(item) : "memory"); }
static void name(struct item *item, const char *text) {
    strcpy(item->name, text); strcpy(item->long_name, text); strcpy(item->huge, text); hit(item);
}
int main(void) {
    static struct item item, other;
    memset(item.huge, 'h', sizeof item.huge - 1);
    memset(item.long_name, 'l', sizeof item.long_name - 1);
    name(&item, "longer-123456"); name(&item, "ab"); name(&other, "ab"); name(&item, "longer"); name(&item, "");
    name(&item, "12345678"); name(&item, "1234567"); name(&other, "1234567"); name(&other, "12345678");
    memset(item.name, 'z', sizeof item.name);
    memset(item.long_name, 'z', sizeof item.long_name);
    memset(item.huge, 'z', sizeof item.huge);
    hit(&item);
    return 0;
}
"""
WANTED = {"": 1, "longer-123456": 1, "ab": 2, "longer": 1, "12345678": 2, "1234567": 2}
STRUCT = "struct item { char pad; char name[16]; char long_name[100]; char huge[300]; short numbers[3]; };\n"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(NAMES, tmp_path_factory.mktemp("names"), "names")


def maps_of(script: str, *args: str) -> dict[str, Any]:
    """The maps of a run, by name; ValueError if an object has two members of one name."""
    def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError(f"two members of one name: {pairs}")
        return dict(pairs)
    result = run_sonde("-f", "json", *args, "-e", script)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = {}
    for line in result.stdout.splitlines():
        message = json.loads(line, object_pairs_hook=without_twins)
        if message["type"] == "map":
            found |= message["data"]
    return found


@pytest.mark.parametrize("member,size", [("name", 16), ("long_name", 100), ("huge", 300)])
def test_arrays_of_characters_are_texts(member: str, size: int, names: Path) -> None:
    script = f"""config = {{ max_strlen = 512 }} {STRUCT} uprobe:{names}:hit {{ $item = (struct item *)arg0;
        @direct[$item->{member}] = count(); $text = $item->{member}; @kept[$text] = count();
        @tuple[1, $item->{member}] = count(); @record[(a=$item->{member}, b=1)] = count();
        @equal[(1, $item->{member}) == (1, "ab")] = count(); @value = $item->{member}; }}"""
    found = maps_of(script, "-c", str(names))
    full = "z" * size
    assert found["@direct"] == found["@kept"] == WANTED | {full: 1}
    assert found["@tuple"] == {f"1,{name}": count for name, count in (WANTED | {full: 1}).items()}
    assert sorted(found["@record"].values()) == sorted((WANTED | {full: 1}).values())
    assert found["@equal"] == {"true": 2, "false": 8} and found["@value"] == full


def test_structs_that_print_the_same(names: Path) -> None:
    """What tells them apart is not printed: all are there, under names of their own."""
    found = maps_of(f"{STRUCT} uprobe:{names}:hit {{ $item = (struct item *)arg0; @[*$item] = count(); }}",
                    "-c", str(names))["@"]
    assert sum(found.values()) == 10 and len(found) == 10
    assert [key for key in found if key.endswith("#2")]


@pytest.mark.parametrize("script,sizes", [
    (r'begin { @["\xff"] = 1; @["\xfe"] = 2; @["\xfd"] = 4; exit(); }', [1, 2, 4]),
    (r'begin { @["\xff", 1] = count(); @["\xfe", 1] = count(); exit(); }', [1, 1]),
    ('begin { @["a,b", "c"] = 1; @["a", "b,c"] = 2; exit(); }', [1, 2]),
])
def test_keys_that_print_the_same(script: str, sizes: list[int]) -> None:
    assert sorted(maps_of(script)["@"].values()) == sizes
