"""scripts/cut_version.py: a version's section of the changelog, made from fragments."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import cut_version  # noqa: E402

DAY = date(2027, 1, 31)
FRAGMENTS = {
    "views.md": "### Fixed\n\n- Heat maps fit.\n\n### Added\n\n- A view,\n  which is long.\n",
    "fleet.md": "### Fixed\n- Hosts come back.\n",
}
SECTION = """## 0.3.0 (2027-01-31)

### Added

- A view, which is long.

### Fixed

- Hosts come back.
- Heat maps fit.
"""


def make_tree(folder: Path, fragments: dict[str, str]) -> Path:
    (folder / "changelog.d").mkdir()
    (folder / "src/sonde/base").mkdir(parents=True)
    for name, text in {"README.md": "# Lines\n\nA file.\n", **fragments}.items():
        (folder / "changelog.d" / name).write_text(text)
    (folder / "CHANGELOG.md").write_text("# Changes\n\nText.\n\n## 0.2.0 (2026-11-28)\n\n### Added\n\n- All.\n")
    (folder / "src/sonde/base/version.py").write_text('"""Which."""\n\n__version__ = "0.2.0"\n')
    return folder


def test_write_section_has_all_entries_under_three_headings() -> None:
    assert cut_version.write_section("0.3.0", DAY, FRAGMENTS) == SECTION


def test_cut_version_changes_all_files(tmp_path: Path) -> None:
    root = make_tree(tmp_path, FRAGMENTS)
    assert cut_version.cut_version(root, "0.3.0", DAY, dry_run=False) == SECTION
    assert (root / "CHANGELOG.md").read_text() == (
        f"# Changes\n\nText.\n\n{SECTION}\n## 0.2.0 (2026-11-28)\n\n### Added\n\n- All.\n")
    assert '__version__ = "0.3.0"\n' in (root / "src/sonde/base/version.py").read_text()
    assert [path.name for path in (root / "changelog.d").iterdir()] == ["README.md"]


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    root = make_tree(tmp_path, FRAGMENTS)
    before = {path: path.read_text() for path in root.rglob("*") if path.is_file()}
    assert cut_version.cut_version(root, "0.3.0", DAY, dry_run=True) == SECTION
    assert {path: path.read_text() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("version", "fragments", "message"), [
    ("0.2.0", FRAGMENTS, "0.2.0 is not above 0.2.0"),
    ("0.1.9", FRAGMENTS, "0.1.9 is not above 0.2.0"),
    ("0.3", FRAGMENTS, "a version is three numbers"),
    ("0.3.0", {}, "no fragments"),
    ("0.3.0", {"a.md": "- An entry.\n"}, r"a\.md:1: not a heading"),
    ("0.3.0", {"a.md": "### Removed\n\n- An entry.\n"}, r"a\.md:1: not a heading"),
    ("0.3.0", {"a.md": "### Added\n\nA sentence.\n"}, r"a\.md:3: not a heading"),
])
def test_cut_version_rejects(tmp_path: Path, version: str, fragments: dict[str, str], message: str) -> None:
    root = make_tree(tmp_path, fragments)
    with pytest.raises(ValueError, match=message):
        cut_version.cut_version(root, version, DAY, dry_run=False)
    assert '"0.2.0"' in (root / "src/sonde/base/version.py").read_text()


def test_versions_compare_as_numbers() -> None:
    assert cut_version.version_key("0.10.0") > cut_version.version_key("0.9.9")


def test_the_fragments_of_this_tree_can_be_cut() -> None:
    for path in (ROOT / "changelog.d").glob("*.md"):
        if path.name != "README.md":
            assert cut_version.read_entries(path.name, path.read_text())
