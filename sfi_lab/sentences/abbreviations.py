"""Abbreviations whose full stop usually ends nothing: English and German, small on purpose."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A name or a number follows; the capital letter that comes next says nothing.
TITLES = _words(
    "mr mrs ms mx dr prof rev gen col capt cmdr lt sgt sen rep gov hon pres st mt messrs mme mlle hr fr frl dipl ing"
)
# Something always follows.
INNER = _words(
    "e.g i.e eg ie cf vs viz fig figs eq eqs sec chap vol vols pp ed eds approx ca resp incl excl ref refs tab thm abs "
    "z.b d.h u.a m.e i.d.r s.u v.a o.g bzw vgl sog ggf evtl abb kap nr bd hrsg str tel geb gest inkl zzgl exkl einschl "
    "allg bspw insb zit betr"
)
# May as well be the last word of its sentence; a capital letter then decides.
MAY_END = _words(
    "etc usw usf inc ltd corp co llc plc jr sr bros dept univ ave blvd al a.m p.m a.d b.c b.c.e ph.d m.d b.a m.a "
    "jan feb apr aug sept oct nov dec min max mio mrd std u.ä o.ä u.u v.chr n.chr jh jhd ff gmbh"
)
# "No. 5" against "No.": a digit decides.
NUMERO = _words("No Nos Art")
# Words of their own, or endings of nothing, when written small ("the last rep.", "a new tab.").
_NEED_CAPITAL = _words("ms rev gen col lt sen rep gov hon pres st mt hr fr ing sec ref refs tab abs str")


def listed(word: str, names: frozenset[str]) -> bool:
    """Whether `word`, without its last stop, is one of `names`; some count only when written with a capital letter."""
    small = word.lower()
    return small in names and (small not in _NEED_CAPITAL or word[:1].isupper())
