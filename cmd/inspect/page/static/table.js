// A table of any number of rows, of which only the visible ones are in the document.
//
// The page scrolls, not the table: an element as high as all rows together reserves the
// space, and the visible rows are positioned on it. Rows that become invisible are reused.
//
// For assistive technology it is a grid with the number of rows, the index of each row,
// and the active one. The keyboard moves the active row.

import { h, icon, text } from "./dom.js";

const narrow = matchMedia("(max-width: 760px)");
const spare = 12; // rows kept ready above and below

export class Table {
  // columns have key, label, and cell(node, row); those that sort have compare(a, b),
  // and first, which is -1 if the highest comes first. height is that of a row in px:
  // { wide, narrow }. key(row) identifies a row. open(row) is what Enter does, and
  // link(row) the address of the same.
  constructor({ id, label, columns, height, key, open, link, empty, sorted }) {
    Object.assign(this, { id, columns, height, key, open, link, empty, sorted });
    this.rows = [];
    this.active = null; // key of the active row
    this.pool = new Map(); // by place
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.none = h("p", { class: "empty", hidden: true });
    this.node = h(
      "div",
      { class: `table table-${id}`, id, role: "grid", "aria-label": label, "aria-readonly": "true", tabindex: "0", keydown: (e) => this.pressed(e) },
      h("div", { class: "head", role: "rowgroup" }, h("div", { class: "row", role: "row", "aria-rowindex": "1" }, columns.map((c, i) => this.header(c, i)))),
      this.body,
    );
    this.place = h("div", { class: "table-place" }, this.sorter(), this.node, this.none);
    this.drawn = () => this.draw(false); // at most one scroll event per frame
    this.changedWidth = () => this.resized();
  }

  // attach starts to follow the scrolling, detach ends it.
  attach() {
    addEventListener("scroll", this.drawn, { passive: true });
    addEventListener("resize", this.changedWidth, { passive: true });
    this.resized();
  }

  detach() {
    removeEventListener("scroll", this.drawn);
    removeEventListener("resize", this.changedWidth);
  }

  header(column, i) {
    const node = h("div", { class: `cell c-${column.key}`, role: "columnheader", "aria-colindex": i + 1 });
    if (!column.compare) {
      node.append(column.label);
      return node;
    }
    const arrow = h("span", { class: "arrow" });
    node.append(h("button", { type: "button", class: "sort", click: () => this.sortBy(column.key) }, h("span", {}, column.label), arrow));
    column.header = { node, arrow };
    return node;
  }

  // sorter is for narrow screens, where there is no place for headers.
  sorter() {
    const columns = this.columns.filter((c) => c.compare);
    if (!columns.length) return null;
    this.choice = h("select", { change: (e) => this.sortBy(e.target.value, true) }, columns.map((c) => h("option", { value: c.key }, c.label)));
    return h("label", { class: "sorter" }, h("span", {}, "Sort by"), this.choice);
  }

  sortBy(key, afresh = false) {
    const column = this.columns.find((c) => c.key === key);
    const first = column.first ?? 1;
    const same = this.sorted.key === key && !afresh;
    this.sorted = { key, direction: same ? -this.sorted.direction : first };
    this.show(this.given);
    this.sortChanged?.();
  }

  // show shows other rows, or the same ones with other values.
  show(rows) {
    this.given = rows;
    const column = this.columns.find((c) => c.key === this.sorted?.key);
    this.rows = rows;
    if (column) {
      const direction = this.sorted.direction;
      this.rows = rows.slice().sort((a, b) => direction * column.compare(a, b) || compareText(this.key(a), this.key(b)));
    }
    this.mark();
    this.node.setAttribute("aria-rowcount", this.rows.length + 1);
    this.none.hidden = this.rows.length > 0;
    this.node.classList.toggle("is-empty", this.rows.length === 0);
    if (!this.rows.length) text(this.none, this.empty());
    this.body.style.height = `${this.rows.length * this.rowHeight}px`;
    this.draw(true);
  }

