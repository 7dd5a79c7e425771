package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/sync/follow/listen/listentest"
)

// sample returns a configuration with everything.
func sample(t *testing.T) MetricsConfig {
	gatherer := func(name string) prometheus.Gatherer {
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Nothing."}))
		return r
	}
	proxy := &v1alpha1.KubeProxyConfiguration{Mode: "nftables"}
	proxy.APIVersion, proxy.Kind = v1alpha1.SchemeGroupVersion.String(), "KubeProxyConfiguration"
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.IntP("v", "v", 2, "")
	flags.String("config", "", "")
	must(t, flags.Parse([]string{"--config=/var/lib/kube-proxy/config.conf"}))
	return MetricsConfig{
		Log: slog.New(slog.DiscardHandler), Version: "v1.2.3", Kubernetes: "v1.36.3", Started: time.Now(),
		Metrics: gatherer("some_metric"), SLIs: gatherer("some_indicator"),
		Object: proxy, Flags: flags, Flagz: true, Statusz: true, Profiling: true, SetVerbosity: func(int) {}, Pinged: func() {},
	}
}

// ask sends a request to a new handler.
func ask(t *testing.T, c MetricsConfig, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	h, err := Metrics(c)
	must(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func request(t *testing.T, method, path, body string) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
}

const warning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and " +
	"is for debugging purposes only.\n"

func TestPathsAnswerAsKubeProxyDoes(t *testing.T) {
	const plain = "text/plain; charset=utf-8"
	for path, want := range map[string]struct{ mediaType, body string }{
		"/metrics":                       {"text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "# HELP some_metric Nothing.\n# TYPE some_metric gauge\nsome_metric 0\n"},
		"/metrics/slis":                  {"text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "# HELP some_indicator Nothing.\n# TYPE some_indicator gauge\nsome_indicator 0\n"},
		"/healthz":                       {plain, "ok"},
		"/proxyMode":                     {plain, "nftables"},
		"/configz":                       {"application/json", `{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","clientConnection":{*,"mode":"nftables",*}}`},
		"/flagz":                         {plain, "\nkube-vmap flagz\n" + warning + "config=/var/lib/kube-proxy/config.conf\nv=2\n"},
		"/statusz":                       {plain, "\nkube-vmap statusz\n" + warning + "\nStarted: Sat Jan  1 00:00:00 UTC 2000\nUp: 26 hr 03 min 04 sec\nGo version: " + runtime.Version() + "\nBinary version: v1.2.3\nEmulation version: 1.36\nPaths: /configz /flagz /healthz /metrics /proxyMode\n"}, //nolint:lll // one text, as it is compared
		"/debug/flags":                   {plain, "/debug/flags/v\n"},
		"/debug/flags/":                  {plain, "/debug/flags/v\n"},
		"/debug/pprof/":                  {"text/html; charset=utf-8", "<html>*goroutine*"},
		"/debug/pprof/goroutine?debug=1": {plain, "goroutine profile: total *"},
		"/debug/pprof/symbol":            {plain, "num_symbols: 1\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := sample(t)
			<-time.After(26*time.Hour + 3*time.Minute + 4*time.Second)
			w := ask(t, c, request(t, http.MethodGet, path, ""))
			if w.Code != http.StatusOK || !matches(want.body, w.Body.String()) {
				t.Errorf("%s: it answers %d:\n%s\nwant\n%s", path, w.Code, w.Body, want.body)
			}
			for name, value := range map[string]string{
				"Content-Type": want.mediaType, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			} {
				if got := w.Header().Get(name); got != value {
					t.Errorf("%s: %s is %q, want %q", path, name, got, value)
				}
			}
		})
	}
}

// matches reports whether a text matches a pattern, in which a star matches anything.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		at := strings.Index(text, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return text == "" || parts[len(parts)-1] == ""
}

func TestOtherPathsAreNotServed(t *testing.T) {
	without := sample(t)
	without.Profiling = false
	ungated := sample(t)
	ungated.Flagz, ungated.Statusz = false, false
	for path, c := range map[string]MetricsConfig{
		"/": sample(t), "/metrics/": sample(t), "/api": sample(t), "/healthz/ping": sample(t), "/debug/": sample(t),
		"/debug/flags/vmodule": sample(t), "/debug/pprof/cmdline": sample(t), "/livez": sample(t),
		"/debug/pprof": without, "/debug/pprof/": without, "/debug/pprof/profile": without, "/debug/flags": without, "/debug/flags/": without,
		"/flagz": ungated, "/statusz": ungated,
	} {
		if w := ask(t, c, request(t, http.MethodGet, path, "")); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "metrics") {
			t.Errorf("%s answers %d: %s", path, w.Code, w.Body)
		}
	}
	if w := ask(t, without, request(t, http.MethodPut, "/debug/flags/v", "4")); w.Code != http.StatusNotFound {
		t.Errorf("without profiling, the log level can be set: %d", w.Code)
	}
}

