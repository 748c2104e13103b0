// Why steps are slow: one letter a reason, for ticks, marks and legends alike. No DOM, so `node --test` runs it.

const KNOWN = {
  first: ['1', 'first'], sentence: ['S', 'sentence end'], t_max: ['T', 'T_max'], period: ['P', 'period'], random: ['R', 'random'],
  drift: ['D', 'drift'], nothing_to_select: ['N', 'nothing to select'],
};

/**
 * [{reason, letter, name}] of the reasons that make steps of a run slow, the known ones first. A reason of a policy that isn't
 * known here goes by its name, and by its first letter that no other reason of the run has.
 */
export function reasonsOf(run) {
  const found = new Set(run.reason.filter((_, step) => run.slow[step]));
  const marks = Object.keys(KNOWN).filter((reason) => found.has(reason)).map((reason) => ({ reason, letter: KNOWN[reason][0], name: KNOWN[reason][1] }));
  const taken = new Set(marks.map(({ letter }) => letter));
  for (const reason of [...found].filter((one) => !(one in KNOWN)).sort()) {
    const letters = [...reason.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
    const letter = letters.find((one) => !taken.has(one)) ?? letters[0] ?? '?';
    taken.add(letter);
    marks.push({ reason, letter, name: reason.replaceAll('_', ' ') });
  }
  return marks;
}

/** The letter of every reason of a run, as a Map. */
export const lettersOf = (run) => new Map(reasonsOf(run).map(({ reason, letter }) => [reason, letter]));

/** The legend's text and its tooltip: the reasons that this run has, and those that it could have had. */
export function reasonLegend(run) {
  const here = reasonsOf(run), rest = Object.entries(KNOWN).filter(([reason]) => !here.some((one) => one.reason === reason));
  return {
    text: here.length ? `slow step: ${here.map(({ letter, name }) => `${letter} ${name}`).join(', ')}` : 'slow step',
    title: `why a step read everything${rest.length ? `; not in this run: ${rest.map(([, [letter, name]]) => `${letter} ${name}`).join(', ')}` : ''}`,
  };
}
