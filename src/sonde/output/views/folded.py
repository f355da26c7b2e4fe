"""``-f folded``: one line for each stack, as flame-graph scripts read them."""

from __future__ import annotations

from .stacks import UNIT, StackView, folded_lines


class FoldedView(StackView):
    """Lines ``comm;outer;inner;kernel_[k] 12``."""

    def finish(self) -> None:
        self.write(self.run_comment())
        if self.unit and self.target.is_file:
            self.write(f"# {UNIT}{self.unit}.\n")
        for line in folded_lines(self.folded):
            self.write(line)
