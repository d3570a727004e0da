// Actions are runs of DAGs. The browser asks Airflow's own API for them, which checks the user's rights again.
import { el } from './dom.js';
import { openInHost } from './theme.js';

const ACTIONS = [
  { key: 'start', may: 'start', label: 'Start', text: 'The stream shall run. Its supervising DAG launches a driver.', dag: (stream) => `${stream}.start`, conf: () => ({}) },
  { key: 'stop', may: 'stop', label: 'Stop', text: 'The stream ends at the next batch boundary and stays stopped until it is started. Open sessions stay open.', dag: (stream) => `${stream}.stop`, conf: () => ({}) },
  { key: 'savepoint', may: 'operate', label: 'Savepoint', text: 'Saves what the stream has open. The stream runs on.', operate: true, conf: () => ({ verb: 'savepoint' }) },
  { key: 'restore', may: 'operate', label: 'Restore …', text: 'Makes a plan for going back to a savepoint. Nothing changes until the plan is approved.', operate: true, plans: true, choose: true, conf: (chosen) => ({ verb: 'restore', savepoint: chosen }) },
  { key: 'rollback', may: 'operate', label: 'Roll back …', text: 'Makes a plan for going back to the lineage before. Nothing changes until the plan is approved.', operate: true, plans: true, conf: () => ({ verb: 'rollback' }) },
];

export function actionBar(document_) {
  const { host, may, row } = document_;
  if (host.name !== 'airflow') return commandBar(row);
  const buttons = ACTIONS.map((action) => {
    const isAllowed = Boolean(may[action.may]);
    const lacks = action.choose && !document_.savepoints.length;
    const reason = !isAllowed ? `You may not run ${action.operate ? host.operate : action.dag(row.stream)}` : lacks ? 'No savepoint in the last 7 days' : '';
    return el('button', { type: 'button', class: action.key === 'stop' ? 'danger' : null, disabled: Boolean(reason), title: reason || action.text, onclick: () => ask(action, document_) }, action.label);
  });
  const more = el('button', { type: 'button', class: 'quiet', onclick: () => openInHost(`${base(host)}/dags/${host.operate}`) }, 'All operations');
  return el('div', { class: 'actions', role: 'group', 'aria-label': 'Actions' }, buttons, more);
}

function commandBar(row) {
  const command = row.live ? `sessionizer stop ${row.stream}` : `sessionizer run ${row.stream}`;
  return el('p', { class: 'command' }, row.live ? 'To stop it: ' : 'To start it: ', el('code', {}, command));
}

const base = (host) => new URL(`${host.api}/../..`, location.href).pathname.replace(/\/$/, '');

function ask(action, { host, row, savepoints }) {
  const why = el('input', { type: 'text', maxlength: '500', id: 'why', autocomplete: 'off' });
  const choice = action.choose
    ? el('select', { id: 'savepoint' }, [...savepoints].reverse().map((mark) => el('option', { value: mark.savepoint }, `${mark.savepoint}, batch ${mark.batch_id}${mark.text ? `, ${mark.text}` : ''}`)))
    : null;
  const said = el('p', { class: 'said', role: 'status' });
  const go = el('button', { type: 'submit', class: action.key === 'stop' ? 'danger' : 'primary' }, action.plans ? 'Make the plan' : action.label);
  const cancel = el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Cancel');
  const form = el(
    'form',
    {
      onsubmit: async (event) => {
        event.preventDefault();
        go.disabled = true;
        said.textContent = 'Asking Airflow …';
        const isAsked = await run(action, host, row.stream, choice ? choice.value : null, why.value, said, cancel);
        go.hidden = isAsked; // a second click would be a second run
        go.disabled = false;
      },
    },
    el('h2', { id: 'asked' }, `${action.label.replace(' …', '')} ${row.stream}`),
    el('p', {}, action.text),
    choice ? [el('label', { for: 'savepoint' }, 'Savepoint'), choice] : null,
    el('label', { for: 'why' }, 'Why (optional, kept with the request)'), why, said,
    el('div', { class: 'buttons' }, cancel, go),
  );
  const dialog = el('dialog', { 'aria-labelledby': 'asked', onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}

async function run(action, host, stream, chosen, why, said, cancel) {
  const dag = action.operate ? host.operate : action.dag(stream);
  const conf = { ...action.conf(chosen), ...(action.operate ? { stream } : {}), ...(why ? { why } : {}) };
  try {
    const answer = await fetch(`${host.api}/dags/${encodeURIComponent(dag)}/dagRuns`, {
      method: 'POST', credentials: 'same-origin', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ logical_date: null, conf }),
    });
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      said.textContent = answer.status === 403 ? `You may not run ${dag}.` : `Airflow refused: ${textOf(body.detail) || `HTTP ${answer.status}`}`;
      return false;
    }
    cancel.textContent = 'Close';
    const place = `${base(host)}/dags/${dag}/runs/${encodeURIComponent(body.dag_run_id)}`;
    const link = el('button', { type: 'button', class: 'link', onclick: () => openInHost(place) }, 'Open the run');
    said.replaceChildren(action.plans ? 'The plan is being made. Approve or reject it under Required Actions of the run. ' : 'Airflow has it. ', link);
    return true;
  } catch {
    said.textContent = "Airflow's API server does not answer. Nothing was asked for.";
    return false;
  }
}

const textOf = (detail) => (typeof detail === 'string' ? detail : Array.isArray(detail) ? detail.map((each) => each.msg).join(', ') : '');