  // mark marks the sorted column in the headers.
  mark() {
    for (const { key, header } of this.columns) {
      if (!header) continue;
      const sorted = key === this.sorted?.key;
      header.node.toggleAttribute("aria-sort", sorted);
      if (sorted) header.node.setAttribute("aria-sort", this.sorted.direction > 0 ? "ascending" : "descending");
      header.arrow.replaceChildren(...(sorted ? [icon(this.sorted.direction > 0 ? "up" : "down")] : []));
    }
    if (this.choice && this.sorted) this.choice.value = this.sorted.key;
  }

  get rowHeight() {
    return narrow.matches ? this.height.narrow : this.height.wide;
  }

  resized() {
    if (!this.given) return;
    for (const node of this.pool.values()) node.remove();
    this.pool.clear();
    this.show(this.given);
  }

  // draw brings into the document what is in sight. Rows that are there already are
  // filled again only if values may have changed.
  draw(changed) {
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - spare);
    const last = Math.min(this.rows.length, Math.ceil((top + innerHeight) / this.rowHeight) + spare);
    const free = [];
    for (const [i, node] of this.pool) {
      if (i >= first && i < last) continue;
      this.pool.delete(i);
      free.push(node);
    }
    for (let i = first; i < last; i++) {
      const have = this.pool.get(i);
      const node = have ?? free.pop() ?? this.blank();
      this.pool.set(i, node);
      if (!have || changed) this.fill(node, i);
    }
    for (const node of free) node.remove();
    this.point();
  }

  // inSight returns the rows that are in the document.
  inSight() {
    return [...this.pool.keys()].map((i) => this.rows[i]).filter(Boolean);
  }

  blank() {
    const cells = this.columns.map((c, i) => h("div", { class: `cell c-${c.key}`, role: "gridcell", "aria-colindex": i + 1 }));
    const node = h(this.link ? "a" : "div", { class: "row", role: "row", tabindex: this.link ? "-1" : null }, cells);
    node.cells = cells;
    this.body.append(node);
    return node;
  }

  fill(node, i) {
    const row = this.rows[i];
    if (node.place !== i) {
      node.place = i;
      node.id = `${this.id}-${i}`;
      node.setAttribute("aria-rowindex", i + 2);
    }
    node.style.transform = `translateY(${i * this.rowHeight}px)`;
    if (this.link) node.setAttribute("href", this.link(row));
    this.columns.forEach((c, n) => c.cell(node.cells[n], row));
  }

  // point shows which row is active.
  point() {
    const at = this.at();
    for (const [i, node] of this.pool) node.setAttribute("aria-selected", i === at);
    if (this.pool.has(at)) this.node.setAttribute("aria-activedescendant", `${this.id}-${at}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  at() {
    return this.active === null ? -1 : this.rows.findIndex((r) => this.key(r) === this.active);
  }

  pressed(event) {
    if (event.target !== this.node || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter") {
      const row = this.rows[this.at()];
      if (row && this.open) this.open(row);
      return;
    }
    if (this.move(event.key)) event.preventDefault();
  }

  // move moves the active row for a key; it returns false for other keys.
  move(key) {
    const page = Math.max(1, Math.floor((innerHeight * 0.7) / this.rowHeight));
    const at = this.at();
    const to = { j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity }[key];
    if (to === undefined) return false;
    if (this.rows.length) this.activate(Math.min(Math.max(to, 0), this.rows.length - 1));
    return true;
  }

  activate(i) {
    this.active = this.key(this.rows[i]);
    this.reveal(i);
    this.draw(false);
  }

  // reveal scrolls as little as brings the row into sight, below what stays on top.
  reveal(i) {
    const covered = this.node.firstElementChild.getBoundingClientRect().height + stuck();
    const start = this.body.getBoundingClientRect().top + i * this.rowHeight;
    if (start < covered) scrollBy(0, start - covered - 4);
    else if (start + this.rowHeight > innerHeight) scrollBy(0, start + this.rowHeight - innerHeight + 8);
  }
}

// stuck is how much at the top is covered by what does not scroll.
const stuck = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--stuck")) || 0;

// compareText orders texts by code units, which takes a tenth of what languages take.
export const compareText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
