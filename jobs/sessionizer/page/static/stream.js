// Parts of a stream's page that list: facts, findings, events, lineages, links.
import { Airflow, Changes, actionBar, actionButton, actionsOf, restore } from './changes.js';
import { Charts, Timeline, chosenPoint } from './charts.js';
import { el, marked, openInHost, pill, show } from './dom.js';
import { isSilent, silentDrivers } from './feed.js';
import { NOTHING, ago, bytes, duration, isUndone, moment, niceTime, number, savepointTimes } from './format.js';
import { Panels } from './panels.js';
const SHOWN = 60; // events: the axis has them all
const QUIET = { idle: 'The source has nothing new.', stopped: 'It is stopped, as wanted.', drained: 'It is drained and over.', working: 'It works.' };

export function headOf(found, changes) {
  const { health } = found.row;
  const remedy = remedyOf(health, found, changes);
  return [
    el('p', { class: 'word' }, pill(health.word), el('span', { class: 'what' }, health.what || QUIET[health.rule] || ''), el('span', { class: 'since' }, health.since ? `since ${moment(health.since)}` : '')),
    remedy.length ? el('p', { class: 'todo' }, el('strong', {}, 'What to do: '), remedy) : null,
    ...found.lines.map((line) => el('p', { class: 'line' }, marked(line))),
  ];
}

// What to do about a finding: words, and the button that does the same as the command, or the command without Airflow.
function remedyOf({ what_to_do: words, command, action }, found, changes) {
  const able = changes && actionsOf(found).find(({ key }) => key === action);
  const last = able ? actionButton(able, found, changes) : command && el('code', {}, command);
  return [words && marked(words), words && last && ', or ', last].filter(Boolean);
}

export function findingOf(finding, found, changes) {
  const remedy = remedyOf(finding, found, changes);
  return el('p', { class: 'finding' }, pill(finding.word), el('span', {}, `${finding.part}: ${finding.what}`), remedy.length ? el('span', { class: 'remedy' }, ' → ', remedy) : null);
}

export function factsOf(row, at, now) {
  const wanted = row.desired ? [row.desired.state.toLowerCase(), row.desired.by && `by ${row.desired.by}`, row.desired.why].filter(Boolean).join(', ') : NOTHING;
  const facts = [
    ['Wanted', wanted], ['State', row.state.toLowerCase().replace('_', ' ')],
    ['Driver heard', ago(row.heard_at, now), isSilent(row, at) ? 'silent' : ''],
    ['Batch', row.batch_id === null ? NOTHING : String(row.batch_id)], ['Batch time', batchTime(row), row.trigger_ms && row.batch_ms > row.trigger_ms ? 'late' : ''],
    ['Events/s', number(row.rate)], ['Watermark lag', duration(row.lag_ms)], ['Events behind', [number(row.source_lag), row.catch_up_ms === null ? '' : `caught up in ${duration(row.catch_up_ms)}`].filter(Boolean).join(', ')],
    ['Open sessions', number(row.open)], ['State size', bytes(row.state_bytes)],
    ['Heaviest group', row.group === null ? NOTHING : `${row.group} · ${bytes(row.group_bytes)}`],
    ['Restarts 24 h', String(row.restarts)], ['Savepoint', savepointTimes(row, now)], ['Lineage', row.lineage || NOTHING],
  ];
  return el('dl', { class: 'facts' }, facts.map(([name, value, state]) => el('div', { class: state || null }, el('dt', {}, name), el('dd', {}, value))));
}

// The time of the newest batch beside the time between two batches.
const batchTime = ({ batch_ms: took, trigger_ms: every }) => (took !== null && every ? `${duration(took)} of ${duration(every)}` : duration(took));

export function eventsOf(marks) {
  if (!marks.length) return [el('h2', {}, 'Events'), el('p', { class: 'note' }, 'None in this time.')];
  const newest = [...marks].reverse();
  const lines = newest.slice(0, SHOWN).map((mark) =>
    el('li', {}, el('time', { class: 'when' }, moment(mark.at)), el('span', { class: `tag ${mark.kind}` }, mark.kind), el('span', { class: 'told' }, markText(mark))));
  return [el('h2', {}, 'Events'), el('ul', { class: 'events' }, lines), newest.length > SHOWN ? el('p', { class: 'note' }, `The newest ${SHOWN} of ${newest.length}. Choose a shorter time for others.`) : null];
}

