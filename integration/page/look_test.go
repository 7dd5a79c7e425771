package page

import "testing"

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
