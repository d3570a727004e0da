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

// Commands in back quotes become code, so that they can be copied.
export const marked = (text) => text.split('`').map((part, index) => (index % 2 ? el('code', {}, part) : part));

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

// The window that has this page in a frame. Null: there is none, or its address is of another origin.
function findHost() {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}
const host = findHost();

// Light or dark as the host: Airflow's document says it, else the system does.
export function followHost() {
  if (!host) return;
  const root = host.document.documentElement;
  const apply = () => {
    const theme = ['dark', 'light'].find((name) => root.classList.contains(name));
    document.documentElement.style.colorScheme = theme || 'light dark';
  };
  new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ['class', 'data-theme', 'style'] });
  apply();
}

// Airflow's header leaves little of a small window to a tab. There its panel scrolls, and the tab keeps a height in which a dialog fits.
// The rules go with the frame, because the other tabs are in the same panel.
const ROOM = ':has(> * > * > [data-stream-tab]) { overflow-y: auto; } :has(> * > [data-stream-tab]) { min-height: min(480px, 70vh); }';
export function takeRoom() {
  const frame = window.frameElement;
  const panel = host && frame.parentElement?.parentElement?.parentElement;
  if (!panel || host.getComputedStyle(panel).flexDirection !== 'column') return; // no host, or one that is built in another way
  frame.dataset.streamTab = '';
  frame.parentElement.append(el('style', {}, ROOM));
  addEventListener('scroll', () => frame.scrollIntoView({ block: 'nearest' })); // a user who reads on sees the whole frame
}

// The address of the host's page ends like ours, so that a reload or a sent link opens the same stream.
export function shareAddress() {
  const shown = location.hash || '#/';
  if (host && (host.location.hash || '#/') !== shown) host.history.replaceState(host.history.state, '', shown);
}

// The end of the host's address, if it names a stream and our own does not.
export const sharedAddress = () => (host && !location.hash ? host.location.hash : '');

// The path of Airflow's pages, which may be below a prefix.
export const hostPath = ({ api }) => new URL(`${api}/../..`, location.href).pathname.replace(/\/$/, '');

// Open a page of the host. Its frame may not navigate it, but a link of the host's own document may.
export function openInHost(path) {
  if (!host) return location.assign(path);
  const link = el('a', { href: path });
  host.document.body.append(link);
  link.click();
  link.remove();
}

const SIGNS = { healthy: '●', warning: '◐', unknown: '?', degraded: '▲', down: '■' };
export const WORDS = ['down', 'degraded', 'unknown', 'warning', 'healthy'];

// The word of a stream: a shape beside the colour, for readers who do not tell colours apart.
export function pill(word) {
  return el('span', { class: `pill ${word}` }, el('span', { 'aria-hidden': 'true', class: 'sign' }, SIGNS[word] || '?'), word);
}
