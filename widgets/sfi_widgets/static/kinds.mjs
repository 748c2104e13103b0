// How sure a number is, in words.
import { h } from './ui.mjs';

const KIND_MEANS = {
  exact: 'from the recording itself, or re-selected from recorded queries and keys at the recorded refreshes',
  proxy: 'other refreshes than the run had, on the recorded trajectory: decode again to be sure',
  're-run': 'decoded again with these settings',
};
/** A number's kind as a badge. */
export const badge = (kind) => h('span', { class: 'sfi-kind', 'data-kind': kind, title: KIND_MEANS[kind] ?? kind }, kind);