func TestOnlyTheLogLevelCanBeChanged(t *testing.T) {
	for _, path := range []string{
		"/metrics", "/metrics/slis", "/healthz", "/proxyMode", "/configz", "/flagz", "/statusz", "/debug/flags",
		"/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace",
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if w := ask(t, sample(t), request(t, method, path, "")); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answers %d", method, path, w.Code)
			}
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if w := ask(t, sample(t), request(t, method, "/debug/flags/v", "4")); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s /debug/flags/v answers %d", method, w.Code)
		}
	}
}

func TestLogLevelCanBeChanged(t *testing.T) {
	for body, want := range map[string]struct{ code, v int }{
		"0": {200, 0}, "4": {200, 4}, " 10\n": {200, 10}, "2147483647": {200, 2147483647},
		"": {400, -1}, "-1": {400, -1}, "debug": {400, -1}, "4 5": {400, -1}, "2147483648": {400, -1},
		strings.Repeat("0", 17): {400, -1}, strings.Repeat("4", 1<<20): {400, -1},
	} {
		c, v := sample(t), -1
		c.SetVerbosity = func(to int) { v = to }
		var log *listentest.LogBuffer
		c.Log, log = logged()
		w := ask(t, c, request(t, http.MethodPut, "/debug/flags/v", body))
		if w.Code != want.code || v != want.v {
			t.Errorf("%.20q: it answers %d and sets %d, want %d and %d: %s", body, w.Code, v, want.code, want.v, w.Body)
		}
		if set := v >= 0; set && (w.Body.String() != fmt.Sprintf("-v is now %d\n", v) || !strings.Contains(log.String(), fmt.Sprint("verbosity=", v))) {
			t.Errorf("%.20q: it answers %q and logs %q", body, w.Body, log)
		}
	}
}

func TestStatuszWithoutKnownKubernetesVersion(t *testing.T) {
	c := sample(t)
	c.Kubernetes = ""
	if w := ask(t, c, request(t, http.MethodGet, "/statusz", "")); strings.Contains(w.Body.String(), "Emulation") {
		t.Errorf("the page is\n%s", w.Body)
	}
}

func TestPingsAreCounted(t *testing.T) {
	c, n := sample(t), 0
	c.Pinged = func() { n++ }
	ask(t, c, request(t, http.MethodGet, "/healthz", ""))
	ask(t, c, request(t, http.MethodGet, "/proxyMode", ""))
	if n != 1 {
		t.Errorf("%d were counted", n)
	}
}

func TestFailingMetricDoesNotHideOthers(t *testing.T) {
	c := sample(t)
	var log *listentest.LogBuffer
	c.Log, log = logged()
	c.Metrics = prometheus.Gatherers{c.Metrics, sample(t).Metrics, c.SLIs} // one of them is a duplicate
	w := ask(t, c, request(t, http.MethodGet, "/metrics", ""))
	for _, want := range []string{"some_metric 0", "some_indicator 0"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("it answers %d without %q:\n%s", w.Code, want, w.Body)
		}
	}
	if !strings.Contains(log.String(), "some_metric") {
		t.Errorf("the error is not logged: %q", log)
	}
}

func TestConcurrentScrapesAreLimited(t *testing.T) {
	c := sample(t)
	gathers, gathered := make(chan struct{}), make(chan struct{})
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow_metric", Help: "Nothing."}, func() float64 {
		gathers <- struct{}{}
		<-gathered
		return 0
	}))
	c.Metrics = r
	h, err := Metrics(c)
	must(t, err)
	codes := make(chan int)
	for range maxScrapes {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request(t, http.MethodGet, "/metrics", ""))
			codes <- w.Code
		}()
		<-gathers
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, http.MethodGet, "/metrics", ""))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered %d", w.Code)
	}
	close(gathered)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one of them is answered %d", code)
		}
	}
}

func TestProfileDurationIsLimited(t *testing.T) {
	for seconds, want := range map[string]int{"301": 400, "1e9": 400, "Inf": 400, "NaN": 400, "0.01": 200} {
		for _, profile := range []string{"profile", "trace", "goroutine"} {
			if want == 200 && profile != "trace" {
				continue // accepts whole seconds
			}
			w := ask(t, sample(t), request(t, http.MethodGet, "/debug/pprof/"+profile+"?seconds="+seconds, ""))
			if w.Code != want {
				t.Errorf("a %s of %s s is answered %d: %s", profile, seconds, w.Code, w.Body)
			}
		}
	}
}

func TestProfilesReadNoBody(t *testing.T) {
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=a\r\n\r\n" + strings.Repeat("a", 1<<20) + "\r\n--x--")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/goroutine", body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	size := body.Len()
	if w := ask(t, sample(t), r); w.Code != http.StatusOK || body.Len() != size {
		t.Errorf("answered %d, and read %d bytes", w.Code, size-body.Len())
	}
}
