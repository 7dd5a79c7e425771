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
