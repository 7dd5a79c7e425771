package page

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// scrolling scrolls through everything in 240 steps, one per frame, and returns the page's
// work for it in ms (script, style and layout), and how often rows were missing when the
// browser painted.
const scrolling = `(async () => {
	const took = [];
	let blank = 0;
	const height = document.body.scrollHeight - innerHeight;
	for (let i = 0; i <= 240; i++) {
		await new Promise(requestAnimationFrame);
		const start = performance.now();
		scrollTo(0, height * i / 240);
		dispatchEvent(new Event("scroll"));
		document.body.getBoundingClientRect();
		took.push(performance.now() - start);
		await new Promise(requestAnimationFrame);
		const begins = document.querySelector(".rows").getBoundingClientRect().top; // at first, below what is above the table
		if (begins < innerHeight * 2 / 3 && !document.elementFromPoint(innerWidth / 2, innerHeight * 2 / 3)?.closest(".row")) blank++;
	}
	return { took, blank };
})()`

func TestScrollingIsSmooth(t *testing.T) {
	w := rows(t, shop(9994))
	type result struct {
		Took  []float64 `json:"took"`
		Blank int       `json:"blank"`
	}
	got, err := chromedp.Run(w.ctx, chromedp.Evaluate[result](scrolling, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Took)
	half, most := got.Took[len(got.Took)/2], got.Took[len(got.Took)*95/100]
	t.Logf("a step of 1,800 px, all rows new, is work of %.1f ms (median), %.1f ms (95 %%), %.1f ms (most)", half, most, got.Took[len(got.Took)-1])
	// There are 16.7 ms between two frames. How long they take depends on what else runs.
	if half > 50 && !testing.Short() {
		t.Errorf("it jerks: %.1f ms (median)", half)
	}
	if got.Blank > 0 {
		t.Errorf("%d of %d times there is nothing where rows should be", got.Blank, len(got.Took))
	}
}

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