function markText(mark) {
  const parts = [mark.what, mark.savepoint, mark.uid && `driver ${mark.uid}`, mark.batch_id !== null && `batch ${mark.batch_id}`, mark.by && `by ${mark.by}`].filter(Boolean).join(' · ');
  return [parts, mark.text ? el('span', { class: 'why' }, mark.text) : null];
}

const OUTCOMES = { done: 'start', abandoned: 'alert' };

// The newest commands on the stream's state: by which user, how each ended, and why it did not.
export function operationsOf(operations) {
  if (!operations.length) return [];
  const lines = operations.map((each) => {
    const parts = [`${each.verb}${each.savepoint ? ` to ${each.savepoint}` : ''}`, `by ${each.by}`, each.abandoned_by && `given up by ${each.abandoned_by}`, each.ended_at && `took ${duration(each.ended_at - each.at)}`].filter(Boolean);
    return el('li', {}, el('time', { class: 'when' }, moment(each.at)), el('span', { class: `tag ${OUTCOMES[each.outcome] || 'command'}` }, each.outcome || 'not over'),
      el('span', { class: 'told' }, parts.join(' · '), each.failure ? el('span', { class: 'why' }, each.failure) : null));
  });
  return [el('h2', {}, 'Operations'), el('ul', { class: 'events operations' }, lines)];
}

export function lineagesOf(lineages) {
  if (!lineages.length) return [];
  const lines = lineages.map((each) => {
    const made = each.verb ? `${each.verb}${each.parent ? ` of batch ${each.batch_id} of ${each.parent}` : ''}${each.savepoint ? `, savepoint ${each.savepoint}` : ''}` : 'began without a state';
    return el('li', { class: each.active ? 'active' : null }, el('code', {}, each.lineage), each.active ? el('span', { class: 'tag start' }, 'active') : null, el('span', { class: 'why' }, made));
  });
  return [el('h2', {}, 'Lineages'), el('ol', { class: 'path' }, lines)];
}

