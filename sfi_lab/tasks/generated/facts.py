"""Questions over a made-up fact base: things belong to people, people live in towns, towns are famous for goods."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.haystack import Haystack

# Names and words that most tokenizers keep in one or two pieces: small models misspell rare ones.
FIRST_NAMES = (
    *("Alice", "Anna", "Daniel", "David", "Diana", "Emma", "Frank", "George", "Helen", "Henry", "Jack", "Julia"),
    *("Karen", "Laura", "Lucy", "Maria", "Martin", "Oliver", "Paul", "Peter", "Robert", "Sarah", "Simon", "Thomas"),
)
SURNAMES = (
    *("Baker", "Carter", "Cooper", "Fisher", "Foster", "Gardner", "Harper", "Hunter", "Miller", "Parker", "Porter"),
    *("Shepherd", "Taylor", "Turner", "Walker", "Weaver"),
)
TOWNS = (
    *("Ashland", "Bridgewater", "Burlington", "Dover", "Eastwood", "Fairfield", "Greenville", "Highland", "Lakewood"),
    *("Newport", "Oakland", "Plymouth", "Riverside", "Salem", "Springfield", "Westfield"),
)
GOODS = (
    *("cheese", "clocks", "honey", "glass", "pottery", "salt", "wine", "paper", "candles", "wool", "carpets"),
    *("knives", "bells", "shoes", "roses", "bread"),
)
THINGS = (
    *("silver watch", "red bicycle", "old guitar", "stone lamp", "blue boat", "brass telescope", "green piano"),
    *("wooden chest", "white horse", "iron stove", "glass table", "yellow tent", "leather chair", "black car"),
)
CHAINS = 3  # thing, person, town, good: three facts each; with four the bundled model is near chance


@dataclass(frozen=True, slots=True)
class Chain:
    """One person with a thing, a town and what the town is famous for; three facts."""

    thing: str
    person: str
    town: str
    good: str

    def facts(self) -> tuple[str, str, str]:
        return (
            f"The {self.thing} belongs to {self.person}.",
            f"{self.person} lives in {self.town}.",
            f"The town of {self.town} is famous for its {self.good}.",
        )


@dataclass(frozen=True, slots=True)
class Form:
    """A question and how its answer begins (both with a chain's fields), what is asked, and which of a chain's facts that needs."""

    question: str
    begins: str
    asked: tuple[str, ...]
    needs: tuple[int, ...]


# A two-hop question asks for what the hop goes over too, so that a model that finds the first fact only scores a half.
ONE_HOP = (
    Form("who owns the {thing}?", "The {thing} belongs to", ("person",), (0,)),
    Form("where does {person} live?", "{person} lives in", ("town",), (1,)),
    Form("what is the town of {town} famous for?", "The town of {town} is famous for its", ("good",), (2,)),
)
TWO_HOPS = (
    Form("who owns the {thing}, and where does the owner live?", "The {thing} belongs to", ("person", "town"), (0, 1)),
    Form("where does {person} live, and what is that town famous for?", "{person} lives in", ("town", "good"), (1, 2)),
)  # fmt: skip


def fact_base(rng: random.Random, chains: int = CHAINS) -> list[Chain]:
    """Chains that share no thing, name, town or good; as many as the shortest list has at most."""
    lists = [rng.sample(stock, chains) for stock in (THINGS, FIRST_NAMES, TOWNS, GOODS)]
    return [Chain(*fields) for fields in zip(*lists, strict=True)]


def fact_qa(length: int, rng: random.Random, hay: Haystack, hops: int | None = None) -> Draft:
    """Nine facts in random order through the text, and one question.

    hops: facts that the answer needs, 1 or 2; both equally often where None. The depths are those of the facts needed.
    """
    chains = fact_base(rng)
    chain = rng.choice(chains)
    hops = hops or rng.choice((1, 2))
    form = rng.choice(ONE_HOP if hops == 1 else TWO_HOPS)
    facts = [fact for each in chains for fact in each.facts()]
    rng.shuffle(facts)
    fields = {name: getattr(chain, name) for name in ("thing", "person", "town", "good")}
    frame = f"Question: by the text above, {form.question.format(**fields)}\nAnswer: {form.begins.format(**fields)}"
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return Draft(
        prompt,
        tuple(fields[name] for name in form.asked),
        tuple(depths[facts.index(chain.facts()[i])] for i in form.needs),
        32,
        stop=("\n",),
        labels=(("hops", str(hops)),),
    )
