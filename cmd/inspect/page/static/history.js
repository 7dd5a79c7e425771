// Histories keep the last values of numbers, for lines.

export const length = 60; // how many values there are

export class Histories {
  values = new Map();

  // isNew reports whether a state is of another time than the one before.
  isNew(time) {
    return time !== this.time && Boolean((this.time = time));
  }

  note(key, value) {
    this.values.set(key, [...this.of(key), value].slice(-length));
  }

  of = (key) => this.values.get(key) ?? [];
}
