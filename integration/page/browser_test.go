package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kube-vmap/integration/daemon"
)

// patience is longer than the page takes on a busy machine.
const patience = 5 * time.Minute

// browser is started once; each test has its own window and profile.
var browser context.Context

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath("chromium"),
		chromedp.NoSandbox, // it does not work for root
		chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), // small in containers
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
	)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	started, stop := chromedp.NewContext(allocator)
	defer stop()
	browser = started //nolint:fatcontext // once, for all tests
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium:", err)
		return 1
	}
	return daemon.Main(m)
}

// window is a browser's window with the page.
type window struct {
	*testing.T
	ctx  context.Context //nolint:containedctx // chromedp's windows are contexts
	page string          // the address of the page under test
	mu   sync.Mutex
	bad  []string
	fine []string // expected complaints
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// openAt opens a window of a size at a path of the page.
func openAt(t *testing.T, server, hash string, width, height int64) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, late := context.WithTimeout(ctx, 3*patience)
	t.Cleanup(late)
	w := &window{T: t, ctx: ctx, page: server + "/" + token + "/"}
	if err := chromedp.Listen(ctx, w.listen); err != nil {
		t.Fatal(err)
	}
	call(w, network.Enable, network.EnableParams{})
	call(w, log.Enable, cdp.Empty{})
	w.resize(width, height)
	w.do(chromedp.Navigate(w.page + hash))
	t.Cleanup(w.complaints)
	return w
}

// listen records complaints.
func (w *window) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		w.note(fmt.Sprint("exception: ", e.ExceptionDetails.Text, " ", describe(e.ExceptionDetails.Exception)))
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, a := range e.Args {
			words = append(words, describe(a))
		}
		w.note("console: " + strings.Join(words, " "))
	case *log.EventEntryAdded:
		w.note(fmt.Sprintf("log: %s (%s) %s", e.Entry.Text, e.Entry.Source, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, w.page) {
			w.note("asked elsewhere: " + e.Request.URL)
		}
	}
}

func (w *window) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, text)
}

// ignoreFailedLoads expects complaints about answers that are no success.
func (w *window) ignoreFailedLoads() { w.fine = append(w.fine, "Failed to load resource") }

// complaints fails the test after unexpected complaints.
func (w *window) complaints() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bad {
		if !slices.ContainsFunc(w.fine, func(f string) bool { return strings.Contains(b, f) }) {
			w.Errorf("the page complains: %s", b)
		}
	}
}

// describe formats a JavaScript value.
func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return string(o.Value) + o.Description
}

func (w *window) do(actions ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	if err := chromedp.Do(w.ctx, actions...); err != nil {
		w.Fatal(err)
	}
}

// call runs a command of the browser.
func call[P, R any](w *window, command cdp.Command[P, R], params P) R {
	w.Helper()
	result, err := chromedp.Call(w.ctx, command, params)
	if err != nil {
		w.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

func (w *window) resize(width, height int64) {
	w.Helper()
	call(w, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// prefer sets a media feature, such as "prefers-color-scheme" "dark".
func (w *window) prefer(what, value string) {
	w.Helper()
	call(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: what, Value: value}}})
}

// get evaluates a JavaScript expression.
func get[V any](w *window, expression string) V {
	w.Helper()
	value, err := chromedp.Run(w.ctx, chromedp.Evaluate[V](expression))
	if err != nil {
		w.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits for a JavaScript expression. It polls from outside, since the page's policy
// forbids eval.
func (w *window) await(expression string) {
	w.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for !get[bool](w, "Boolean("+expression+")") {
		select {
		case <-ticker.C:
		case <-late:
			w.Fatalf("%s never became true; the page shows:\n%s", expression, get[string](w, "document.body.innerText.slice(0, 3000)"))
		}
	}
}

// press presses keys. As with a real keyboard, a key that the page handles types nothing.
func (w *window) press(keys ...string) {
	w.Helper()
	for _, r := range strings.Join(keys, "") {
		events := kb.Encode(r)
		down, up := events[0], events[len(events)-1]
		if k := kb.Keys[r]; k.Print {
			down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, k.Text, k.Unmodified
		}
		call(w, input.DispatchKeyEvent, *down)
		call(w, input.DispatchKeyEvent, *up)
	}
}
