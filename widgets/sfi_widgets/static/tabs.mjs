// What each tab of the workbench answers, as the tooltip of its label. ipywidgets has none of its own for a tab.

const ANSWERS = {
  text: 'The generated text and the document, with what the chosen head keeps at the cursor',
  compare: 'A beside B: what only one of them selects, and how their numbers and tokens differ',
  anatomy: 'One refresh, stage by stage: evidence, prior, fused score, soft-NMS, exclusivity, Top-K',
  stability: 'Are supports more alike within a sentence than across its end?',
  timing: 'Where the milliseconds of fast and slow steps went',
};

/** Gives the labels of the tabs around an element their tooltips; nothing to do outside tabs. */
export function tellTabs(el) {
  const pages = el.closest('.widget-tab-contents'), labels = pages?.parentElement.querySelectorAll('.lm-TabBar-tab') ?? [];
  labels.forEach((label, i) => {
    const panel = pages.children[i]?.querySelector('[data-panel]') ?? pages.children[i];
    const answer = ANSWERS[panel?.dataset.panel];
    if (answer && label.title !== answer) label.title = answer;
  });
}

/** Does so when the element has got a size, and once more when its neighbours have had time to come. */
export function watchTabs(el) {
  new ResizeObserver(() => tellTabs(el)).observe(el); // goes with the element
  setTimeout(() => tellTabs(el), 600);
}
