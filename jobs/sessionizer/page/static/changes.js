// Airflow's own API, asked with the user's session: it checks the user's rights on each DAG again.
import { el, hostPath, marked, openInHost, show } from './dom.js';
import { NOTHING, bytes, moment } from './format.js';

const PATIENCE_MS = 8000;
const SIGN_IN = 'Airflow does not know you any more. Sign in again, then reload this page';

export class Airflow {
  constructor(host) {
    this.host = host;
    this.dags = [host.operate, host.upgrade];
  }

  get base() {
    return hostPath(this.host);
  }

  // A refusal is {ok: false, text}, and changes nothing.
  async call(method, path, body) {
    try {
      const answer = await fetch(`${this.host.api}${path}`, {
        method, credentials: 'same-origin', signal: AbortSignal.timeout(PATIENCE_MS),
        ...(body ? { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) } : {}),
      });
      const found = await answer.json().catch(() => ({}));
      const text = answer.status === 401 ? SIGN_IN : textOf(found.detail) || `HTTP ${answer.status}`;
      return answer.ok ? { ok: true, found } : { ok: false, status: answer.status, text };
    } catch {
      return { ok: false, status: 0, text: "Airflow's API server does not answer" };
    }
  }

  // Unpause a DAG. One that is not paused needs no right to do so.
  async unpause(dag) {
    const now = await this.call('GET', `/dags/${encodeURIComponent(dag)}`);
    if (!now.ok || !now.found.is_paused) return now;
    return this.call('PATCH', `/dags/${encodeURIComponent(dag)}?update_mask=is_paused`, { is_paused: false });
  }

  // A run of a paused DAG would wait for ever without a word. A user who asks again without an answer gets the run of
  // this `id` that the first request may have made, and no second one.
  async run(dag, conf, id) {
    const path = `/dags/${encodeURIComponent(dag)}`;
    const now = await this.call('GET', path);
    if (now.ok && now.found.is_paused) return { ok: false, status: 409, text: `the DAG ${dag} is paused. Unpause it in Airflow, then ask again` };
    const asked = await this.call('POST', `${path}/dagRuns`, { dag_run_id: id, logical_date: null, conf });
    return asked.status === 409 ? this.call('GET', `${path}/dagRuns/${encodeURIComponent(id)}`) : asked;
  }

  // The runs of a stream that are not over, the newest first.
  async runs(stream) {
    const query = 'state=queued&state=running&order_by=-run_after&limit=50';
    const answers = await Promise.all(this.dags.map((dag) => this.call('GET', `/dags/${dag}/dagRuns?${query}`)));
    return answers.flatMap((each) => (each.ok ? each.found.dag_runs : [])).filter((run) => (run.conf || {}).stream === stream);
  }

  path(run) {
    return `/dags/${run.dag_id}/dagRuns/${encodeURIComponent(run.dag_run_id)}`;
  }

  // The run as it is now, the states of its tasks, its plan, the question to the user while that waits for an answer,
  // why it failed, and the pool of a task that is due.
  async look(run) {
    const [now, tasks] = await Promise.all([this.call('GET', this.path(run)), this.call('GET', `${this.path(run)}/taskInstances`)]);
    if (!now.ok || !tasks.ok) return null;
    const states = Object.fromEntries(tasks.found.task_instances.map((task) => [task.task_id, task.state]));
    const due = tasks.found.task_instances.find((task) => task.state === 'scheduled' || task.state === 'queued');
    const pool = due ? await this.call('GET', `/pools/${encodeURIComponent(due.pool)}`) : null;
    const waits = states.approve === 'awaiting_input';
    const asked = waits ? await this.call('GET', `${this.path(run)}/taskInstances/approve/-1/hitlDetails`) : null;
    const question = asked && asked.ok && !asked.found.response_received ? asked.found : null;
    const plan = question || states.approve === 'failed' ? await this.plan(run) : null;
    const isRefused = tasks.found.task_instances.some((task) => task.task_id === 'approve' && task.state === 'failed' && (task.rendered_map_index || '').endsWith(REFUSED));
    const failed = now.found.state === 'failed' && tasks.found.task_instances.find((task) => task.state === 'failed');
    return { run: now.found, states, isRefused, plan, question, pool: pool && pool.ok ? pool.found : null, failure: failed ? await this.failure(run, failed) : [] };
  }

  // Why a task failed and what to do: the last two errors of its log. Nothing for a user who may not read it.
  async failure(run, { task_id: task, try_number: number }) {
    const log = await this.call('GET', `${this.path(run)}/taskInstances/${task}/logs/${number}?full_content=true`);
    return log.ok ? errorsOf(log.found.content) : [];
  }

  // The plan of a run, which the task of its approval keeps. Null for a user who may not read it.
  async plan(run) {
    const kept = await this.call('GET', `${this.path(run)}/taskInstances/approve/xcomEntries/plan`);
    return kept.ok ? kept.found.value : null;
  }

  answer(run, option) {
    return this.call('PATCH', `${this.path(run)}/taskInstances/approve/-1/hitlDetails`, { chosen_options: [option], params_input: {} });
  }
}

