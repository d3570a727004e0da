// One stream: its word and why, what may be done, charts over its history, marks, lineages and savepoints.
import { actionBar, actionButton, restore } from './actions.js';
import { Airflow } from './airflow.js';
import { Changes } from './changes.js';
import { Charts } from './charts.js';
import { el, show } from './dom.js';
import { bytes, duration, number } from './format.js';
import { eventsOf, factsOf, findingOf, headOf, lineagesOf, linksOf, operationsOf } from './lists.js';
import { Panels } from './panels.js';
import { isUndone, niceTime } from './scale.js';
import { silentDrivers } from './silence.js';
import { Timeline, chosenPoint } from './timeline.js';

const HOUR = 3600000;
const SPANS = [['1 h', HOUR], ['6 h', 6 * HOUR], ['24 h', 24 * HOUR], ['7 d', 168 * HOUR]];
const PARTS = ['head', 'acts', 'facts', 'found', 'none', 'chosen', 'marks', 'operations', 'lineages', 'links'];
const perBatch = (name) => (point) => (point.batches ? point[name] / point.batches : null);
const ENDED_BY = 'ended_by_';
// A count would stay if one savepoint is made and another deleted.
const idsOf = (savepoints) => savepoints.map(({ savepoint }) => savepoint);
export const barKey = ({ may, row, canary, savepoints }) => JSON.stringify([may, row.live, row.actions, canary, idsOf(savepoints)]);
const DRAWN_FIRST = ['gap', 'closing_event', 'max_duration', 'max_events', 'max_bytes'];

// The series of closed sessions, one for each reason in the fields of the history.
// What a release before the first reasons wrote has none: its sessions are the series 'other'.
export function closedSeries(fields) {
  const found = fields.filter((name) => name.startsWith(ENDED_BY)).map((name) => name.slice(ENDED_BY.length));
  const reasons = [...DRAWN_FIRST.filter((each) => found.includes(each)), ...found.filter((each) => !DRAWN_FIRST.includes(each))];
  const other = (point) => Math.max(0, point.sessions - reasons.reduce((sum, each) => sum + (point[ENDED_BY + each] || 0), 0));
  return [...reasons.map((reason) => ({ label: reason.replace('_', ' '), of: (point) => point[ENDED_BY + reason] })), { label: 'other', of: other }];
}

// The charts of a history: its closed sessions by its reasons, its batches by its phases.
export const chartsOf = ({ fields, phases }) => [
  { title: 'Events per second', format: number, series: [{ label: 'events/s', of: (point) => point.rate }] },
  { title: 'Batch time by phase', format: duration, tops: niceTime, stacked: true, series: phases.map((phase) => ({ label: phase, of: perBatch(phase) })) },
  { title: 'Watermark behind the clock', format: duration, tops: niceTime, series: [{ label: 'lag', of: (point) => point.lag_ms }] },
  { title: 'Events not read yet', format: number, optional: true, series: [{ label: 'events', of: (point) => point.source_lag }] },
  { title: 'Open sessions', format: number, series: [{ label: 'open', of: (point) => point.open }] },
  { title: 'State size', format: bytes, series: [{ label: 'bytes', of: (point) => point.state_bytes }] },
  { title: 'Late and refused rows', format: number, stacked: true, series: [{ label: 'late', of: (point) => point.late }, { label: 'refused', of: (point) => point.refused }] },
  { title: 'Sessions closed', format: number, stacked: true, series: closedSeries(fields) },
  { title: 'Key groups', format: bytes, optional: true, series: [{ label: 'heaviest', of: (point) => point.group_bytes }, { label: 'p99', of: (point) => point.group_p99_bytes }] },
  { title: 'Events of an open session', format: number, optional: true, series: [{ label: 'largest', of: (point) => point.key_events }, { label: 'p99', of: (point) => point.key_p99_events }] },
  { title: 'Waiting for the source', format: duration, tops: niceTime, optional: true, series: [{ label: 'a batch', of: perBatch('waited_ms') }] },
];

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
    this.charts = new Charts(chartsOf(found.history), choose);
    this.timeline = new Timeline(choose);
    this.airflow = new Airflow(found.host);
    this.changes = found.host.name === 'airflow' ? new Changes(this.airflow, found.row.stream, found.may.approve, () => this.again()) : null;
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
    show(head, JSON.stringify([row.health, found.lines]), () => headOf(found));
    show(acts, barKey(found), () => actionBar(found, this.changes));
    show(facts, JSON.stringify([row, Math.floor(now / 1000)]), () => factsOf(row, found.at, now));
    show(findings, JSON.stringify(found.findings), () => found.findings.slice(1).map(findingOf));
    show(this.spans, String(this.span), () => SPANS.map(([label, span]) => el('button', { type: 'button', 'aria-pressed': String(span === this.span), onclick: () => this.chooseSpan(span) }, label)));
    if (found.span !== this.span) return this.again(); // an answer to the choice before
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

  merge({ history, marks, savepoints, lineages, at, every, span }, now) {
    const to = Math.max(at, now);
    const fresh = history.rows.map((values) => {
      const point = Object.fromEntries(history.fields.map((name, index) => [name, values[index]]));
      // a time that is not over has no rate: one batch in its first second would look like a flood
      return { ...point, rate: to - point.at < every ? null : (point.rows * 1000) / every };
    });
    const known = this.pointsSpan === span ? this.points : [];
    const kept = known.filter((point) => point.at >= to - span && (!fresh.length || point.at < fresh[0].at));
    this.points = [...kept, ...fresh].map((point) => ({ ...point, undone: isUndone(point, lineages) }));
    this.pointsSpan = span;
    return { points: this.points, marks, savepoints, from: to - span, to, every };
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