export function linksOf({ host, row }, base) {
  const spark = row.spark_ui ? el('a', { href: row.spark_ui, target: '_blank', rel: 'noreferrer' }, 'Spark UI') : null;
  if (host.name !== 'airflow') return [spark];
  const dag = `${row.stream}.supervise`;
  const pages = [['Driver log', 'log'], ['Tables', 'tables']];
  const inHost = [[`DAG ${dag}`, dag], ['All operations', host.operate]];
  return [
    spark,
    ...pages.map(([label, page]) => el('a', { href: `${host.pages}/${dag}/${page}` }, label)),
    ...inHost.map(([label, id]) => el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${base}/dags/${id}`) }, label)),
  ];
}

// One stream: its word and why, what may be done, charts over its history, marks, lineages and savepoints.

const HOUR = 3600000;
const SPANS = [['1 h', HOUR], ['6 h', 6 * HOUR], ['24 h', 24 * HOUR], ['7 d', 168 * HOUR]];
const PARTS = ['head', 'acts', 'facts', 'found', 'none', 'chosen', 'marks', 'operations', 'lineages', 'links'];
const perBatch = (name) => (point) => (point.batches ? point[name] / point.batches : null);
const ENDED_BY = 'ended_by_';
// A count would stay if one savepoint is made and another deleted.
const idsOf = (savepoints) => savepoints.map(({ savepoint }) => savepoint);
export const barKey = ({ may, row, canary, savepoints, differences }) => JSON.stringify([may, row.live, row.actions, canary, idsOf(savepoints), differences]);
const DRAWN_FIRST = ['gap', 'closing_event', 'max_duration', 'max_events', 'max_bytes'];

// The series of closed sessions, one for each reason in the fields of the history.
// What a release before the first reasons wrote has none: its sessions are the series 'other'.
export function closedSeries(fields) {
  const found = fields.filter((name) => name.startsWith(ENDED_BY)).map((name) => name.slice(ENDED_BY.length));
  const reasons = [...DRAWN_FIRST.filter((each) => found.includes(each)), ...found.filter((each) => !DRAWN_FIRST.includes(each))];
  const other = (point) => Math.max(0, point.sessions - reasons.reduce((sum, each) => sum + (point[ENDED_BY + each] || 0), 0));
  return [...reasons.map((reason) => ({ label: reason.replace('_', ' '), of: (point) => point[ENDED_BY + reason] })), { label: 'other', of: other }];
}

// The charts of a history by the question that they answer: its closed sessions by its reasons, its batches by its
// phases. `trigger`: ms between two batches, if the stream has such a time.
export const chartsOf = ({ fields, phases }, trigger = null) => Object.entries({
  'Is it fast enough?': [
    { title: 'Events per second', format: number, series: [{ label: 'events/s', of: (point) => point.rate }] },
    { title: 'Batch time by phase', format: duration, tops: niceTime, stacked: true, limit: trigger && { label: 'trigger', at: trigger }, series: phases.map((phase) => ({ label: phase, of: perBatch(phase) })) },
    { title: 'Events not read yet', format: number, optional: true, series: [{ label: 'events', of: (point) => point.source_lag }] },
    { title: 'Waiting for the source', format: duration, tops: niceTime, optional: true, series: [{ label: 'a batch', of: perBatch('waited_ms') }] },
  ],
  'Is it late or refused?': [
    { title: 'Watermark behind the clock', format: duration, tops: niceTime, series: [{ label: 'lag', of: (point) => point.lag_ms }] },
    { title: 'Late and refused rows', format: number, stacked: true, series: [{ label: 'late', of: (point) => point.late }, { label: 'refused', of: (point) => point.refused }] },
    { title: 'Sessions closed', format: number, stacked: true, series: closedSeries(fields) },
  ],
  'Is it large?': [
    { title: 'Open sessions', format: number, series: [{ label: 'open', of: (point) => point.open }] },
    { title: 'State size', format: bytes, series: [{ label: 'bytes', of: (point) => point.state_bytes }] },
    { title: 'Key groups', format: bytes, optional: true, series: [{ label: 'heaviest', of: (point) => point.group_bytes }, { label: 'p99', of: (point) => point.group_p99_bytes }] },
    { title: 'Events of an open session', format: number, optional: true, series: [{ label: 'largest', of: (point) => point.key_events }, { label: 'p99', of: (point) => point.key_p99_events }] },
  ],
}).map(([question, charts]) => ({ question, charts }));

export class StreamView {
  constructor(root) {
    this.root = root;
    this.span = Number(sessionStorageGet('span')) || 6 * HOUR;
    this.points = []; // of the whole span: an answer has only the newest ones
    this.chosen = null; // a time on the axis
  }

  // The newest point that we have: its time is not over, so it is asked for again.
  get begin() {
    return this.points.length && this.pointsSpan === this.span ? this.points[this.points.length - 1].at : 0;
  }

  // Whether an answer is to the choice of now, and goes on from the points that we have.
  fits({ span, every }) {
    if (span !== this.span) return false;
    if (!this.begin || this.every === every) return true;
    this.points = []; // each is of a shorter time: the history of a young stream grows
    return false;
  }

  loading() {
    return el('div', { class: 'loading', role: 'status' }, el('span', { class: 'visually-hidden' }, 'Loading the stream'), el('div', { class: 'bone tall' }), el('div', { class: 'bone tall' }));
  }

  end() {
    if (this.changes) this.changes.end();
  }

  silent(found) {
    return silentDrivers([found.row], found.at);
  }

  frame(found) {
    const choose = (at) => this.choosePoint(at);
    this.charts = new Charts(chartsOf(found.history, found.row.trigger_ms), choose);
    this.timeline = new Timeline(choose);
    this.airflow = new Airflow(found.host);
    this.changes = found.host.name === 'airflow' ? new Changes(this.airflow, found.row.stream, found.may, () => this.again()) : null;
    this.parts = Object.fromEntries(PARTS.map((name) => [name, el('div', { class: name })]));
    this.panels = found.may.rows === false ? null : new Panels(`${found.row.stream}.supervise`, () => this.span);
    this.spans = el('div', { class: 'spans', role: 'group', 'aria-label': 'Time shown' });
    const { head, acts, facts, found: findings, none, chosen, marks, operations, lineages, links } = this.parts;
    this.axis = el('div', { class: 'over-time' }, this.timeline.node, chosen, this.charts.node);
    return [
      el('div', { class: 'intro' }, head, acts), findings, this.changes && this.changes.node, facts,
      el('div', { class: 'bar' }, this.spans, this.charts.readout), none, this.axis, el('div', { class: 'lists' }, operations, marks, lineages), this.panels && this.panels.node, links,
    ];
  }

  render(found, now) {
    show(this.root, 'stream', () => this.frame(found));
    this.found = found;
    const { row } = found;
    const { head, acts, facts, found: findings, none, marks, operations, lineages, links } = this.parts;
    const bar = barKey(found);
    show(head, JSON.stringify([bar, row.health, found.lines]), () => headOf(found, this.changes));
    show(acts, bar, () => actionBar(found, this.changes));
    show(facts, JSON.stringify([row, Math.floor(now / 1000)]), () => factsOf(row, found.at, now));
    show(findings, JSON.stringify([bar, found.findings]), () => found.findings.slice(1).map((each) => findingOf(each, found, this.changes)));
    show(this.spans, String(this.span), () => SPANS.map(([label, span]) => el('button', { type: 'button', 'aria-pressed': String(span === this.span), onclick: () => this.chooseSpan(span) }, label)));
    if (!this.fits(found)) return this.again();
    this.data = this.merge(found, now);
    const isEmpty = !this.data.points.length && !this.data.marks.length;
    show(none, String(isEmpty), () => (isEmpty ? el('p', { class: 'note' }, 'No history in this time: no batch was committed. The driver writes it while it runs.') : null));
    this.axis.hidden = isEmpty;
    this.drawAxis();
    show(marks, JSON.stringify(found.marks), () => eventsOf(found.marks));
    show(operations, JSON.stringify(found.operations), () => operationsOf(found.operations));
    show(lineages, JSON.stringify(found.lineages), () => lineagesOf(found.lineages));
    show(links, JSON.stringify([found.host, row.spark_ui]), () => linksOf(found, this.airflow.base));
  }

  drawAxis() {
    const { data, found } = this;
    this.charts.render(data, this.chosen);
    this.timeline.render(data, this.chosen);
    const key = this.chosen === null ? '' : JSON.stringify([this.chosen, idsOf(data.savepoints), data.marks.map(({ at }) => at), found.may]);
    show(this.parts.chosen, key, () => (this.chosen === null ? [] : chosenPoint(this.chosen, data, (saved) => this.restoreTo(saved), () => this.choosePoint(null))));
  }

  choosePoint(at) {
    this.chosen = at;
    this.drawAxis();
  }

  restoreTo({ savepoint }) {
    const { found, changes } = this;
    if (changes) return actionButton(restore, found, changes, { label: 'Restore to this savepoint …', chosen: savepoint, style: 'primary' });
    return el('p', {}, 'To go back to it: ', el('code', {}, `sessionizer restore ${found.row.stream} ${savepoint}`));
  }

  merge({ history, marks, savepoints, lineages, at, every, span, from }, now) {
    const to = Math.max(at, now);
    const fresh = history.rows.map((values) => {
      const point = Object.fromEntries(history.fields.map((name, index) => [name, values[index]]));
      // a time that is not over has no rate: one batch in its first second would look like a flood
      return { ...point, rate: to - point.at < every ? null : (point.rows * 1000) / every };
    });
    const known = this.pointsSpan === span ? this.points : [];
    const kept = known.filter((point) => point.at >= to - span && (!fresh.length || point.at < fresh[0].at));
    this.points = [...kept, ...fresh].map((point) => ({ ...point, undone: isUndone(point, lineages) }));
    Object.assign(this, { pointsSpan: span, every });
    return { points: this.points, marks, savepoints, from: Math.max(from, to - span), to, every };
  }

  chooseSpan(span) {
    this.span = span;
    this.chosen = null;
    sessionStorageSet('span', span);
    this.root.setAttribute('aria-busy', 'true');
    this.again();
  }
}

function sessionStorageGet(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

function sessionStorageSet(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // a browser without storage forgets the choice
  }
}