// The end of the label of the task `approve` if its plan is impossible, or needs what the user did not accept.
const REFUSED = 'plan refused';

export const textOf = (detail) => (typeof detail === 'string' ? detail : Array.isArray(detail) ? detail.map((each) => each.msg).join(', ') : '');

export const errorsOf = (lines) => lines.filter((line) => line.level === 'error').map((line) => line.event.replace(/\n +/g, '\n')).slice(-2);

// What a run was asked for: the verb of its form, else the name of its DAG behind the dot.
export const verbOf = ({ conf, dag_id: dag = '' }) => (conf && conf.verb) || dag.split('.').pop();

// Where a run is: a few words for each step.
export function stepsOf({ run, states, question, pool, isRefused }, mayAnswer = true) {
  const direct = ['savepoint', 'promote', 'test_alert', 'start', 'stop'].find((name) => name === verbOf(run));
  const names = direct ? [direct] : ['plan', 'approve', 'carry_out'];
  const words = { success: 'done', failed: 'failed', upstream_failed: 'not reached', skipped: 'skipped', running: 'running', up_for_retry: 'tried again' };
  const waits = mayAnswer ? 'waits for you' : 'waits for another user';
  const isFull = pool && pool.open_slots <= 0;
  const due = isFull ? `waits for pool ${pool.name} (${pool.occupied_slots} of ${pool.slots} in use)` : 'next';
  // a rejected plan is a success of its task, after which the others are skipped
  const answered = isRefused ? REFUSED : states.approve === 'success' && (states.carry_out === 'skipped' ? 'rejected' : 'approved');
  const wordOf = (name) => (name === 'approve' && answered) || words[states[name]] || (states[name] === 'scheduled' || states[name] === 'queued' ? due : 'next');
  return names.map((name) => ({ name: name.replace('_', ' '), word: name === 'approve' && question ? waits : wordOf(name) }));
}

// Changes of the stream's state that are under way: each with its plan, its answer and its steps.

const EVERY_MS = 3000;
const QUIET_MS = 10000; // while nothing is under way
const READ_FIRST_MS = 3000; // Airflow may lose an answer that comes within a second of the question

const stepWords = (change) => (change ? stepsOf(change).map(({ word }) => word).join() : '');

export class Changes {
  // `may`: what the user may ask for, and `approve`: the DAGs whose plans they may answer. `refresh` asks for the page
  constructor(airflow, stream, may, refresh) {
    Object.assign(this, { airflow, stream, may, refresh });
    this.node = el('section', { class: 'changes', 'aria-label': 'Changes under way', 'aria-live': 'polite' });
    this.shown = new Map(); // by the run's id, also those that ended while the page was open
    this.since = new Map(); // by the run's id: when its plan was shown first
    this.cards = new Map(); // by the run's id: one is drawn anew only if itself changes, so that focus stays in it
    this.held = null; // the dialog that has the card of the run which it asked for: {id, dialog}
    this.ask();
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
  }

  // Show a run that this page asked for, at once: in the dialog, as long as that is open.
  add(run, dialog = null) {
    this.shown.set(run.dag_run_id, { run, states: {}, plan: null });
    if (dialog) this.held = { id: run.dag_run_id, dialog };
    this.render();
    if (!dialog) this.node.scrollIntoView({ block: 'center' });
    this.ask();
  }

  // A dialog that is closed leaves its card to the page.
  release(dialog) {
    if (!this.held || this.held.dialog !== dialog) return;
    const { run } = this.shown.get(this.held.id) || {};
    this.held = null;
    this.cards.forEach((card) => (card.shownKey = null)); // its Close is for the dialog
    if (run && isOver(run)) this.close(run);
    else this.render();
  }

