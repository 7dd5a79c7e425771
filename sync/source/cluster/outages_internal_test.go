package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kube-vmap/model"
	"kube-vmap/sync/follow/listen/listentest"
	"kube-vmap/sync/source/cluster/apitest"
)

// transportFailures returns, by reason, the errors of clients with client-go's own transports.
func transportFailures(t *testing.T) map[string][]error {
	t.Helper()
	request := func(config *rest.Config) error {
		client, err := ClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		if err = client.events.Get().AbsPath("/api/v1/services").Do(t.Context()).Error(); err == nil {
			t.Errorf("no error of %s", config.Host)
		}
		return err
	}
	all := map[string][]error{"none": {io.EOF}}
	for _, f := range model.Families {
		l, err := listentest.Listen(t, netip.AddrPortFrom(listentest.Loopback[f], 0))
		if err != nil {
			t.Fatal(err)
		}
		host := "https://" + l.Addr().String()
		// The kernel accepts connections, but nothing responds.
		all["timeout"] = append(all["timeout"], request(&rest.Config{Host: host, Timeout: 50 * time.Millisecond}))
		_ = l.Close()
		all["refused"] = append(all["refused"], request(&rest.Config{Host: host}))
	}
	noNames := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, all["refused"][0]
	}}
	all["name"] = []error{request(&rest.Config{Host: "https://api.invalid", Dial: (&net.Dialer{Resolver: noNames}).DialContext})}

	s := apitest.New()
	otherCA, plain := httptest.NewUnstartedServer(s), httptest.NewServer(s)
	otherCA.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	otherCA.StartTLS()
	t.Cleanup(otherCA.Close)
	t.Cleanup(plain.Close)
	all["another CA"] = []error{request(&rest.Config{Host: otherCA.URL})}
	for _, code := range []int{401, 410} {
		s.SetStatus("services", code)
		all[fmt.Sprint("status ", code)] = []error{request(&rest.Config{Host: plain.URL})}
	}
	return all
}

// TestTransportFailuresAreToldApart lets each failure become each other one within one outage.
func TestTransportFailuresAreToldApart(t *testing.T) {
	all := transportFailures(t)
	for before, errs := range all {
		for after, others := range all {
			var log listentest.LogBuffer
			c := newOutageLog(log.Log())
			for _, err := range append(errs, others...) {
				c.failed("Service", err)
			}
			want := 2
			if before == after {
				want = 1
			}
			if n := strings.Count(log.String(), "level=WARN"); n != want {
				t.Errorf("%s, then %s: %d warnings, want %d:\n%s", before, after, n, want, log.String())
			}
		}
	}
	if err := all["name"][0]; !errors.As(err, new(*net.DNSError)) {
		t.Errorf("an unknown name is %v", err)
	}
}

// TestLateWatchesEndWithoutError has servers that send nothing after the header: only a watch that
// ends without an error is resumed without a list.
func TestLateWatchesEndWithoutError(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		client, err := ClientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		w, err := client.events.Get().MaxRetries(0).AbsPath("/api/v1/services").Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for e := range w.ResultChan() {
			t.Errorf("HTTP/2 %t: event %v", http2, e)
		}
		if err := late(ctx, nil); !errors.Is(err, errLate) {
			t.Errorf("HTTP/2 %t: ended with %v", http2, err)
		}
		cancel()
		server.Close()
	}
}
