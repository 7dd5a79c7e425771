// Rates are numbers per second, from counts at different times.

export const length = 60; // how many of them a history has

// readAt is when the connections of a document were read, in ms.
export const readAt = (data) => Date.parse(data.countedAt ?? data.time);

export class Rates {
  constructor() {
    this.before = null; // { time, counts }
    this.now = new Map();
    this.histories = new Map();
  }

  // take takes what was counted, by key, at a time in ms. The same reading again
  // changes nothing.
  take(time, counts) {
    const seconds = this.before ? (time - this.before.time) / 1000 : null;
    if (seconds !== null && seconds < 0.3 && seconds >= 0) return false;
    this.now = new Map();
    if (seconds > 0 && seconds < 60) {
      for (const [key, count] of counts) this.now.set(key, difference(this.before.counts.get(key), count, seconds));
    }
    this.before = { time, counts };
    return true;
  }

  // of is the rate; null if it is not known yet.
  of(key) {
    return this.now.get(key) ?? null;
  }

  // note keeps a value in the history of a key.
  note(key, value) {
    const history = this.history(key);
    history.push(value);
    if (history.length > length) history.shift();
  }

  history(key) {
    let history = this.histories.get(key);
    if (!history) this.histories.set(key, (history = []));
    return history;
  }
}

// difference returns a rate, unless the counter was reset.
const difference = (old, now, seconds) => (old === undefined || now < old ? null : (now - old) / seconds);
