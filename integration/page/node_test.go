package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"kube-vmap/cmd/inspect/nodestatus"
)

const shown = `[...document.querySelectorAll(".rows .row")].map(r => r.querySelector(".c-name .name").textContent)`

// rows opens the page of a cluster, and waits until it is complete and rates are known.
func rows(t *testing.T, f *fleet) *window {
	t.Helper()
	t.Parallel()
	w := openAt(t, f.serve(t), "", 1360, 860)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	w.await(`document.querySelector(".card-rate dd").textContent !== "–"`)
	return w
}

func (w *window) text(selector string) string {
	w.Helper()
	return get[string](w, fmt.Sprintf(`document.querySelector(%q)?.textContent ?? "(none)"`, selector))
}

// says fails unless the first element of a selector has the text.
func (w *window) says(selector, want string) {
	w.Helper()
	if got := w.text(selector); got != want {
		w.Errorf("%s says %q, want %q", selector, got, want)
	}
}

// TestNodeShowsTotalsAndFindsServices has 10,000 Services and many other problems.
func TestNodeShowsTotalsAndFindsServices(t *testing.T) {
	f := shop(9994)
	for i := range 300 {
		f.at["node-1"].Problems = append(f.at["node-1"].Problems, nodestatus.Problem{Object: fmt.Sprint("ServiceCIDR ", i), Reason: "Unusable", Text: "no prefix"})
	}
	sum := f.at["node-1"].Summary()
	w := rows(t, f)
	w.await(`document.querySelector(".card-services dd").textContent === "10,000"`)
	w.says(".card-problems dd", fmt.Sprintf("%d + %d notice", sum.Problems+sum.Others, sum.Notices))
	w.says(`.chip[data-key="problem"] .n`, strconv.Itoa(sum.Problems))
	w.says(".count[role]", "10,000 Services")
	w.says("#where", "prod-eu1 node")
	w.says("#nodes-title", "1 node")
	if n := get[int](w, `document.querySelectorAll(".rows .row").length`); n != 100 {
		t.Errorf("%d rows are shown", n)
	}
	w.says(".table-place .empty", "The first 100 of 10,000: search for others, or sort them.")
	w.await(`document.querySelectorAll(".card .spark .values").length > 0`)
	problems := `document.querySelectorAll(".problems li").length`
	if got := get[int](w, problems); got != 5 {
		t.Errorf("%d of 305 problems are shown at first", got)
	}
	get[bool](w, `(document.querySelector(".problems .plain").click(), true)`)
	if got := get[int](w, problems); got != 200 {
		t.Errorf("%d of 305 problems are shown on request", got)
	}
	w.finds()
}

func TestRatesAreDifferencesOverTime(t *testing.T) {
	w := rows(t, shop(0))
	// The node makes 615 connections in 5 s, for each port.
	w.search("shop/web")
	w.await(`document.querySelector(".rows .row .c-rate").textContent === "246"`)
	w.says(".rows .row .c-endpoints", "6 / 10")
	w.search("diameter")
	w.says(".rows .row .c-address", "10.96.0.13:3868/sctp")
	w.search("kube-dns") // whose endpoints serve two ports
	w.says(".rows .row .c-endpoints", "6 / 6")
}

func TestUncountedIsNotShownAsZero(t *testing.T) {
	t.Parallel()
	f := shop(0)
	f.at["node-1"].Counted = false
	w := openAt(t, f.serve(t), "", 1360, 860)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	for _, cell := range []string{".rows .c-rate", ".card-rate dd", ".card-active dd"} {
		w.says(cell, "–")
	}
}

func (w *window) search(text string) {
	w.Helper()
	get[bool](w, `(document.getElementById("search").focus(), document.getElementById("search").select(), true)`)
	if text == "" {
		w.press(kb.Delete)
		return
	}
	w.press(text)
}

