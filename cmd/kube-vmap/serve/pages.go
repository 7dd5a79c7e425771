package serve

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// The pages of KEP-4827 and KEP-4828, as plain text. The shared code of Kubernetes for them
// is in k8s.io/apiserver, which is larger than the rest of this program.

func header(page string) string {
	return "\nkube-vmap " + page + "\n" +
		"Warning: This endpoint is not meant to be machine parseable, " +
		"has no formatting compatibility guarantees and is for debugging purposes only.\n"
}

func (c *MetricsConfig) flagz() func() string {
	page := header("flagz")
	c.Flags.VisitAll(func(f *pflag.Flag) { page += f.Name + "=" + f.Value.String() + "\n" })
	return func() string { return page }
}

func (c *MetricsConfig) statusz() string {
	up := max(0, time.Since(c.Started))
	page := header("statusz") + fmt.Sprintf(
		"\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n",
		c.Started.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		runtime.Version(), c.Version)
	if emulated := strings.Split(strings.TrimPrefix(c.Kubernetes, "v"), "."); len(emulated) > 1 {
		page += "Emulation version: " + emulated[0] + "." + emulated[1] + "\n"
	}
	return page + "Paths: /configz /flagz /healthz /metrics /proxyMode\n"
}

func textOnly(page func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !acceptsText(r.Header.Get("Accept")) {
			http.Error(w, "only text/plain is available", http.StatusNotAcceptable)
			return
		}
		content("text/plain; charset=utf-8", page())(w, r)
	}
}

func acceptsText(accept string) bool {
	if strings.TrimSpace(accept) == "" {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		mediaType, _, _ := strings.Cut(part, ";")
		if slices.Contains([]string{"text/plain", "text/*", "*/*"}, strings.ToLower(strings.TrimSpace(mediaType))) {
			return true
		}
	}
	return false
}
