"""Tasks made from a seed: text of a chosen length with facts in it (after RULER, arXiv 2404.06654), and long generation."""
