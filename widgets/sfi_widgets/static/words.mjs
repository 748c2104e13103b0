// Pure functions for text: lines, search, common beginnings. No DOM, so `node --test` runs them.
import { refreshAt } from './core.mjs';

/** What a token looks like on a line: breaks shown as ↵, other white space as spaces. */
export const shown = (text) => text.replace(/\n/g, '↵').replace(/\t/g, '  ');

/**
 * First token of every line. widths: of the shown tokens; breaks[i]: a line ends after token i; spaced[i]: starts with white
 * space, so a line may begin there (a word of several tokens is kept whole where it fits).
 */
export function wrap(widths, breaks, spaced, width) {
  const lines = [0];
  let x = 0, word0 = 0, wordX = 0, start = 0;
  for (let i = 0; i < widths.length; i++) {
    if (spaced[i] || i === start) { word0 = i; wordX = x; }
    if (x + widths[i] > width && i > start) {
      start = word0 > start ? word0 : i;
      x = word0 === start && word0 !== i ? x - wordX : 0;
      lines.push(start);
      word0 = start; wordX = 0;
    }
    x += widths[i];
    if (breaks[i] && i + 1 < widths.length) { start = i + 1; x = 0; word0 = start; wordX = 0; lines.push(start); }
  }
  return Int32Array.from(lines);
}

/** Length of the common beginning of two lists. */
export function commonPrefix(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

/**
 * A run's tokens beside another run's: {same, first, rest} as texts. first is the token at which they part, null where one of them
 * has merely ended: then nothing differs. same: length of their common beginning; others: tokens of the other run.
 */
export function parted(words, same, others) {
  const parts = same < words.length && same < others;
  return { same: words.slice(0, same).join(''), first: parts ? words[same] : null, rest: words.slice(parts ? same + 1 : same).join('') };
}

/** Tokens [first, last) whose joined text holds `needle`, case-insensitive: all matches as [first, last]. */
export function findTokens(texts, needle) {
  const wanted = needle.toLowerCase();
  if (!wanted) return [];
  const starts = new Int32Array(texts.length + 1);
  for (let i = 0; i < texts.length; i++) starts[i + 1] = starts[i] + texts[i].length;
  const all = texts.join('').toLowerCase(), found = [];
  for (let at = all.indexOf(wanted); at >= 0; at = all.indexOf(wanted, at + wanted.length)) {
    found.push([refreshAt(starts, at), refreshAt(starts, at + wanted.length - 1) + 1]);
  }
  return found;
}
