package sync

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// warnings counts them.
type warnings int

func (w *warnings) Warn(Object, string, string) { *w++ }

// TestNoticesAreLimitedByNamespace has notices beyond the burst, which the next one counts. They
// concern no other namespace.
func TestNoticesAreLimitedByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var sent warnings
		n := NewNotices(&sent, slog.New(slog.NewTextHandler(&log, nil)))
		notify := func(namespace string, times int) string {
			log.Reset()
			sent = 0
			for range times {
				n.Notify(Object{Kind: "Service", Namespace: namespace, Name: "web"}, "Refused", "why").Info("refused")
			}
			_, skipped, _ := strings.Cut(log.String(), "skipped=")
			return strings.TrimSpace(fmt.Sprintf("%d logged, %d sent, skipped %s", strings.Count(log.String(), "\n"), sent, skipped))
		}
		expect := func(when, got, want string) {
			if got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		expect("a burst and one more", notify("noisy", noticeBurst+1), "20 logged, 20 sent, skipped")
		expect("in another namespace", notify("quiet", 1), "1 logged, 1 sent, skipped")
		<-time.After(noticePeriod)
		expect("the next", notify("noisy", 1), "1 logged, 1 sent, skipped 1")
		<-time.After(noticePeriod)
		expect("the one after", notify("noisy", 1), "1 logged, 1 sent, skipped")
		notify("noisy", 3)
		<-time.After((noticeBurst + 1) * noticePeriod)
		for i := range maxNamespaces {
			notify(fmt.Sprint(i), 1)
		}
		if _, known := n.limits["quiet"]; known {
			t.Error("a namespace without notices for long is remembered")
		}
		expect("after many other namespaces", notify("noisy", 1), "1 logged, 1 sent, skipped 3")
	})
}
