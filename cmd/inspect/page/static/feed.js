// The feed asks the server again and again, and knows how old its answer is.

const period = 2000; // ms from one answer to the next question
const limit = 30000; // ms until a question is given up; the server gives up after 25 s
const late = 12000; // ms without a new state after which what is shown counts as old

// request returns an answer of the API. An error that the server has answered says so.
export async function request(path, signal) {
  const response = await fetch(path, { signal: AbortSignal.any([signal, AbortSignal.timeout(limit)].filter(Boolean)), cache: "no-store", credentials: "omit" });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  throw new Error(body.error ?? `${response.status} ${response.statusText}`, { cause: "answered" });
}

export class Feed {
  // changed is called when there is something new to show: data, or an error.
  constructor(changed) {
    this.changed = changed;
    this.paused = false;
    document.addEventListener("visibilitychange", () => this.again());
  }

  // ask makes another address the one that is asked.
  ask(path) {
    if (path === this.path) return;
    Object.assign(this, { path, data: null, error: null, at: null, newest: null });
    this.again();
  }

  // pause stops asking, or goes on.
  pause(on) {
    this.paused = on;
    this.again();
  }

  get waiting() {
    return this.paused || document.hidden;
  }

  // again polls immediately, or stops while the page is hidden.
  again() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
    if (this.waiting) {
      this.changed();
      return;
    }
    this.resumed = performance.now();
    this.once();
  }

  async once() {
    const running = (this.running = new AbortController());
    try {
      const data = await request(this.path, running.signal);
      if (running !== this.running) return;
      if (data.time !== this.data?.time) this.newest = performance.now();
      Object.assign(this, { data, error: null, at: new Date() });
    } catch (error) {
      if (running !== this.running) return;
      this.error = error;
    }
    this.timer = setTimeout(() => this.once(), period);
    this.changed();
  }

  // state is what there is to say about what is shown: live, loading, paused, gone
  // (no answer), failing (an answer without a state), old (the same state again
  // and again).
  state() {
    if (this.error) return this.error.cause === "answered" ? "failing" : "gone";
    if (this.waiting) return "paused";
    if (!this.data) return "loading";
    const since = Math.max(this.newest, this.resumed);
    return performance.now() - since > late ? "old" : "live";
  }
}
