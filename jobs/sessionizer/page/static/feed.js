// Ask for a document every few seconds, while the page is seen, and tell how old the newest one is.
export const EVERY_MS = 5000;
export const PATIENCE_MS = 8000;

export class Feed {
  constructor(address, told) {
    this.address = address;
    this.told = told; // called with {document, failure, since} after each answer, or none
    this.document = null;
    this.failure = null;
    this.since = null;
    this.timer = null;
    this.asked = 0;
    this.onVisible = () => !document.hidden && this.ask();
    document.addEventListener('visibilitychange', this.onVisible);
    this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.ended) return;
    const number = (this.asked += 1);
    const isOvertaken = () => this.ended || number !== this.asked; // the answer to a later request is newer
    try {
      const answer = await fetch(this.address(), { credentials: 'same-origin', signal: AbortSignal.timeout(PATIENCE_MS) });
      const body = await answer.json().catch(() => ({}));
      if (isOvertaken()) return;
      if (!answer.ok) this.fail(answer.status, body.message || '');
      else this.succeed(body);
    } catch {
      if (isOvertaken()) return;
      this.fail(0, '');
    }
    this.told(this);
    if (!document.hidden) this.timer = setTimeout(() => this.ask(), EVERY_MS);
  }

  succeed(body) {
    this.document = body;
    this.failure = null;
    // the server's clock and ours may differ: ages are counted from the answer
    this.skew = Date.now() - body.at;
    this.since = Date.now();
  }

  fail(status, message) {
    this.failure = { status, message, at: this.failure ? this.failure.at : Date.now() };
  }

  get now() {
    return Date.now() - (this.skew || 0);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.onVisible);
  }
}

// What a failure means, and what to do about it.
export function describeFailure(failure, host) {
  const whom = host === 'airflow' ? "Airflow's API server" : 'The page’s server';
  if (failure.status === 401) return `${whom} does not know you any more. Sign in again, then reload this page.`;
  if (failure.status === 403) return 'You may not see this. Ask for the right to read its DAG.';
  if (failure.status === 404) return 'No stream belongs to this DAG. The Streams page lists those that there are.';
  if (failure.status) return `${whom} cannot read the streams: ${failure.message || `HTTP ${failure.status}`}`;
  return `${whom} does not answer.`;
}