// finds searches for names, namespaces, addresses and ports.
func (w *window) finds() {
	w.Helper()
	for text, want := range map[string][]string{
		"diameter":           {"diameter"},
		"DIAMETER":           {"diameter"},
		"core/":              {"diameter"},
		"203.0.113.21":       {"uploads"},
		"fd00:10:96::a]":     {"web"},
		":30080":             {"web"},
		":3868/sctp core":    {"diameter"},
		"shop up":            {"uploads"},
		"kube-system":        {"kube-dns"},
		"<script>":           {},
		"shop/sessions :443": {},
	} {
		w.search(text)
		w.await(fmt.Sprintf(`document.querySelector(".count[role]").textContent.startsWith("%d ")`, len(want)))
		if got := get[[]string](w, shown); !slices.Equal(got, want) {
			w.Errorf("%q finds %q, want %q", text, got, want)
		}
		if len(want) == 0 {
			w.says(".table-place .empty", "No Service is like that.")
		}
	}
	w.search("")
	w.says(".count[role]", "10,000 Services")
}

func TestFiltersShowWhatIsWrong(t *testing.T) {
	w := rows(t, shop(0))
	for chip, want := range map[string][]string{
		"problem": {"cart", "web"}, "notice": {"uploads"}, "ok": {"diameter", "kube-dns", "sessions"},
		"all": {"cart", "diameter", "kube-dns", "sessions", "uploads", "web"},
	} {
		get[bool](w, fmt.Sprintf(`(document.querySelector('.chip[data-key="%s"]').click(), true)`, chip))
		got := get[[]string](w, shown)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s shows %q, want %q", chip, got, want)
		}
		if got := w.text(fmt.Sprintf(`.chip[data-key="%s"] .n`, chip)); got != strconv.Itoa(len(want)) {
			t.Errorf("%s counts %s, want %d", chip, got, len(want))
		}
		if pressed := get[[]string](w, `[...document.querySelectorAll('.chip[aria-pressed="true"]')].map(c => c.dataset.key)`); !slices.Equal(pressed, []string{chip}) {
			t.Errorf("the filters that are on are %q, want %s", pressed, chip)
		}
	}
	get[bool](w, `(document.querySelector('.chip[data-key="all"]').click(), true)`)
	words := get[[]string](w, `[...document.querySelectorAll(".rows .row .c-status")].map(c => c.textContent)`)
	slices.Sort(words)
	if got := strings.Join(words, " "); got != "AddressConflict NoPort NoneLocal OK OK OK" {
		t.Errorf("the states are shown as %q", got)
	}
}

func TestColumnsSort(t *testing.T) {
	w := rows(t, shop(200))
	for column, in := range map[string]string{
		"name": "(a, b) => a < b ? -1 : a > b ? 1 : 0",
		"rate": "(a, b) => number(b) - number(a)", "active": "(a, b) => number(b) - number(a)",
		"endpoints": "(a, b) => parseInt(b) - parseInt(a)",
	} {
		for _, order := range []string{"first", "again"} {
			w.search("")
			if order == "first" {
				other := map[bool]string{true: "rate", false: "name"}[column == "name"]
				get[bool](w, fmt.Sprintf(`(document.querySelector(".head .c-%s button").click(), true)`, other))
			}
			get[bool](w, fmt.Sprintf(`(document.querySelector(".head .c-%s button").click(), true)`, column))
			sorted := fmt.Sprintf(`(() => {
				const number = (t) => parseFloat(t.replaceAll(",", "").replace("<0.1", "0.05"));
				const selector = %q;
				const cells = [...document.querySelectorAll(".rows .row")].map(r => r.querySelector(selector).textContent);
				const compare = %s;
				return cells.length > 10 && cells.every((c, i) => i === 0 || compare(cells[i - 1], c) * %d <= 0);
			})()`, map[bool]string{true: ".c-name .name", false: ".c-" + column}[column == "name"], in, map[string]int{"first": 1, "again": -1}[order])
			if !get[bool](w, sorted) {
				t.Errorf("by %s, %s, it is not in order: %q", column, order, get[[]string](w, fmt.Sprintf(`[...document.querySelectorAll(".rows .c-%s")].map(c => c.textContent)`, column)))
			}
			direction := get[string](w, fmt.Sprintf(`document.querySelector(".head .c-%s").getAttribute("aria-sort")`, column))
			up := column == "name"
			if want := map[bool]string{true: "ascending", false: "descending"}[up == (order == "first")]; direction != want {
				t.Errorf("by %s, %s, the header has %q, want %q", column, order, direction, want)
			}
		}
	}
}
