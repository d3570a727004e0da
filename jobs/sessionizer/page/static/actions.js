// Actions are runs of DAGs. A change of the state is a plan first, which a user approves on this page or in Airflow.
import { el } from './dom.js';

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

function fieldsOf(action, { savepoints }, chosen) {
  if (action.choose) {
    const options = [...savepoints].reverse().map((mark) =>
      el('option', { value: mark.savepoint, selected: mark.savepoint === chosen }, [mark.savepoint, `batch ${mark.batch_id}`, mark.text].filter(Boolean).join(', ')));
    return [['savepoint', 'Savepoint', el('select', { id: 'field-savepoint', name: 'savepoint' }, options)]];
  }
  if (action.key !== 'upgrade') return [];
  return [
    ['accept', 'Accept (names of differences, one on each line; a first plan names them)', el('textarea', { id: 'field-accept', name: 'accept', rows: '2' })],
    ['prove', 'Prove first: replay recorded batches before anything is changed', el('input', { type: 'checkbox', id: 'field-prove', name: 'prove' })],
  ];
}

function ask(action, found, changes, chosen) {
  const said = el('p', { class: 'said', role: 'status' });
  const go = el('button', { type: 'submit', class: action.danger ? 'danger' : 'primary' }, action.plans ? 'Make the plan' : action.label);
  const cancel = el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Cancel');
  const fields = fieldsOf(action, found, chosen);
  const why = el('input', { type: 'text', maxlength: '500', id: 'field-why', name: 'why', autocomplete: 'off' });
  const id = `page__${new Date().toISOString()}_${Math.random().toString(36).slice(2, 8)}`; // one dialog asks for one run
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
    dialog.close();
    changes.add(answer.found);
  };
  const form = el(
    'form', { onsubmit: submit },
    el('h2', { id: 'asked' }, `${action.label.replace(' …', '')}: ${found.row.stream}`), el('p', {}, action.text),
    fields.map(([name, label, input]) => (input.type === 'checkbox' ? el('label', { class: 'box' }, input, label) : [el('label', { for: `field-${name}` }, label), input])),
    el('label', { for: 'field-why' }, 'Why (optional, kept with the request)'), why, said,
    el('div', { class: 'buttons' }, cancel, go),
  );
  const opener = document.activeElement;
  const close = () => {
    dialog.remove();
    // the bar may have other buttons by now
    if (!opener.isConnected) document.querySelector('.actions button:enabled')?.focus();
  };
  const dialog = el('dialog', { 'aria-labelledby': 'asked', onclose: close }, form);
  document.body.append(dialog);
  dialog.showModal();
}

// Without an answer (status 0) nobody knows whether Airflow made the run.
export function refusalOf({ status, text }, dag) {
  if (status === 403) return `You may not run ${dag}.`;
  return status ? `Nothing was asked for: ${text}.` : `${text}. Ask again: it becomes one run, whether the first request arrived or not.`;
}

// The form of the run. A field that the user left empty is not in it.
export function confOf(action, stream, form) {
  const given = Object.fromEntries([...form.elements].filter((each) => each.name).map((each) => [each.name, each.type === 'checkbox' ? each.checked : each.value.trim()]));
  const filled = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== '' && value !== false));
  if (action.dag) return filled;
  return action.key === 'upgrade' ? { stream, ...filled } : { verb: action.key, stream, ...filled };
}
