// Airflow's own API, asked with the user's session: it checks the user's rights on each DAG again.
const PATIENCE_MS = 8000;
const SIGN_IN = 'Airflow does not know you any more. Sign in again, then reload this page';

export class Airflow {
  constructor(host) {
    this.host = host;
    this.dags = [host.operate, host.upgrade];
  }

  // The path of Airflow's pages, which may be below a prefix.
  get base() {
    return new URL(`${this.host.api}/../..`, location.href).pathname.replace(/\/$/, '');
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

  // The run as it is now, the states of its tasks, its plan while that waits for an answer, why it failed, and the pool
  // of a task that is due.
  async look(run) {
    const [now, tasks] = await Promise.all([this.call('GET', this.path(run)), this.call('GET', `${this.path(run)}/taskInstances`)]);
    if (!now.ok || !tasks.ok) return null;
    const states = Object.fromEntries(tasks.found.task_instances.map((task) => [task.task_id, task.state]));
    const due = tasks.found.task_instances.find((task) => task.state === 'scheduled' || task.state === 'queued');
    const pool = due ? await this.call('GET', `/pools/${encodeURIComponent(due.pool)}`) : null;
    const plan = states.approve === 'awaiting_input' ? await this.call('GET', `${this.path(run)}/taskInstances/approve/-1/hitlDetails`) : null;
    const failed = now.found.state === 'failed' && tasks.found.task_instances.find((task) => task.state === 'failed');
    return { run: now.found, states, plan: plan && plan.ok && !plan.found.response_received ? plan.found : null, pool: pool && pool.ok ? pool.found : null, failure: failed ? await this.failure(run, failed) : [] };
  }

  // Why a task failed and what to do: the last two errors of its log. Nothing for a user who may not read it.
  async failure(run, { task_id: task, try_number: number }) {
    const log = await this.call('GET', `${this.path(run)}/taskInstances/${task}/logs/${number}?full_content=true`);
    return log.ok ? errorsOf(log.found.content) : [];
  }

  answer(run, option) {
    return this.call('PATCH', `${this.path(run)}/taskInstances/approve/-1/hitlDetails`, { chosen_options: [option], params_input: {} });
  }
}

export const textOf = (detail) => (typeof detail === 'string' ? detail : Array.isArray(detail) ? detail.map((each) => each.msg).join(', ') : '');

export const errorsOf = (lines) => lines.filter((line) => line.level === 'error').map((line) => line.event.replace(/\n +/g, '\n')).slice(-2);

// The text of an approval, which is Markdown of ours, as {title, lines, rest}.
export function parsePlan(body) {
  const plain = (line) => line.replace(/\\(.)/g, '$1');
  const lines = (body || '').split('\n').map((line) => line.trim()).filter(Boolean);
  return {
    title: plain((lines[0] || '').replace(/^\*\*|\*\*$/g, '')),
    lines: lines.slice(1).filter((line) => line.startsWith('- ')).map((line) => plain(line.slice(2))),
    rest: lines.slice(1).filter((line) => !line.startsWith('- ')).map((line) => plain(line.replace(/\*\*/g, ''))).join(' '),
  };
}

// What a run was asked for: the verb of its form, else the name of its DAG behind the dot.
export const verbOf = ({ conf, dag_id: dag = '' }) => (conf && conf.verb) || dag.split('.').pop();

// Where a run is: a few words for each step, and whether it is over.
export function stepsOf({ run, states, plan, pool }, mayAnswer = true) {
  const direct = ['savepoint', 'promote', 'test_alert', 'start', 'stop'].find((name) => name === verbOf(run));
  const names = direct ? [direct] : ['plan', 'approve', 'carry_out'];
  const words = { success: 'done', failed: 'failed', upstream_failed: 'not reached', skipped: 'skipped', running: 'running', up_for_retry: 'tried again' };
  const waits = mayAnswer ? 'waits for you' : 'waits for another user';
  const isFull = pool && pool.open_slots <= 0;
  const due = isFull ? `waits for pool ${pool.name} (${pool.occupied_slots} of ${pool.slots} in use)` : 'next';
  // a rejected plan is a success of its task, after which the others are skipped
  const answered = states.approve === 'success' && (states.carry_out === 'skipped' ? 'rejected' : 'approved');
  const wordOf = (name) => (name === 'approve' && answered) || words[states[name]] || (states[name] === 'scheduled' || states[name] === 'queued' ? due : 'next');
  const steps = names.map((name) => ({ name: name.replace('_', ' '), word: name === 'approve' && plan ? waits : wordOf(name) }));
  return { steps, isOver: run.state === 'success' || run.state === 'failed' };
}
