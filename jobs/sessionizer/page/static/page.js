// The entry: which view is shown, how old its data is, and who is silent.
import { el, followHost, openInHost, shareAddress, sharedAddress, show, takeRoom } from './dom.js';
import { Feed, PARTS_EVERY_MS, describeFailure, silentParts } from './feed.js';
import { FleetView } from './fleet.js';
import { age, clock } from './format.js';
import { StreamView } from './stream.js';
const STALE_MS = 15000;
const parameters = new URLSearchParams(location.search);
const tab = parameters.get('dag_id'); // the page is a tab of a DAG
const root = document.getElementById('view');
const banner = document.getElementById('banner');
const ageLine = document.getElementById('age');
let current = null;
let parts = null; // health of Airflow's own parts

followHost();
if (tab) takeRoom();
if (!tab && sharedAddress()) history.replaceState(null, '', sharedAddress());

function route() {
  // each DAG of a stream has the stream's tab
  if (tab) return { stream: tab.replace(/\.(start|stop|report)$/, '.supervise') };
  const found = location.hash.match(/^#\/([a-z][a-z0-9_]*)$/);
  return { stream: found ? `${found[1]}.supervise` : null };
}

function open() {
  if (current) {
    current.feed.end();
    if (current.view.end) current.view.end();
  }
  const { stream } = route();
  const view = stream ? new StreamView(root, tab ? '' : '#/') : new FleetView(root);
  const address = () => (stream ? `api/streams/${encodeURIComponent(stream)}?span=${view.span}&begin=${view.begin}` : 'api/fleet');
  current = { view, stream };
  if (!tab) shareAddress();
  root.setAttribute('aria-busy', 'true');
  root.shownKey = null;
  root.replaceChildren(view.loading());
  show(document.getElementById('path'), stream || 'fleet', () => pathOf(stream));
  current.feed = new Feed(address, told);
  view.again = () => current.feed.ask();
}

// A tab of Airflow may have little height: the page of the stream has the whole window.
const openWhole = (name) => el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${parent.location.pathname.replace(/\/dags\/.*/, '')}/plugin/streams#/${name}`) }, 'Whole page');

function pathOf(stream) {
  const name = stream ? stream.replace(/\.[a-z]+$/, '') : '';
  document.title = name ? `${name} · Streams` : 'Streams';
  if (!stream) return [el('h1', {}, 'Streams')];
  const back = tab ? null : el('a', { href: '#/', class: 'back' }, 'Streams');
  return [back, back ? el('span', { class: 'slash', 'aria-hidden': 'true' }, '/') : null, el('h1', {}, name), tab && hostName() === 'airflow' ? openWhole(name) : null];
}

function told(feed) {
  if (feed !== current.feed) return;
  if (feed.document) {
    root.setAttribute('aria-busy', 'false');
    current.view.render(feed.document, feed.now);
  } else if (feed.failure) {
    root.setAttribute('aria-busy', 'false');
    show(root, `failed ${feed.failure.status}`, () => failed(feed.failure));
  }
  tellAge();
}

function failed(failure) {
  const again = el('button', { type: 'button', onclick: () => current.feed.ask() }, 'Try again');
  const list = failure.status === 404 && tab ? null : again;
  return el('section', { class: 'empty' }, el('h2', {}, 'Nothing to show'), el('p', {}, describeFailure(failure, hostName())), list);
}

const hostName = () => (window.parent !== window ? 'airflow' : 'alone');

function tellAge() {
  const { feed } = current;
  if (!feed || !feed.document) {
    ageLine.textContent = '';
    return show(banner, '', () => []);
  }
  const old = Date.now() - feed.since;
  const isStale = old > STALE_MS || feed.failure !== null;
  document.body.classList.toggle('stale', isStale);
  ageLine.textContent = `as of ${age(old)} ago`;
  const lines = [];
  if (feed.failure) lines.push(`${describeFailure(feed.failure, hostName())} What you see is as of ${clock(feed.since)}.`);
  else lines.push(...current.view.silent(feed.document));
  if (parts) lines.push(...silentParts(parts, feed.now));
  show(banner, lines.join('|'), () => lines.map((line) => el('p', { class: 'banner' }, line)));
}

// Airflow itself tells which of its parts is silent. A stream has no supervision without them.
async function askHost() {
  const api = current.feed && current.feed.document && current.feed.document.host.api;
  if (!api || document.hidden) return;
  try {
    const answer = await fetch(`${api}/monitor/health`, { signal: AbortSignal.timeout(5000) });
    parts = await answer.json();
  } catch {
    parts = null; // the feed tells that the API server does not answer
  }
}

window.addEventListener('hashchange', () => {
  open();
  root.focus({ preventScroll: true });
  scrollTo(0, 0);
});
open();
setInterval(tellAge, 1000);
setInterval(askHost, PARTS_EVERY_MS);
