#!/usr/bin/env python3
"""Write the extension for VS Code: python3 scripts/make_vsix.py [FILE]

A .vsix is a zip: the extension's files, a manifest, and the types of files in it (Open Packaging Conventions).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "editors" / "vscode"
TYPES = {".json": "application/json", ".js": "application/javascript", ".md": "text/markdown",
         ".vsixmanifest": "text/xml", ".txt": "text/plain"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files make the same bytes


def version() -> str:
    """Sonde's version, as VS Code wants it: three numbers."""
    sys.path.insert(0, str(ROOT / "src"))
    from sonde.base.version import __version__
    numbers = [part for part in __version__.split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][:3])


def manifest(package: dict[str, str]) -> str:
    """extension.vsixmanifest."""
    identity = f'Id={quoteattr(package["name"])} Version={quoteattr(package["version"])} ' \
               f'Publisher={quoteattr(package["publisher"])}'
    engine = json.loads((FOLDER / "package.json").read_text())["engines"]["vscode"]
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" {identity}/>
    <DisplayName>{escape(package["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(package["description"])}</Description>
    <Categories>Programming Languages,Debuggers</Categories>
    <License>extension/LICENSE.txt</License>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={quoteattr(engine)}/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def content_types() -> str:
    """[Content_Types].xml."""
    rows = "".join([f'<Default Extension="{suffix}" ContentType="{kind}"/>' for suffix, kind in TYPES.items()])
    return '<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="http://schemas.openxmlformats.org/package/2006/' \
           f'content-types">{rows}</Types>\n'


def write_extension(target: Path) -> None:
    """Write the .vsix."""
    package = json.loads((FOLDER / "package.json").read_text()) | {"version": version()}
    texts = {"extension.vsixmanifest": manifest(package), "[Content_Types].xml": content_types(),
             "extension/package.json": json.dumps(package, indent=2) + "\n",
             "extension/LICENSE.txt": (ROOT / "LICENSE").read_text()}
    for file in sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.name != "package.json"):
        texts[f"extension/{file.relative_to(FOLDER).as_posix()}"] = file.read_text()
    target.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(target, "w") as archive:
        for name, text in texts.items():
            info = ZipInfo(name, EPOCH)
            info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, text)


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "sonde.vsix"
    write_extension(file)
    print(f"{file}: {file.stat().st_size} bytes; code --install-extension {file}")
