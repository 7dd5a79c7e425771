// The last values of a number, drawn as a line.

import { s } from "./dom.js";

const length = 60; // values at most

export class History {
  values = [];

  // note adds a value, unless it is of the same time as the last one.
  note(time, value) {
    if (time !== this.time) this.values = [...this.values, value].slice(-length);
    this.time = time;
    return this;
  }

  // draw returns the line, the newest value on the right.
  draw(width, height) {
    const known = this.values.filter((v) => v !== null);
    const top = Math.max(...known, 1e-9);
    const step = width / (length - 1);
    let path = "";
    this.values.forEach((v, i) => {
      if (v === null) return;
      const x = width - (this.values.length - 1 - i) * step;
      const pen = (this.values[i - 1] ?? null) === null ? "M" : "L";
      path += `${pen}${x.toFixed(1)} ${(height - 2 - (v / top) * (height - 4)).toFixed(1)}`;
    });
    return s(
      "svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      s("path", { class: "floor", d: `M0 ${height - 1}H${width}` }),
      known.length > 1 && s("path", { class: "values", d: path }),
    );
  }
}
