"""A table as LaTeX and Markdown: the same cells, ours and published ones in columns of their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of ready cells. caption: what was measured, on what, and what the published column is; None is a dash.

    A cell may hold line breaks: stacked in LaTeX, semicolons in Markdown. An empty row is a rule in LaTeX. fitted: LaTeX shrinks the table to the text's width
    (which needs graphicx).
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    caption: str
    label: str
    fitted: bool = False

    def markdown(self) -> str:
        """A GitHub table, caption below."""
        lines = [
            "| " + " | ".join(map(_pipe, self.head)) + " |",
            "|" + "|".join([" --- ", *[" ---: "] * (len(self.head) - 1)]) + "|",
        ]
        lines += ["| " + " | ".join(_pipe(cell or "–") for cell in row) + " |" for row in self.rows if row]
        return "\n".join(lines) + f"\n\n{self.caption}\n"

    def latex(self) -> str:
        """A `table` environment with booktabs rules; compiles with any Unicode engine, or pdfTeX with inputenc's utf8."""
        columns = "l" + "r" * (len(self.head) - 1)
        wide = "*" if len(self.head) > 4 else ""  # across both columns of the page
        body = [" & ".join(_stacked(cell or "–") for cell in row) + r" \\" if row else r"\midrule" for row in self.rows]
        before, after = (r"\resizebox{\textwidth}{!}{", "}") if self.fitted else ("", "")
        return "\n".join(
            [
                rf"\begin{{table{wide}}}[t]",
                r"  \centering",
                rf"  \caption{{{_tex(self.caption)}}}",
                rf"  \label{{tab:{self.label}}}",
                rf"  {before}\begin{{tabular}}{{{columns}}}",
                r"    \toprule",
                "    " + " & ".join(map(_stacked, self.head)) + r" \\",
                r"    \midrule",
                *("    " + line for line in body),
                r"    \bottomrule",
                rf"  \end{{tabular}}{after}",
                rf"\end{{table{wide}}}",
                "",
            ]
        )


def interval(value: float, low: float, high: float, form: str = ".2f") -> str:
    """ "1.23 [1.01, 1.40]"; the value alone where there is no interval."""
    known = low == low and high == high
    return f"{value:{form}} [{low:{form}}, {high:{form}}]" if known else f"{value:{form}}"


_SYMBOLS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "–": "--", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "×": r"$\times$", "÷": r"$\div$", "−": "$-$",
    "λ": r"$\lambda$", "α": r"$\alpha$", "ρ": r"$\rho$", "τ": r"$\tau$", "‖": r"$\|$", "²": r"$^2$", "→": r"$\to$", "±": r"$\pm$", "µ": r"$\mu$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_SYMBOLS.get(c, c) for c in text)


def _stacked(text: str) -> str:
    """A cell of several lines as a table in the table, its lines aligned at the right like the cells."""
    first, *more = map(_tex, text.split("\n"))
    return r"\begin{tabular}[t]{@{}r@{}}" + r" \\ ".join([first, *more]) + r"\end{tabular}" if more else first


def _pipe(text: str) -> str:
    return text.replace("|", r"\|").replace(":\n", ": ").replace("\n", "; ")