  async ask() {
    clearTimeout(this.timer);
    if (!document.hidden) await this.look();
    if (!this.ended) this.timer = setTimeout(() => this.ask(), this.isBusy ? EVERY_MS : QUIET_MS);
  }

  get isBusy() {
    return [...this.shown.values()].some(({ run }) => !isOver(run));
  }

  async look() {
    const open = [...this.shown.values()].map(({ run }) => run).filter((run) => !isOver(run));
    const known = new Set(open.map((run) => run.dag_run_id));
    const found = (await this.airflow.runs(this.stream)).filter((run) => !known.has(run.dag_run_id));
    const looked = (await Promise.all([...found, ...open].map((run) => this.airflow.look(run)))).filter(Boolean);
    // a user who reads that a savepoint is done can restore it: the page has what a step made before its card says so
    if (looked.some((change) => stepWords(change) !== stepWords(this.shown.get(change.run.dag_run_id)))) await this.refresh();
    for (const change of looked) this.shown.set(change.run.dag_run_id, change);
    this.render();
  }

  render() {
    for (const [id, { question }] of this.shown) {
      if (question && !this.since.has(id)) this.since.set(id, Date.now());
      if (!question) this.since.delete(id);
    }
    const changes = [...this.shown.values()].sort((one, other) => (one.run.run_after < other.run.run_after ? 1 : -1));
    const cards = changes.map((change) => this.draw(change));
    const held = this.held && this.cards.get(this.held.id);
    if (held && held.parentElement !== this.held.dialog) {
      this.held.dialog.replaceChildren(held);
      held.querySelector('button').focus();
    }
    const listed = cards.filter((card) => card !== held);
    for (const card of [...this.node.children]) if (!listed.includes(card)) card.remove();
    // a card that is put in again would lose the focus
    listed.forEach((card, index) => this.node.children[index] === card || this.node.insertBefore(card, this.node.children[index] || null));
  }

  draw(change) {
    const { run, states, plan, question, pool } = change;
    if (!this.cards.has(run.dag_run_id)) this.cards.set(run.dag_run_id, el('article'));
    const card = this.cards.get(run.dag_run_id);
    card.className = `change ${run.state}`;
    show(card, JSON.stringify([run.state, states, plan, question && question.created_at, pool && pool.occupied_slots]), () => this.card(change));
    return card;
  }

