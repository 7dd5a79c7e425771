package page

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestSearchIsFastWith10000Services(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite") // how long a letter takes depends on what else runs
	}
	w := rows(t, shop(9994))
	typing := `(async () => {
		const field = document.getElementById("search");
		const took = [];
		for (const text of ["a", "ap", "api", "api-", "10.96", "team-1", "zzz", ""]) {
			const start = performance.now();
			field.value = text;
			field.dispatchEvent(new Event("input"));
			document.body.getBoundingClientRect();
			took.push(performance.now() - start);
			await new Promise(requestAnimationFrame);
		}
		return took;
	})()`
	took, err := chromedp.Run(w.ctx, chromedp.Evaluate[[]float64](typing, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if slowest := slices.Max(took); slowest > 200 {
		t.Errorf("a letter takes up to %.0f ms: %.0f", slowest, took)
	}
	t.Logf("a letter takes %.0f ms", took)
	tasks := `(async () => {
		const long = [];
		new PerformanceObserver((l) => long.push(...l.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
		await new Promise((done) => setTimeout(done, 5000));
		return long;
	})()`
	long, err := chromedp.Run(w.ctx, chromedp.Evaluate[[]float64](tasks, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("in 5 s the page is busy for %.0f ms at a time", long)
	if len(long) > 0 && slices.Max(long) > 500 {
		t.Errorf("a new state keeps the page busy for %.0f ms", slices.Max(long))
	}
}
