// Tests of the page's modules, run in a browser by tests/process/page/test_page_modules.py.
import { Airflow, Changes, actionsOf, confOf, dagOf, differencesOf, errorsOf, fieldsOf, reasonAgainst, refusalOf, restore, stepsOf } from '/assets/changes.js';
import { Charts, Timeline } from '/assets/charts.js';
import { el, show } from '/assets/dom.js';
import { EVERY_MS, Feed, PARTS_EVERY_MS, PART_LATE_MS, PATIENCE_MS, SILENT_MS, isSilent, silentDrivers, silentParts } from '/assets/feed.js';
import { FleetView, sparkline, stateText } from '/assets/fleet.js';
import { age, ago, bytes, duration, groupMarks, isUndone, lastChange, nearest, nice, niceTime, number, savepointBefore, savepointTimes, segments, tick, timeTicks, undoneTimes } from '/assets/format.js';
import { StreamView, barKey, chartsOf, closedSeries, findingOf, operationsOf } from '/assets/stream.js';

export const tests = {};
const test = (name, body) => (tests[name] = body);

function equal(found, wanted) {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${one} instead of ${other}`);
}

const row = (facts) => ({
  stream: 'clicks', health: { word: 'healthy', severity: 0, what: '' }, desired: { state: 'RUNNING' }, state: 'RUNNING', live: true, heard_at: 1000,
  rate: 1, rates: [], changed: null, save_due_at: null, lag_ms: null, source_lag: null, open: 1, state_bytes: 1, restarts: 0, saved_at: null, lineage: 'one', ...facts,
});

test('numbers', () => equal([null, 0, 7, 12.34, 999.6, 12345, 3.4e6, 5e9].map(number), ['–', '0', '7', '12.3', '1,000', '12.3 k', '3.4 M', '5.0 G']));
test('sizes', () => equal([null, 0, 999, 1500, 2.5e6, 7e9].map(bytes), ['–', '0 B', '999 B', '1.5 kB', '2.5 MB', '7.0 GB']));
test('durations', () => equal([null, 0, 12, 1500, 59000, 61000, 3600000, 90061000, -5000].map(duration), ['–', '0 ms', '12 ms', '1.5 s', '59 s', '1 m 1 s', '1 h', '1 d 1 h', '-5.0 s']));
test('ages', () => equal([age(10), age(59400), age(61000), ago(null, 5), ago(1000, 4000)], ['1 s', '59 s', '1 m 1 s', '–', '3 s ago']));
test('a savepoint has its age and the time of the next one', () => {
  const told = (saved_at, save_due_at) => savepointTimes({ saved_at, save_due_at }, 100000);
  equal([told(null, null), told(40000, null), told(40000, 220000), told(40000, 90000)], ['–', '1 m ago', '1 m ago, next in 2 m', '1 m ago, next is due']);
});
test('the last change of a stream', () => equal([lastChange({ changed: null }, 9), lastChange({ changed: { what: 'upgrade', at: 1000 } }, 61000)], ['–', 'upgrade, 1 m ago']));
test('a small chart has its highest figure on top', () => {
  const points = sparkline([0, 4, 2]).querySelector('polyline').getAttribute('points');
  equal([points, sparkline([]), sparkline([1])], ['0.0,15.0 28.0,1.0 56.0,8.0', null, null]);
});
test('the times between two batches are a limit in the chart, unless bars would be flat', () => {
  const drawn = (trigger) => {
    const charts = new Charts(chartsOf({ fields: [], phases: ['write'] }, trigger), () => {});
    document.body.append(charts.node);
    charts.render({ points: [{ at: 0, batches: 1, write: 1000, undone: false }], marks: [], from: -600000, to: 60000, every: 60000 }, null);
    charts.node.remove();
    return [charts.node.querySelectorAll('line.limit').length, charts.node.querySelectorAll('.key.limit').length];
  };
  equal([null, 500, 5000, 600000].map(drawn), [[0, 0], [1, 1], [1, 1], [0, 1]]);
});
test('the axis begins with a stream that is younger than its span, and its points become longer as it grows', () => {
  const view = new StreamView(el('main'));
  const [span, at] = [view.span, 9 * 3600000];
  const found = { span, at, from: at - 600000, every: 60000, history: { fields: ['at', 'rows'], rows: [[at - 120000, 6]] }, lineages: [], marks: [], savepoints: [] };
  equal([view.fits({ ...found, span: 1 }), view.fits(found), view.merge(found, at).from, view.begin], [false, true, found.from, at - 120000]);
  equal([view.fits(found), view.fits({ ...found, every: 120000 }), view.begin], [true, false, 0]);
  equal(view.merge({ ...found, from: at - 2 * span }, at).from, at - span);
});
test('a question without a chart that has figures is not shown', () => {
  const one = (optional) => ({ title: 't', format: number, optional, series: [{ label: 'l', of: (point) => point.l }] });
  const charts = new Charts([{ question: 'a', charts: [one(true)] }, { question: 'b', charts: [one(false), one(true)] }], () => {});
  charts.render({ points: [{ at: 0, undone: false }], marks: [], from: -600000, to: 60000, every: 60000 }, null);
  equal([...charts.node.querySelectorAll('.question')].map(({ hidden }) => hidden), [true, false]);
});
test('a cursor is where its point is in charts of each width', () => {
  const definition = { title: 't', format: number, series: [{ label: 'l', of: (point) => point.l }] };
  const charts = new Charts([{ question: 'a', charts: [definition] }, { question: 'b', charts: [definition, definition] }], () => {});
  document.body.append(charts.node);
  charts.render({ points: [{ at: 0, l: 1, undone: false }, { at: 60000, l: 2, undone: false }], marks: [], from: 0, to: 60000, every: 60000 }, null);
  charts.move(1);
  const ends = charts.figures.map(({ plot }) => Number(plot.getAttribute('width')) - Number(plot.querySelector('.cursor').getAttribute('x1')));
  charts.node.remove();
  equal([new Set(ends).size, charts.figures[0].plot.getAttribute('width') === charts.figures[1].plot.getAttribute('width')], [1, false]);
});
test('a tick has its day only if the axis spans days', () => equal([tick(0, 3600000).length, tick(0, 7 * 86400000).length], [5, 11]));

test('a round top of an axis', () => equal([0, -1, 0.3, 1, 1.1, 37, 99, 101].map(nice), [1, 1, 0.5, 1, 2, 50, 100, 200]));
test('a round time on top', () => equal([0, 900, 1500, 61000, 3.7e6, 2e8].map(niceTime), [1, 1000, 2000, 120000, 7200000, 432000000]));
test('ticks are round in local time', () => {
  const hour = 3600000;
  equal(timeTicks(0.5 * hour, 6.4 * hour, 6, 0), [1, 2, 3, 4, 5, 6].map((at) => at * hour));
  equal(timeTicks(0, 86400000 * 7, 7, hour), [1, 2, 3, 4, 5, 6, 7].map((day) => day * 86400000 - hour));
});
test('there are never more ticks than fit', () => {
  for (const span of [60000, 600000, 7200000, 86400000, 6048e5]) for (const most of [2, 5, 12]) if (timeTicks(12345, 12345 + span, most).length > most + 1) throw new Error(`${span} ${most}`);
});

test('each reason of the history has a series, known ones in their order', () => {
  const series = closedSeries(['at', 'sessions', 'ended_by_max_bytes', 'ended_by_gap', 'ended_by_a_new_one']);
  equal(series.map(({ label }) => label), ['gap', 'max bytes', 'a new_one', 'other']);
  equal([series[2].of({ ended_by_a_new_one: 4 }), series[3].of({ sessions: 9, ended_by_gap: 2, ended_by_a_new_one: 4 })], [4, 3]);
});
test('each phase of the history has a series, in its order', () => {
  const { series } = chartsOf({ fields: ['batches', 'write', 'a new one'], phases: ['write', 'a new one'] }).flatMap(({ charts }) => charts).find(({ title }) => title === 'Batch time by phase');
  equal(series.map(({ label }) => label), ['write', 'a new one']);
  equal(series.map(({ of }) => of({ batches: 2, write: 8, 'a new one': 6 })), [4, 3]);
});
test('lineages over time', () => {
  const points = [['one', 0], ['one', 10], [null, 20], ['two', 30], ['one', 40]].map(([lineage, at]) => ({ lineage, at }));
  equal(segments(points, 10), [{ lineage: 'one', from: 0, to: 20 }, { lineage: 'two', from: 30, to: 40 }, { lineage: 'one', from: 40, to: 50 }]);
  equal(segments([], 10), []);
});
test('the times whose rows a restore or a rollback deleted', () => {
  const lineages = [{ lineage: 'two', undone_after: null }, { lineage: 'one', undone_after: 5 }, { lineage: 'left', undone_after: -1 }];
  const points = [['one', 5], ['one', 6], ['one', 7], ['left', 0], ['two', 9], ['gone', 3]].map(([lineage, batch_id], index) => ({ at: index * 10, lineage, batch_id }));
  equal(points.map((point) => isUndone(point, lineages)), [false, true, true, true, false, false]);
  equal(undoneTimes(points.map((point) => ({ ...point, undone: isUndone(point, lineages) })), 10), [{ from: 10, to: 40 }]);
});
test('a figure of before a stop is not shown as current', () => {
  const charts = new Charts([{ question: 'a', charts: [{ title: 'Open', format: number, series: [{ label: 'open', of: (point) => point.open }] }] }], () => {});
  const shown = (to) => {
    charts.render({ points: [{ at: 0, open: 7, undone: false }], marks: [], from: -600000, to, every: 60000 }, null);
    return charts.figures[0].values[0].textContent;
  };
  equal([shown(90000), shown(600000)], ['7', '–']);
});
test('past operations tell their user and how they ended', () => {
  const [, list] = operationsOf([{ verb: 'restore', at: 0, by: 'olga (Airflow)', savepoint: 's1', outcome: 'abandoned', ended_at: 61000, failure: 'DiskFull: no room', abandoned_by: 'ben' }]);
  equal([...list.querySelectorAll('.tag, .told')].map((each) => each.textContent), ['abandoned', 'restore to s1 · by olga (Airflow) · given up by ben · took 1 m 1 sDiskFull: no room']);
});
test('marks that would cover one another are one, of the gravest kind', () => {
  const marks = [['crash', 51], ['start', 50], ['savepoint', 90], ['alert', 200]].map(([kind, at]) => ({ kind, at }));
  equal(groupMarks(marks, 0, 100, 0.02).map(({ at, kind, marks: all }) => [at, kind, all.length]), [[50, 'crash', 2], [90, 'savepoint', 1]]);
});
test('a chain of marks does not become one', () => equal(groupMarks([0, 1, 2, 3, 4].map((at) => ({ kind: 'start', at })), 0, 100, 0.02).map((group) => group.marks.length), [2, 2, 1]));
test('the savepoint that a restore goes back to', () => {
  const savepoints = [30, 10, 20].map((at) => ({ at }));
  equal([savepointBefore(savepoints, 9), savepointBefore(savepoints, 20), savepointBefore(savepoints, 99), savepointBefore([], 5)], [null, { at: 20 }, { at: 30 }, null]);
});
test('the nearest point', () => equal([nearest([], 5), nearest([{ at: 0 }, { at: 10 }], 6)], [null, 1]));

test('a driver is silent by the clock of the server', () => equal([isSilent(row({}), 9000), isSilent(row({}), 10001), isSilent(row({ live: false }), 99999), isSilent(row({ heard_at: null }), 99999)], [false, true, false, false]));
test('who is silent is told within 15 s', () => equal([SILENT_MS + EVERY_MS, PART_LATE_MS + PARTS_EVERY_MS, EVERY_MS + PATIENCE_MS].filter((most) => most > 15000), []));
test('one silent driver is named, many are counted', () => {
  equal(silentDrivers([row({}), row({ stream: 'quick', heard_at: 50000 })], 50000).map((line) => line.includes('clicks')), [true]);
  equal(silentDrivers(Array.from({ length: 7 }, (_, index) => row({ stream: `s${index}` })), 50000).map((line) => [line.startsWith('7 drivers'), line.includes('s4'), line.includes('s5')]), [[true, true, false]]);
});
test('parts of Airflow', () => {
  const at = '1970-01-01T00:01:00Z';
  const parts = { scheduler: { status: 'healthy', latest_scheduler_heartbeat: at }, triggerer: { status: 'healthy', latest_triggerer_heartbeat: at }, dag_processor: { status: 'unhealthy', latest_dag_processor_heartbeat: at } };
  equal([silentParts(parts, 65000).length, silentParts(parts, 71000).length, silentParts({}, 71000).length], [1, 3, 0]);
  equal(silentParts({ triggerer: { status: null } }, 71000), []);
});
test('a part of Airflow that is late is called silent only by its own threshold', () => {
  const told = (status) => silentParts({ triggerer: { status, latest_triggerer_heartbeat: '1970-01-01T00:01:00Z' } }, 71000)[0];
  equal(['healthy', 'unhealthy'].map((status) => [told(status).includes('last heard at'), told(status).includes('is silent since')]), [[true, false], [false, true]]);
  equal(silentParts({ scheduler: { status: 'unhealthy', latest_scheduler_heartbeat: null } }, 71000)[0].includes('scheduler is silent.'), true);
});

test('the steps of a run', () => {
  const steps = (run, states, question) => stepsOf({ run, states, question }).map(({ word }) => word);
  equal(steps({ state: 'running' }, { plan: 'running' }, null), ['running', 'next', 'next']);
  equal(steps({ state: 'running' }, { plan: 'success', approve: 'awaiting_input', savepoint: 'skipped' }, {}), ['done', 'waits for you', 'next']);
  equal(steps({ state: 'success', conf: { verb: 'savepoint' } }, { savepoint: 'success' }, null), ['done']);
  equal(steps({ state: 'success' }, { plan: 'success', approve: 'success', carry_out: 'skipped' }, null), ['done', 'rejected', 'skipped']);
  equal(steps({ state: 'success' }, { plan: 'success', approve: 'success', carry_out: 'success' }, null), ['done', 'approved', 'done']);
  equal(steps({ state: 'failed' }, { plan: 'failed', approve: 'upstream_failed', carry_out: 'upstream_failed' }, null), ['failed', 'not reached', 'not reached']);
  const refused = { run: { state: 'failed' }, states: { plan: 'success', approve: 'failed', carry_out: 'upstream_failed' }, isRefused: true };
  equal(stepsOf(refused).map(({ word }) => word), ['done', 'plan refused', 'not reached']);
});
test('a step that waits for a full pool says so', () => {
  const pool = { name: 'commands', slots: 1, occupied_slots: 1, open_slots: 0 };
  const word = (state, found) => stepsOf({ run: { state: 'running' }, states: { plan: state }, pool: found })[0].word;
  equal(['scheduled', 'queued'].map((state) => word(state, pool)), Array(2).fill('waits for pool commands (1 of 1 in use)'));
  equal([word('scheduled', { ...pool, slots: 2, open_slots: 1 }), word('scheduled', null), word('running', pool)], ['next', 'next', 'running']);
});
test('why a run failed is the end of its log', () => {
  const lines = [['info', 'x'], ['error', 'stack'], ['error', 'refused:\n    a: 1'], ['error', 'What to do: put it back'], [undefined, 'group']];
  equal([errorsOf(lines.map(([level, event]) => ({ level, event }))), errorsOf([])], [['refused:\na: 1', 'What to do: put it back'], []]);
});
test('a plan waits for the user only if they may answer it', () => {
  const waiting = { run: { state: 'running' }, states: { approve: 'awaiting_input' }, question: {} };
  equal([true, false].map((may) => stepsOf(waiting, may)[1].word), ['waits for you', 'waits for another user']);
});
test('a paused DAG is named, and not run', async () => {
  const asked = [];
  const airflow = Object.assign(new Airflow({ api: '' }), { call: async (method, path) => asked.push(method) && { ok: true, found: { is_paused: path.endsWith('.stop') } } });
  const [paused, other] = [await airflow.run('clicks.stop', {}), await airflow.run('clicks.start', {})];
  equal([paused.ok, paused.text.includes('clicks.stop'), other.ok, asked], [false, true, true, ['GET', 'GET', 'POST']]);
});
test('a run that is asked for again without an answer is the same run', async () => {
  const made = new Map();
  const call = async (method, path, body) => {
    if (method === 'GET') return { ok: true, found: made.get(decodeURIComponent(path).split('/dagRuns/')[1]) || {} };
    if (made.has(body.dag_run_id)) return { ok: false, status: 409, text: 'it is there' };
    made.set(body.dag_run_id, { dag_run_id: body.dag_run_id, conf: body.conf });
    return { ok: false, status: 0, text: 'no answer' };
  };
  const airflow = Object.assign(new Airflow({ api: '' }), { call });
  const asked = [await airflow.run('operate', { why: 'x' }, 'page__1'), await airflow.run('operate', { why: 'x' }, 'page__1')];
  equal(asked.map(({ ok }) => ok), [false, true]);
  equal([asked[1].found, made.size], [{ dag_run_id: 'page__1', conf: { why: 'x' } }, 1]);
  equal([0, 403, 404].map((status) => refusalOf({ status, text: 't' }, 'operate').split(/[.:]/)[0]), ['t', 'You may not run operate', 'Nothing was asked for']);
});
test('an answer that another user gave first is told as theirs', async () => {
  const changes = changesOf(['operate']);
  changes.airflow.answer = async () => ({ ok: false, status: 409, text: 'x' });
  const [said, button] = [el('p'), el('button')];
  await changes.answer(change('1').run, 'Reject', plan(), [button], said);
  equal([said.textContent.includes('Another user'), button.disabled], [true, true]);
  changes.node.remove();
});
const agent = { name: 'mapping.payload.agent', kind: 'column added', before: null, now: 'device', verdict: 'partial', reason: 'null before', remedy: '', must_be_accepted: true };
const gap = { name: 'rules.gap_timeout', kind: 'gap changed', before: '1 hour', now: '2 hours', verdict: 'in place', reason: '', remedy: '', must_be_accepted: false };
const plan = (facts) => ({ digest: 'd1', possible: true, title: 't', lines: [], differences: [agent, gap], accepted: [], ...facts });
test('what a user must accept for an upgrade is a box for each difference', () => {
  const upgrade = { key: 'upgrade' };
  const form = el('form', {}, fieldsOf(upgrade, { differences: [agent, gap, { ...agent, name: 'spark' }] }).map((each) => (each instanceof Node ? each : each[2])), el('input', { name: 'why', value: ' w ' }));
  equal(confOf(upgrade, 'clicks', form), { stream: 'clicks', why: 'w' });
  for (const each of form.querySelectorAll('[name=accept], [name=prove]')) each.checked = true;
  equal(confOf(upgrade, 'clicks', form), { stream: 'clicks', accept: 'mapping.payload.agent\nspark', prove: true, why: 'w' });
});
test('a savepoint is chosen from a list with its time, batch, kind and size', () => {
  const mark = (savepoint, at) => ({ savepoint, at, batch_id: at, what: 'native', bytes: 2.5e6, text: '' });
  const [[, , select]] = fieldsOf(restore, { savepoints: [mark('a', 1), mark('b', 2)] }, 'a');
  equal([[...select.options].map(({ value }) => value), select.value, select.selectedOptions[0].textContent.includes('batch 1 · native · 2.5 MB · a')], [['b', 'a'], 'a', true]);
});
test('a plan that needs more is made again in its dialog with the boxes that were ticked', async () => {
  const dialog = document.body.appendChild(el('dialog'));
  const [changes, asked] = [changesOf([]), []];
  Object.assign(changes.airflow, { host: { upgrade: 'upgrade' }, run: async (dag, conf) => asked.push(conf) && { ok: true, found: { ...change('2').run, conf } } });
  const refused = { isRefused: true, plan: plan({ possible: false, accepted: ['spark'], differences: [agent, gap, { ...agent, name: 'spark' }] }) };
  const run = { ...change('1').run, state: 'failed', conf: { stream: 'clicks', accept: 'spark', why: 'w' } };
  dialog.showModal();
  changes.add(run, dialog);
  changes.shown.set('1', change('1', { run, ...refused, states: { approve: 'failed' } }));
  changes.render();
  const again = dialog.querySelector('button.primary');
  equal([dialog.querySelectorAll('[name=accept]').length, again, changes.node.childElementCount], [1, null, 0]);
  changes.may.operate = true;
  changes.cards.get('1').shownKey = null;
  changes.render();
  const button = dialog.querySelector('button.primary');
  equal(button.disabled, true);
  dialog.querySelector('[name=accept]').click();
  equal(button.disabled, false);
  await button.onclick();
  equal([asked, dialog.querySelectorAll('.change').length, [...changes.shown.keys()]], [[{ stream: 'clicks', accept: 'spark\nmapping.payload.agent', why: 'w' }], 1, ['2']]);
  dialog.addEventListener('close', () => changes.release(dialog));
  dialog.close();
  await new Promise((done) => setTimeout(done, 50));
  equal([dialog.childElementCount, changes.node.childElementCount], [0, 1]);
  dialog.remove();
  changes.end();
  changes.node.remove();
});
test('only the plan that was shown is approved', async () => {
  const changes = changesOf(['operate']);
  const sent = [];
  Object.assign(changes.airflow, { plan: async () => plan({ digest: 'd2' }), answer: async (run, option) => sent.push(option) && { ok: true } });
  const said = el('p');
  await changes.answer(change('1').run, 'Approve', plan(), [], said);
  equal([sent, said.textContent.includes('not the plan any more')], [[], true]);
  changes.airflow.plan = async () => plan();
  await changes.answer(change('1').run, 'Approve', plan(), [], said);
  equal(sent, ['Approve']);
  changes.end();
  changes.node.remove();
});
test('a difference is never markup, and has its box only while it is open', () => {
  const list = (...given) => el('ul', {}, differencesOf(...given));
  const hostile = { ...agent, name: '<img src=x>', reason: '<b>r</b>', before: '<i>' };
  equal([list([hostile], [], 'x').querySelectorAll('img, b b, i').length, list([agent], [], 'x').querySelectorAll('input').length], [0, 1]);
  equal([list([agent], [agent.name], 'x'), list([agent], [], null), list([gap], [], 'x')].map((each) => each.querySelectorAll('input').length), [0, 0, 0]);
});
function changesOf(approve) {
  const changes = new Changes({ base: '', runs: async () => [], look: async () => null }, 'clicks', { approve }, async () => {});
  changes.end();
  document.body.append(changes.node);
  return changes;
}
const change = (id, facts) => ({ run: { dag_run_id: id, dag_id: 'operate', run_after: id, state: 'running', conf: {} }, states: {}, plan: null, ...facts });
test('focus stays in a card while others come and change, and when itself changes', () => {
  const changes = changesOf([]);
  const look = (...found) => {
    for (const each of found) changes.shown.set(each.run.dag_run_id, each);
    changes.render();
  };
  look(change('1'));
  changes.node.querySelector('.link').focus();
  const focused = document.activeElement;
  look(change('2'), change('2', { states: { plan: 'running' } }));
  equal([document.activeElement === focused, changes.node.childElementCount], [true, 2]);
  look(change('1', { states: { plan: 'success' } }));
  equal([document.activeElement === focused, document.activeElement === changes.node.lastChild.querySelector('.link')], [false, true]);
  changes.node.remove();
});
test('the page has what a step made before its card says that it is done', async () => {
  const changes = changesOf([]);
  const seen = [];
  changes.refresh = async () => seen.push(changes.node.textContent);
  const made = { conf: { verb: 'savepoint' }, state: 'success' };
  changes.shown.set('1', change('1', { run: { ...change('1').run, ...made, state: 'running' } }));
  changes.airflow.look = async (run) => change('1', { run: { ...run, ...made }, states: { savepoint: 'success' } });
  await changes.look();
  await changes.look();
  equal(seen.map((text) => text.includes('done')), [false]);
  equal(changes.node.textContent.includes('savepoint: done'), true);
  changes.node.remove();
});
test('only plans of the DAGs that a user may answer have buttons', () => {
  const question = { created_at: 'now', subject: 's' };
  const buttons = ['operate', 'upgrade'].map((dag) => {
    const changes = changesOf([dag]);
    changes.shown.set('1', change('1', { question, plan: plan(), states: { approve: 'awaiting_input' } }));
    changes.render();
    changes.node.remove();
    return changes.node.querySelectorAll('.plan button').length;
  });
  equal(buttons, [2, 0]);
});
test('the buttons are the actions that the server names', () => {
  const labels = (actions, canary) => actionsOf({ row: row({ actions }), canary }).map(({ label }) => label);
  equal([labels(['start', 'restore', 'rollback'], false), labels(['stop', 'rollback', 'promote'], true)], [['Start', 'Restore …', 'Roll back …', 'Test the alerts'], ['Stop', 'Reject the canary …', 'Promote', 'Test the alerts']]);
});
test('a start and a stop tell their outcome', () => {
  const steps = (dag, state, states) => stepsOf({ run: { dag_id: dag, state, conf: {} }, states }).map(({ name, word }) => `${name}: ${word}`);
  equal([steps('clicks.start', 'failed', { start: 'failed' }), steps('clicks.stop', 'success', { stop: 'success' })], [['start: failed'], ['stop: done']]);
});
test('what to do is a button if the page can do it, and a command otherwise', () => {
  const finding = (action) => ({ word: 'degraded', part: 'savepoints', what: 'none', what_to_do: 'see `x`', command: 'sessionizer x', action });
  const found = { may: {}, host: { name: 'airflow', operate: 'o' }, row: row({ actions: ['savepoint'] }), savepoints: [], canary: false };
  const told = (action, changes) => [...findingOf(finding(action), found, changes).querySelectorAll('button, code')].map((each) => `${each.tagName} ${each.textContent}`);
  equal([told('savepoint', {}), told('restore', {}), told('savepoint', null)], [['CODE x', 'BUTTON Savepoint'], ['CODE x', 'CODE sessionizer x'], ['CODE x', 'CODE sessionizer x']]);
});
test('a paused DAG is unpaused only if it is paused', async () => {
  const asked = [];
  const airflow = Object.assign(new Airflow({ api: '' }), { call: async (method, path) => asked.push(method) && { ok: true, found: { is_paused: path.includes('clicks') } } });
  await airflow.unpause('clicks.supervise');
  await airflow.unpause('visits.supervise');
  equal(asked, ['GET', 'PATCH', 'GET']);
});
test('the actions are drawn anew when a savepoint takes the place of another', () => {
  const found = (...ids) => ({ may: {}, row: row({}), canary: false, savepoints: ids.map((savepoint) => ({ savepoint })) });
  equal([barKey(found('a', 'b')) === barKey(found('a', 'b')), barKey(found('a', 'b')) === barKey(found('b', 'c'))], [true, false]);
});
test('a late answer does not replace that to a later request', async () => {
  const [ask, answers] = [window.fetch, []];
  window.fetch = () => new Promise((answer) => answers.push((at) => answer({ ok: true, json: async () => ({ at }) })));
  const told = [];
  const feed = new Feed(() => 'x', ({ document: found }) => told.push(found.at));
  const later = feed.ask();
  answers[1](2);
  await later;
  answers[0](1);
  await new Promise((done) => setTimeout(done));
  window.fetch = ask;
  feed.end();
  equal([told, feed.document.at], [[2], 2]);
});
test('an action without the right says which DAG it needs', () => {
  const found = { may: {}, host: { operate: 'sessionizer.operate' }, row: row({}), savepoints: [] };
  equal([dagOf(restore, found), reasonAgainst(restore, found).includes('sessionizer.operate'), reasonAgainst(restore, { ...found, may: { operate: true } }) !== '', reasonAgainst(restore, { ...found, may: { operate: true }, savepoints: [{}] })], ['sessionizer.operate', true, true, '']);
});

test('what a stream says is never markup', () => equal(el('p', {}, '<b>x</b>').children.length, 0));
test('nothing is drawn anew while its key stays', () => {
  const node = el('div');
  let drawn = 0;
  const draw = () => el('i', {}, String((drawn += 1)));
  show(node, 'a', draw);
  const first = node.firstChild;
  show(node, 'a', draw);
  equal([drawn, node.firstChild === first], [1, true]);
  show(node, 'b', draw);
  equal([drawn, node.textContent], [2, '2']);
});
test('a drained stream has not failed', () => {
  const health = { word: 'healthy', severity: 0, what: '', rule: 'drained' };
  equal([row({ health, state: 'FAILED' }), row({ state: 'NEVER_STARTED' })].map(stateText), ['drained', 'never started']);
});
test('a row of the fleet keeps its element, and its focus, when others move', () => {
  const root = document.body.appendChild(el('main'));
  const view = new FleetView(root);
  view.render({ at: 1, streams: [row({ stream: 'a' }), row({ stream: 'b' })] }, 1);
  root.querySelector('a[href="#/b"]').focus();
  view.render({ at: 2, streams: [row({ stream: 'a', rate: 5 }), row({ stream: 'b', health: { word: 'down', severity: 4, what: 'x' } })] }, 2);
  equal([[...root.querySelectorAll('tbody a')].map((link) => link.textContent), document.activeElement.textContent], [['b', 'a'], 'b']);
  root.remove();
});
test('the arrow keys move through the timeline, and it is one stop of Tab', () => {
  const line = new Timeline(() => {});
  document.body.append(line.node);
  const marks = [['start', 100], ['crash', 500]].map(([kind, at]) => ({ kind, at, what: '', text: '' }));
  line.render({ points: [], marks, savepoints: [{ at: 900, savepoint: 's', what: 'native', text: '' }], from: 0, to: 1000, every: 10 }, null);
  const stops = () => [...line.node.querySelectorAll('[tabindex="0"]')].map((button) => button.className);
  equal(stops(), ['point savepoint']);
  line.node.querySelector('.savepoint').focus();
  line.node.querySelector('.rows').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }));
  equal([document.activeElement.className, stops()], ['point crash', ['point crash']]);
  line.node.remove();
});
