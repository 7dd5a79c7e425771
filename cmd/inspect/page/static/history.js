// Histories keep the last values of numbers, for lines.

export const length = 60; // how many values there are

export class Histories {
  values = new Map();

  // isNew reports whether a state is of another time than the one before.
  isNew(time) {
    const fresh = time !== this.time;
    this.time = time;
    return fresh;
  }

  note(key, value) {
    const history = this.of(key);
    history.push(value);
    if (history.length > length) history.shift();
  }

  of(key) {
    if (!this.values.has(key)) this.values.set(key, []);
    return this.values.get(key);
  }
}
