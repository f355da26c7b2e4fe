"""The tree as text."""

from __future__ import annotations

from sonde.language import ast
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import dump_clauses, dump_script
from sonde.language.parser import parse_script
from sonde.source import Source
from sonde.types import UINT32

TEXT = """#define N 2
struct S { int a[2]; struct { char *b; } c; };
k:f /pid/ { @x[1, "a"] += (uint8)false; if $y { print(sizeof(struct S)); } else { return } }"""


def parsed() -> ast.Script:
    diagnostics = Diagnostics()
    script = parse_script(Source("stdin", TEXT), diagnostics)
    diagnostics.raise_if_errors()
    return script


def test_dump() -> None:
    assert dump_script(parsed()) == """\
Script defines={'N': '2'}
  clauses:
    Clause
      points:
        AttachPoint text='k:f' parts=['k', 'f']
      predicate: Name name='pid'
      body:
        Assign op='+'
          target: MapRef name='@x'
            key: TupleExpr
              items:
                IntLiteral value=1
                StrLiteral value='a'
          value: Cast to=uint8
            operand: BoolLiteral value=False
        If
          cond: Variable name='y'
          then:
            ExprStmt
              expr: Call name='print'
                args:
                  SizeOf what=struct S
          other:
            Return
  definitions:
    CStruct name='S' union=False
      fields:
        CField name='a' type=int[2]
        CField name='c' type=struct
          inline: CStruct name='' union=False
            fields:
              CField name='b' type=char *
"""


def test_checked_types_are_shown() -> None:
    clause = parsed().clauses[0]
    assert clause.predicate is not None
    clause.predicate.type, clause.predicate.const = UINT32, 7
    assert "  predicate: Name name='pid' :: [uint32] = 7\n" in dump_clauses([clause])
