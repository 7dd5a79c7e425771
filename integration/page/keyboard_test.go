package page

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// active returns the Service of the active row.
const active = `document.activeElement.querySelector(".name")?.textContent ?? ""`

func TestEverythingIsReachableByKeyboard(t *testing.T) {
	w := rows(t, shop(500))
	names := func() string { return get[string](w, active) }
	all := get[[]string](w, shown)
	w.press("j")
	if got := names(); got != all[0] {
		t.Errorf("j goes to %q, want %q", got, all[0])
	}
	w.press("j", kb.ArrowDown, "k")
	if got := names(); got != all[1] {
		t.Errorf("j, down and k go to %q, want %q", got, all[1])
	}
	w.press(kb.End)
	if got := names(); got != all[len(all)-1] {
		t.Errorf("End goes to %q, want %q", got, all[len(all)-1])
	}
	if bottom := get[float64](w, `document.activeElement.getBoundingClientRect().bottom`); bottom > 860 {
		t.Errorf("the row with the focus is out of sight, at %v", bottom)
	}
	w.press(kb.Home)
	if got := names(); got != all[0] {
		t.Errorf("Home goes to %q", got)
	}
	if top := get[float64](w, `document.activeElement.getBoundingClientRect().top`); top < 80 {
		t.Errorf("the row with the focus is covered, at %v", top)
	}
	w.press("/")
	w.press("shop/web")
	w.await(`document.querySelector(".count[role]").textContent.startsWith("1 ")`)
	w.press(kb.Enter)
	w.await(`document.querySelector(".flows")`)
	if got := get[string](w, `document.activeElement.textContent`); got != "shop / web" {
		t.Errorf("the focus is on %q", got)
	}
	w.press(kb.Escape)
	w.await(`document.querySelector(".overview")`)
	if got := names(); got != "web" {
		t.Errorf("back again, the focus is on %q", got)
	}
	w.press(kb.Escape)
	w.says(".count[role]", "506 Services")
	w.press("?")
	if !get[bool](w, `document.getElementById("keys").open`) {
		t.Error("? shows no help")
	}
	w.press("j", kb.Escape)
	if get[bool](w, `document.getElementById("keys").open`) {
		t.Error("Esc does not close the help")
	}
}

// focus describes the focused element.
const focus = `(e => e === document.body ? "" : e.id || e.className || e.textContent)(document.activeElement)`

func TestFocusOrderIsVisible(t *testing.T) {
	w := rows(t, shop(0))
	var order []string
	for range 40 {
		w.press(kb.Tab)
		at := get[string](w, focus)
		if at == "" || slices.Contains(order, at) && at == order[0] {
			break
		}
		order = append(order, at)
		seen := get[bool](w, `(e => { const s = getComputedStyle(e); const r = e.getBoundingClientRect(); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.bottom > 0; })(document.activeElement)`)
		if !seen && at != "skip" {
			t.Errorf("the focus on %q is not seen", at)
		}
	}
	places := []string{"skip", "brand", "help", "node-card", "search", "chip", "sort", "row"}
	last := -1
	for _, p := range places {
		i := slices.Index(order, p)
		if i <= last {
			t.Fatalf("%s comes at %d, after %d, in %q", p, i, last, order)
		}
		last = i
	}
}

// contrasts finds texts with too little contrast: WCAG 2.2, 1.4.3.
const contrasts = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { rgb: m.slice(0, 3), a: m[3] ?? 1 }; };
	const over = (top, under) => top.rgb.map((v, i) => v * top.a + under[i] * (1 - top.a));
	const light = (rgb) => rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		const layers = [];
		for (let n = e; n; n = n.parentElement) layers.push(parse(getComputedStyle(n).backgroundColor));
		return layers.reverse().reduce((under, l) => over(l, under), [255, 255, 255]);
	};
	const rect = (e) => { const r = e.closest(".node")?.querySelector("rect"); return r ? parse(getComputedStyle(r).fill).rgb : behind(e.closest("div")); };
	const bad = [];
	let seen = 0;
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		const box = e.getBoundingClientRect();
		if (!own || box.width < 2 || box.height < 2 || e.closest(".visually-hidden, .icons, title, option")) continue;
		const drawn = e instanceof SVGElement;
		const style = getComputedStyle(e);
		const under = drawn ? rect(e) : behind(e);
		const [a, b] = [light(over(parse(drawn ? style.fill : style.color), under)), light(under)];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		seen++;
		if (ratio < 4.5) bad.push(e.tagName + "." + (e.getAttribute("class") ?? "") + " " + e.textContent.slice(0, 30) + ": " + ratio.toFixed(2));
	}
	return seen < 30 ? ["only " + seen + " texts"] : [...new Set(bad)];
})()`

// unnamed finds interactive elements without a name, and incomplete roles.
const unnamed = `(() => {
	const bad = [];
	const name = (e) => e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") ?? "").split(" ").map((i) => document.getElementById(i)?.textContent ?? "").join("") || e.labels?.[0]?.textContent || e.textContent;
	for (const e of document.querySelectorAll("a, button, input, select, [role=grid], [role=tab], [role=tablist], [role=img], [role=tabpanel], dialog, table, summary"))
		if (!name(e).trim()) bad.push("no name: " + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-activedescendant]"))
		for (const a of ["aria-controls", "aria-labelledby", "aria-activedescendant"])
			for (const i of (e.getAttribute(a) ?? "").split(" ").filter(Boolean)) if (!document.getElementById(i)) bad.push(a + " to nothing: " + i);
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	bad.push(...ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => "twice: " + id));
	for (const r of document.querySelectorAll("[role=row]")) {
		if (!r.closest("[role=grid]") || !r.closest("[role=rowgroup]")) bad.push("a row in no grid");
		if (![...r.children].every((c) => ["gridcell", "columnheader"].includes(c.getAttribute("role")))) bad.push("a row with other things than cells");
	}
	for (const i of document.querySelectorAll(".status")) if (!i.textContent.trim()) bad.push("a state by its colour alone");
	const heads = [...document.querySelectorAll("h1, h2")].filter((e) => e.checkVisibility());
	if (heads[0]?.tagName !== "H1" || document.querySelectorAll("main h1").length !== 1) bad.push("no order of headings");
	if (!document.documentElement.lang || !document.querySelector("main") || !document.title) bad.push("no language, main part or title");
	return bad;
})()`

func TestReducedMotionIsRespected(t *testing.T) {
	w := rows(t, shop(0))
	moving := `document.getAnimations().length`
	if get[int](w, moving) == 0 {
		t.Error("nothing moves at all, so that this test tests nothing")
	}
	w.prefer("prefers-reduced-motion", "reduce")
	if n := get[int](w, moving); n != 0 {
		t.Errorf("%d things move", n)
	}
}