  card(change) {
    const { run, plan, question, isRefused, failure = [] } = change;
    const steps = stepsOf(change, this.mayAnswer(run));
    const isHeld = this.held && this.held.id === run.dag_run_id;
    const close = isHeld || isOver(run) ? el('button', { type: 'button', class: 'quiet', onclick: () => this.close(run) }, 'Close') : null;
    const open = el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${this.airflow.base}/dags/${run.dag_id}/runs/${encodeURIComponent(run.dag_run_id)}`) }, 'Open the run');
    const title = `${verbOf(run).replace('_', ' ')} ${run.conf.savepoint ? `to ${run.conf.savepoint}` : ''}`;
    const why = [run.conf.why && `Why: ${run.conf.why}`, plan && run.triggering_user_name && `Asked for by ${run.triggering_user_name}`];
    // what the user did not accept has its boxes, which the log cannot know
    const told = isRefused && plan ? [] : [isOver(run) ? el('p', {}, run.note || run.state) : null, failure.map((text) => el('p', { class: 'failure' }, text))];
    return [
      el('div', { class: 'change-head' }, el('h2', {}, title), steps.map(({ name, word }) => el('span', { class: `step ${word.replace(/ /g, '-')}` }, `${name}: ${word}`)), open, close),
      why.filter(Boolean).map((text) => el('p', { class: 'why' }, text)), told,
      plan ? this.planOf(run, plan, question) : question && el('p', {}, 'You may not read this plan here. Open the run.'),
    ];
  }

  mayAnswer(run) {
    return this.may.approve.includes(run.dag_id);
  }

  planOf(run, plan, question) {
    const said = el('p', { class: 'said', role: 'status', tabindex: '-1' });
    const answer = question ? this.answersOf(run, plan, said) : this.againOf(run, plan, said);
    return el(
      'div', { class: 'plan' },
      question ? el('h3', {}, question.subject) : null, el('p', {}, plan.title),
      el('ul', { class: 'differences' }, differencesOf(plan.differences, plan.accepted, question ? null : `again-${run.dag_run_id}`)),
      el('ul', {}, plan.lines.map((line) => el('li', {}, marked(line)))), answer,
    );
  }

  answersOf(run, plan, said) {
    if (!this.mayAnswer(run)) return el('p', { class: 'why' }, 'You may not answer: another user must approve or reject it.');
    const buttons = ['Approve', 'Reject'].map((option) =>
      el('button', { type: 'button', class: option === 'Approve' ? 'primary' : null, disabled: true, onclick: () => this.answer(run, option, plan, buttons, said) }, option));
    setTimeout(() => buttons.forEach((button) => (button.disabled = false)), READ_FIRST_MS - (Date.now() - this.since.get(run.dag_run_id)));
    const terms = ' runs exactly this plan. If it has changed by then, the run fails and the stream is not changed. Without an answer it is rejected.';
    return [el('p', { class: 'why' }, 'Approve ', el('code', {}, plan.digest), terms), said, el('div', { class: 'buttons' }, buttons)];
  }

  // A plan that needs what the user has not accepted is made again with the boxes that they tick.
  againOf(run, plan, said) {
    const left = plan.differences.filter((each) => each.must_be_accepted && !plan.accepted.includes(each.name));
    const may = this.may[run.dag_id === this.airflow.host.upgrade ? 'upgrade' : 'operate'];
    if (!left.length || !may || plan.differences.some((each) => each.verdict === 'incompatible')) return said;
    const again = el('button', { type: 'button', class: 'primary', disabled: true }, 'Plan again with these');
    const ticked = () => [...this.cards.get(run.dag_run_id).querySelectorAll('[name=accept]')].filter((box) => box.checked).map((box) => box.value);
    this.cards.get(run.dag_run_id).onchange = () => (again.disabled = ticked().length < left.length);
    const id = newId();
    again.onclick = async () => {
      again.disabled = true;
      said.textContent = 'Asking Airflow …';
      const conf = { ...run.conf, accept: [...plan.accepted, ...ticked()].join('\n') };
      const asked = await this.airflow.run(run.dag_id, conf, id);
      said.textContent = asked.ok ? '' : refusalOf(asked, run.dag_id);
      again.disabled = false;
      if (!asked.ok) return;
      const dialog = this.held && this.held.id === run.dag_run_id ? this.held.dialog : null;
      this.forget(run);
      this.add(asked.found, dialog);
    };
    return [el('p', { class: 'why' }, 'Nothing is changed so far. Tick each difference that you accept.'), said, el('div', { class: 'buttons' }, again)];
  }

  async answer(run, option, plan, buttons, said) {
    buttons.forEach((button) => (button.disabled = true));
    said.textContent = 'Asking Airflow …';
    said.focus({ preventScroll: true }); // its button has no focus any more
    const now = option === 'Approve' ? await this.airflow.plan(run) : plan;
    if (!now || now.digest !== plan.digest) {
      said.textContent = 'This is not the plan any more. It is not approved. Reload the page.';
      return;
    }
    const answer = await this.airflow.answer(run, option);
    if (!answer.ok) {
      const refusals = { 403: 'You may not answer this plan. It is not approved.', 409: 'Another user has answered it meanwhile.' };
      said.textContent = refusals[answer.status] || `Your answer was not taken: ${answer.text}.`;
      buttons.forEach((button) => (button.disabled = answer.status in refusals));
      return;
    }
    said.textContent = option === 'Approve' ? 'Approved. It is carried out now.' : 'Rejected. The stream is not changed.';
    this.since.delete(run.dag_run_id);
    this.ask();
  }

  close(run) {
    if (this.held && this.held.id === run.dag_run_id) return this.held.dialog.close();
    this.forget(run);
    return this.render();
  }

  forget(run) {
    this.shown.delete(run.dag_run_id);
    this.cards.delete(run.dag_run_id);
  }
}

const isOver = ({ state }) => state === 'success' || state === 'failed';
const newId = () => `page__${new Date().toISOString()}_${Math.random().toString(36).slice(2, 8)}`;

// Differences with their verdicts. Those that a user must accept have a box, if `boxes` begins their ids.
export function differencesOf(differences, accepted, boxes) {
  const text = (value) => (typeof value === 'string' ? value : value === null ? NOTHING : JSON.stringify(value));
  return differences.map(({ name, kind, before, now, verdict, reason, remedy, must_be_accepted: must }, index) => {
    const isOpen = must && boxes && !accepted.includes(name);
    const box = isOpen ? el('input', { type: 'checkbox', id: `${boxes}-${index}`, name: 'accept', value: name }) : null;
    const label = [el('b', {}, `${isOpen ? 'Accept ' : ''}${name}`), `: ${kind}`];
    return el('li', {},
      el('div', { class: 'box' }, box, box ? el('label', { for: box.id }, label) : el('span', {}, label), el('span', { class: `tag ${verdict}` }, must && !isOpen && accepted.includes(name) ? `${verdict}, accepted` : verdict)),
      el('p', { class: 'why' }, `${text(before)} → ${text(now)}`), [reason, isOpen || verdict === 'incompatible' ? remedy : ''].filter(Boolean).map((said) => el('p', { class: 'why' }, said)));
  });
}

// Actions are runs of DAGs. A change of the state is a plan first, which a user approves on this page or in Airflow.

const start = { key: 'start', may: 'start', label: 'Start', text: 'The stream shall run. Its supervising DAG launches a driver, and is unpaused if it is paused.', dag: (stream) => `${stream}.start` };
const stop = { key: 'stop', may: 'stop', label: 'Stop', danger: true, text: 'The stream ends at the next batch boundary and stays stopped until it is started. Open sessions stay open.', dag: (stream) => `${stream}.stop` };
const savepoint = { key: 'savepoint', may: 'operate', label: 'Savepoint', text: 'Saves what the stream has open. The stream runs on.' };
const promote = { key: 'promote', may: 'operate', label: 'Promote', text: 'Keeps the lineage that is a canary, whatever its canary finds.' };
const alert = { key: 'test_alert', may: 'operate', label: 'Test the alerts', quiet: true, text: 'Sends a test message through the notifier of this Airflow. The stream is not touched.' };
const rollback = { key: 'rollback', may: 'operate', label: 'Roll back …', plans: true, text: 'Makes a plan for going back to the lineage before. Nothing changes until the plan is approved.' };
const reject = { ...rollback, label: 'Reject the canary …', text: 'Makes a plan for going back to the lineage before, and leaving the canary. Nothing changes until the plan is approved.' };
const upgrade = { key: 'upgrade', may: 'upgrade', label: 'Upgrade …', plans: true, text: 'Makes a plan for going on by the changed spec and the installed release. Nothing changes until the plan is approved.' };
export const restore = { key: 'restore', may: 'operate', label: 'Restore …', plans: true, choose: true, text: 'Makes a plan for going back to a savepoint. Nothing changes until the plan is approved.' };

const BUTTONS = { start, stop, savepoint, restore, rollback, promote, upgrade };

// The actions that the stream takes now, as the server says.
export function actionsOf({ row, canary }) {
  return [...row.actions.map((name) => (name === 'rollback' && canary ? reject : BUTTONS[name])), alert];
}

export function reasonAgainst(action, found) {
  if (!found.may[action.may]) return `You may not run ${dagOf(action, found)}`;
  if (action.choose && !found.savepoints.length) return 'No savepoint was made in the last 7 days';
  return '';
}

export function dagOf(action, { host, row }) {
  if (action.dag) return action.dag(row.stream);
  return action.key === 'upgrade' ? host.upgrade : host.operate;
}

export function actionBar(found, changes) {
  if (found.host.name !== 'airflow') return commandBar(found.row);
  const buttons = actionsOf(found).map((action) => actionButton(action, found, changes));
  return el('div', { class: 'actions', role: 'group', 'aria-label': 'Actions' }, buttons);
}

export function actionButton(action, found, changes, { label = action.label, chosen = null, style = null } = {}) {
  const reason = reasonAgainst(action, found);
  const kind = style || (action.danger ? 'danger' : action.quiet ? 'quiet' : null);
  return el('button', { type: 'button', class: kind, disabled: Boolean(reason), title: reason || action.text, onclick: () => ask(action, found, changes, chosen) }, label);
}

function commandBar(row) {
  if (!row.live && !row.actions.includes('start')) return null;
  const command = row.live ? `sessionizer stop ${row.stream}` : `sessionizer run ${row.stream}`;
  return el('p', { class: 'command' }, row.live ? 'To stop it: ' : 'To start it: ', el('code', {}, command));
}

// The fields of an action as rows of [name, label, input], or as whole nodes.
export function fieldsOf(action, { savepoints, differences }, chosen) {
  if (action.choose) {
    const options = [...savepoints].reverse().map((mark) =>
      el('option', { value: mark.savepoint, selected: mark.savepoint === chosen }, [moment(mark.at), `batch ${mark.batch_id}`, mark.what, mark.bytes ? bytes(mark.bytes) : '', mark.text, mark.savepoint].filter(Boolean).join(' · ')));
    const ofFile = el('input', { type: 'checkbox', id: 'field-with_file', name: 'with_file' });
    return [['savepoint', 'Savepoint', el('select', { id: 'field-savepoint', name: 'savepoint' }, options)], ['with_file', "Continue with the stream's file, not with the savepoint's spec", ofFile]];
  }
  if (action.key !== 'upgrade') return [];
  return [
    el('ul', { class: 'differences' }, differencesOf(differences, [], 'field-accept')),
    ['prove', 'Prove first: replay recorded batches before anything is changed', el('input', { type: 'checkbox', id: 'field-prove', name: 'prove' })],
  ];
}

function ask(action, found, changes, chosen) {
  const said = el('p', { class: 'said', role: 'status' });
  const title = `${action.label.replace(' …', '')}: ${found.row.stream}`;
  const go = el('button', { type: 'submit', class: action.danger ? 'danger' : 'primary' }, action.plans ? 'Make the plan' : action.label);
  const cancel = el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Cancel');
  const fields = fieldsOf(action, found, chosen);
  const why = el('input', { type: 'text', maxlength: '500', id: 'field-why', name: 'why', autocomplete: 'off' });
  const id = newId(); // one dialog asks for one run
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
    said.textContent = 'Asking Airflow …';
    // a start is of no use while the DAG that launches drivers is paused
    const supervised = action === start ? await changes.airflow.unpause(`${found.row.stream}.supervise`) : { ok: true };
    const conf = confOf(action, found.row.stream, event.target);
    const answer = supervised.ok ? await changes.airflow.run(dagOf(action, found), conf, id) : supervised;
    go.disabled = false;
    if (!answer.ok) {
      said.textContent = refusalOf(answer, supervised.ok ? dagOf(action, found) : `${found.row.stream}.supervise`);
      return;
    }
    if (!action.plans) dialog.close();
    changes.add(answer.found, action.plans && dialog.open ? dialog : null);
  };
  const form = el(
    'form', { onsubmit: submit },
    el('h2', {}, title), el('p', {}, action.text),
    fields.map((field) => (field instanceof Node ? field : fieldOf(field))),
    el('label', { for: 'field-why' }, 'Why (optional, kept with the request)'), why, said,
    el('div', { class: 'buttons' }, cancel, go),
  );
  const opener = document.activeElement;
  const close = () => {
    dialog.remove();
    changes.release(dialog);
    // the bar may have other buttons by now
    if (!opener.isConnected) document.querySelector('.actions button:enabled')?.focus();
  };
  const dialog = el('dialog', { 'aria-label': title, onclose: close }, form);
  document.body.append(dialog);
  dialog.showModal();
}

function fieldOf([name, label, input]) {
  return input.type === 'checkbox' ? el('label', { class: 'box' }, input, label) : [el('label', { for: `field-${name}` }, label), input];
}

// Without an answer (status 0) nobody knows whether Airflow made the run.
export function refusalOf({ status, text }, dag) {
  if (status === 403) return `You may not run ${dag}.`;
  return status ? `Nothing was asked for: ${text}.` : `${text}. Ask again: it becomes one run, whether the first request arrived or not.`;
}

// The form of the run. A field that the user left empty is not in it.
export function confOf(action, stream, form) {
  const filled = {};
  for (const { name, type, value, checked } of [...form.elements].filter((each) => each.name)) {
    if (type !== 'checkbox' && value.trim()) filled[name] = value.trim();
    // boxes of one name are the lines of its field
    if (type === 'checkbox' && checked) filled[name] = value === 'on' || [filled[name], value].filter(Boolean).join('\n');
  }
  if (action.dag) return filled;
  return action.key === 'upgrade' ? { stream, ...filled } : { verb: action.key, stream, ...filled };
}
