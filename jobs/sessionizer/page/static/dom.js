// Elements without HTML text: what comes from a stream is never parsed as markup.
const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Replace the children of `node` only if `key` differs from that of the last call, so that focus and selection stay.
// Focus that was in a replaced child goes to its like, or to the first that takes it.
export function show(node, key, make) {
  if (node.shownKey === key) return;
  node.shownKey = key;
  const focused = node !== document.activeElement && node.contains(document.activeElement) ? document.activeElement : null;
  node.replaceChildren(...[make()].flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (!focused) return;
  const takers = [...node.querySelectorAll('a, button, input, select, summary')].filter((each) => !each.disabled);
  const like = takers.find((each) => each.tagName === focused.tagName && each.textContent === focused.textContent) || takers[0];
  if (like) like.focus({ preventScroll: true });
}
