// Changes of the stream's state that are under way: each with its plan, its answer and its steps.
import { parsePlan, stepsOf, verbOf } from './airflow.js';
import { el, show } from './dom.js';
import { openInHost } from './theme.js';

const EVERY_MS = 3000;
const QUIET_MS = 10000; // while nothing is under way
const READ_FIRST_MS = 3000; // Airflow may lose an answer that comes within a second of the question

const stepWords = (change) => (change ? stepsOf(change).steps.map(({ word }) => word).join() : '');

export class Changes {
  // `mayAnswer`: ids of the DAGs whose plans the user may answer. `refresh` asks for the rest of the page again
  constructor(airflow, stream, mayAnswer, refresh) {
    Object.assign(this, { airflow, stream, mayAnswer, refresh });
    this.node = el('section', { class: 'changes', 'aria-label': 'Changes under way', 'aria-live': 'polite' });
    this.shown = new Map(); // by the run's id, also those that ended while the page was open
    this.since = new Map(); // by the run's id: when its plan was shown first
    this.cards = new Map(); // by the run's id: one is drawn anew only if itself changes, so that focus stays in it
    this.ask();
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
  }

  // Show a run that this page asked for, at once.
  add(run) {
    this.shown.set(run.dag_run_id, { run, states: {}, plan: null });
    this.render();
    this.node.scrollIntoView({ block: 'center' });
    this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    if (!document.hidden) await this.look();
    if (!this.ended) this.timer = setTimeout(() => this.ask(), this.isBusy ? EVERY_MS : QUIET_MS);
  }

  get isBusy() {
    return [...this.shown.values()].some((change) => !stepsOf(change).isOver);
  }

  async look() {
    const open = [...this.shown.values()].filter((change) => !stepsOf(change).isOver).map((change) => change.run);
    const known = new Set(open.map((run) => run.dag_run_id));
    const found = (await this.airflow.runs(this.stream)).filter((run) => !known.has(run.dag_run_id));
    const looked = (await Promise.all([...found, ...open].map((run) => this.airflow.look(run)))).filter(Boolean);
    // a user who reads that a savepoint is done can restore it: the page has what a step made before its card says so
    if (looked.some((change) => stepWords(change) !== stepWords(this.shown.get(change.run.dag_run_id)))) await this.refresh();
    for (const change of looked) this.shown.set(change.run.dag_run_id, change);
    this.render();
  }

  render() {
    for (const [id, { plan }] of this.shown) {
      if (plan && !this.since.has(id)) this.since.set(id, Date.now());
      if (!plan) this.since.delete(id);
    }
    const changes = [...this.shown.values()].sort((one, other) => (one.run.run_after < other.run.run_after ? 1 : -1));
    const cards = changes.map((change) => this.draw(change));
    for (const card of [...this.node.children]) if (!cards.includes(card)) card.remove();
    // a card that is put in again would lose the focus
    cards.forEach((card, index) => this.node.children[index] === card || this.node.insertBefore(card, this.node.children[index] || null));
  }

  draw(change) {
    const { run, states, plan, pool } = change;
    if (!this.cards.has(run.dag_run_id)) this.cards.set(run.dag_run_id, el('article'));
    const card = this.cards.get(run.dag_run_id);
    card.className = `change ${run.state}`;
    show(card, JSON.stringify([run.state, states, plan && plan.created_at, pool && pool.occupied_slots]), () => this.card(change));
    return card;
  }

  card(change) {
    const { run, plan, failure = [] } = change;
    const { steps, isOver } = stepsOf(change, this.mayAnswer.includes(run.dag_id));
    const close = el('button', { type: 'button', class: 'quiet', onclick: () => this.close(run) }, 'Close');
    const open = el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${this.airflow.base}/dags/${run.dag_id}/runs/${encodeURIComponent(run.dag_run_id)}`) }, 'Open the run');
    const title = `${verbOf(run).replace('_', ' ')} ${run.conf.savepoint ? `to ${run.conf.savepoint}` : ''}`;
    return [
      el('div', { class: 'change-head' }, el('h2', {}, title), steps.map(({ name, word }) => el('span', { class: `step ${word.replace(/ /g, '-')}` }, `${name}: ${word}`)), open, isOver ? close : null),
      run.conf.why ? el('p', { class: 'why' }, `Why: ${run.conf.why}`) : null,
      isOver ? el('p', {}, run.note || run.state) : null,
      failure.map((text) => el('p', { class: 'failure' }, text)),
      plan ? this.planOf(run, plan) : null,
    ];
  }

  planOf(run, plan) {
    const { title, lines, rest } = parsePlan(plan.body);
    const said = el('p', { class: 'said', role: 'status', tabindex: '-1' });
    const buttons = ['Approve', 'Reject'].map((option) =>
      el('button', { type: 'button', class: option === 'Approve' ? 'primary' : null, disabled: true, onclick: () => this.answer(run, option, buttons, said) }, option));
    const mayAnswer = this.mayAnswer.includes(run.dag_id);
    if (mayAnswer) setTimeout(() => buttons.forEach((button) => (button.disabled = false)), READ_FIRST_MS - (Date.now() - this.since.get(run.dag_run_id)));
    return el(
      'div', { class: 'plan' },
      el('h3', {}, plan.subject), el('p', {}, title), el('ul', {}, lines.map((line) => el('li', {}, line))),
      el('p', { class: 'why' }, rest.replaceAll('`', '')), said,
      mayAnswer ? el('div', { class: 'buttons' }, buttons) : el('p', { class: 'why' }, 'You may not answer: another user must approve or reject it.'),
    );
  }

  async answer(run, option, buttons, said) {
    buttons.forEach((button) => (button.disabled = true));
    said.textContent = 'Asking Airflow …';
    said.focus({ preventScroll: true }); // its button has no focus any more
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
    this.shown.delete(run.dag_run_id);
    this.cards.delete(run.dag_run_id);
    this.render();
  }
}
