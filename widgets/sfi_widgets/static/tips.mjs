// What hovers over a picture.
import { h } from './ui.mjs';

/** A tooltip inside a panel: show(x, y, node) in the box's coordinates, hide(). Pictures keep their own title back meanwhile. */
export function tooltip(box) {
  const tip = h('div', { class: 'sfi-tip', role: 'tooltip', hidden: true });
  let titles = [];
  box.append(tip);
  return {
    show(x, y, ...children) {
      if (tip.hidden) {
        titles = Array.from(box.querySelectorAll('canvas[title]'), (picture) => [picture, picture.title]);
        for (const [picture] of titles) picture.removeAttribute('title');
      }
      tip.replaceChildren(...children);
      tip.hidden = false;
      const w = tip.offsetWidth, hh = tip.offsetHeight;
      tip.style.left = `${Math.max(2, Math.min(box.clientWidth - w - 2, x + 14))}px`;
      tip.style.top = `${y + 14 + hh > box.clientHeight && y - hh - 8 > 0 ? y - hh - 8 : y + 14}px`;
    },
    hide() {
      tip.hidden = true;
      for (const [picture, title] of titles) picture.title = title;
      titles = [];
    },
  };
}
