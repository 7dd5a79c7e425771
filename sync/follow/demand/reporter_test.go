package demand

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/hold"
)

var (
	web   = model.ServiceName{Namespace: "shop", Name: "web"}
	cache = model.ServiceName{Namespace: "shop", Name: "cache"}
)

// TestChanges has the demand of a node over time.
func TestChanges(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	type demand = map[model.ServiceName]hold.Demand
	r := New(Config{})
	r.sent = map[model.ServiceName]sent{}
	for _, step := range []struct {
		after  time.Duration
		demand demand
		want   []Service
	}{
		{0, demand{}, nil},
		{0, demand{web: {Clients: 1, Began: at(0)}}, []Service{{"shop", "web", 1, true}}},
		{time.Second, demand{web: {Clients: 9, Began: at(0)}}, nil}, // more clients wait for the next report
		{2 * time.Second, demand{web: {Clients: 9, Began: at(0)}, cache: {Clients: 2}}, []Service{{"shop", "cache", 2, false}}},
		{Refresh, demand{web: {Clients: 9, Began: at(0)}, cache: {Clients: 2}}, []Service{{"shop", "web", 9, false}}},
		// No packet was held for a while; then the next outage begins.
		{2 * Refresh, demand{web: {Clients: 9}}, []Service{{"shop", "cache", 0, false}, {"shop", "web", 9, false}}},
		{2*Refresh + time.Second, demand{web: {Clients: 10, Began: at(2*Refresh + time.Second)}}, []Service{{"shop", "web", 10, true}}},
		{2*Refresh + 2*time.Second, demand{}, []Service{{"shop", "web", 0, false}}},
		{time.Hour, demand{}, nil},
	} {
		if got := r.changes(step.demand, at(step.after)); !reflect.DeepEqual(got, step.want) {
			t.Errorf("after %s: changes %v, want %v", step.after, got, step.want)
		}
	}
}

// A rig has a reporter, and a server in the place of the scaler.
type rig struct {
	*testing.T
	dir      string
	reporter *Reporter
	changed  chan struct{}
	requests chan *received

	mu     stdsync.Mutex
	demand map[model.ServiceName]hold.Demand
	status int // with which requests are refused; zero if they are not, hangs if they are not responded to
	log    strings.Builder
}

// received is a request that the server reads.
type received struct {
	token string
	lines chan Report
	end   chan struct{} // closed to end it
}

const (
	token = "token of the node"
	hangs = -1
)

// run runs a test in both families, with the reporter at work. The server's certificate is for name.
func run(t *testing.T, name string, test func(*rig)) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			r := &rig{T: t, dir: t.TempDir(), changed: make(chan struct{}), requests: make(chan *received, 10)}
			addr := r.listen(f, name)
			r.reporter = New(Config{
				Demand: r.current, Changed: r.changed, Dir: r.dir, Log: slog.New(slog.NewTextHandler(r, nil)),
			})

			r.reporter.acceptTimeout = 2 * time.Second
			r.reporter.Follow(sync.Committed{Full: true, Set: []model.Frontend{{
				Match: model.Match{Family: f, Protocol: model.TCP, Addr: addr.Addr(), Port: addr.Port()},
				Kind:  model.KindClusterIP,
				Service: model.ServicePortName{
					ServiceName: model.ServiceName{Namespace: "system", Name: "scaler"}, Port: PortName, Protocol: model.TCP,
				},
			}}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = r.reporter.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			test(r)
		})
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// listen starts the server, and writes the files that the kubelet would.
func (r *rig) listen(f model.Family, name string) netip.AddrPort {
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	r.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	r.must(err)
	l, err := net.Listen("tcp", net.JoinHostPort([...]string{model.IPv4: "127.0.0.1", model.IPv6: "::1"}[f], "0"))
	r.must(err)
	server := &http.Server{Handler: http.HandlerFunc(r.receive), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})) }()
	r.Cleanup(func() { _ = server.Close() })
	for name, text := range map[string]string{CAFile: string(certificate), ServiceFile: "system/scaler", TokenFile: token + "\n"} {
		r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
	}
	return netip.MustParseAddrPort(l.Addr().String())
}

func (r *rig) receive(w http.ResponseWriter, req *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	defer control.SetReadDeadline(time.Now()) //nolint:errcheck // the connection ends
	r.mu.Lock()
	status := r.status
	r.mu.Unlock()
	if status == hangs {
		<-req.Context().Done()
		return
	}
	if status != 0 || req.Method != http.MethodPost || req.URL.Path != Path {
		http.Error(w, "who are you?", status)
		return
	}
	in := &received{strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), make(chan Report, 100), make(chan struct{})}
	r.must(control.Flush())
	r.requests <- in
	go func() {
		<-in.end
		_ = control.SetReadDeadline(time.Now())
	}()
	defer close(in.lines)
	lines := bufio.NewScanner(req.Body)
	lines.Buffer(nil, MaxLine)
	for lines.Scan() {
		var report Report
		if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
			r.Error(err)
		}
		in.lines <- report
	}
	select {
	case <-in.end:
	default:
		_, _ = fmt.Fprint(w, "ended by the node")
	}
}

// Write implements [io.Writer]: the log.
func (r *rig) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

func (r *rig) current() map[model.ServiceName]hold.Demand {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demand
}

// set changes the demand, and lets the reporter see it.
func (r *rig) set(demand map[model.ServiceName]hold.Demand, status int) {
	r.mu.Lock()
	r.demand, r.status = demand, status
	r.mu.Unlock()
	r.changed <- struct{}{}
}

// next returns what a channel delivers while the reporter sees that the demand may have changed.
func next[T any](r *rig, from <-chan T) T {
	r.Helper()
	for {
		select {
		case v := <-from:
			return v
		case r.changed <- struct{}{}:
		case <-r.Context().Done():
			r.Fatal("nothing is reported")
		}
	}
}

func (r *rig) expect(in *received, want Report) {
	r.Helper()
	if got := next(r, in.lines); !reflect.DeepEqual(got, want) {
		r.Errorf("report %+v, want %+v", got, want)
	}
}

// failure waits until reports fail, or no longer do.
func (r *rig) failure(want string) {
	r.Helper()
	for {
		since, err := r.reporter.Failure()
		if (err == nil) == (want == "") {
			if err != nil && (!strings.Contains(err.Error(), want) || time.Since(since) < 0) {
				r.Errorf("%v since %s, want %s", err, since, want)
			}
			return
		}
		r.changed <- struct{}{}
	}
}

func TestReports(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		r.set(nil, 0) // no demand, no request
		one := map[model.ServiceName]hold.Demand{web: {Clients: 1, Began: time.Now()}}
		r.set(one, 0)
		in := next(r, r.requests)
		if in.token != token {
			r.Errorf("token %q", in.token)
		}
		r.expect(in, Report{[]Service{{"shop", "web", 1, true}}, true})
		two := maps.Clone(one)
		two[cache] = hold.Demand{Clients: 3}
		r.set(two, 0)
		r.expect(in, Report{Services: []Service{{"shop", "cache", 3, false}}})
		close(in.end)
		in = next(r, r.requests) // with all demand
		r.expect(in, Report{[]Service{{"shop", "cache", 3, false}, {"shop", "web", 1, true}}, true})
		r.set(nil, 0)
		r.expect(in, Report{Services: []Service{{Namespace: "shop", Name: "cache"}, {Namespace: "shop", Name: "web"}}})
		if r.log.Len() > 0 || len(r.requests) > 0 {
			r.Errorf("%d more requests, log: %s", len(r.requests), &r.log)
		}
	})
}

func TestManyServices(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		const n = 2*MaxServices + 1
		demand := map[model.ServiceName]hold.Demand{}
		for i := range n {
			demand[model.ServiceName{Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%063d", i)}] = hold.Demand{Clients: 1 << 31}
		}
		r.set(demand, 0)
		in := next(r, r.requests)
		for got := 0; got < n; {
			report := next(r, in.lines)
			got += len(report.Services)
			if len(report.Services) > MaxServices || report.Complete != (got == n) {
				r.Fatalf("%d Services after %d, complete: %t", len(report.Services), got, report.Complete)
			}
		}
	})
}

// TestScalerIsAway has a scaler that refuses requests for a while.
func TestScalerIsAway(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		demand := map[model.ServiceName]hold.Demand{web: {Clients: 1}}
		r.set(demand, http.StatusUnauthorized)
		r.failure("401 Unauthorized: who are you?")
		r.set(nil, http.StatusUnauthorized)
		r.failure("") // there is nothing to report
		r.set(demand, http.StatusUnauthorized)
		r.failure("401")
		r.set(demand, 0)
		r.expect(next(r, r.requests), Report{[]Service{{"shop", "web", 1, false}}, true})
	})
}

// TestScalerDoesNotRespond has a scaler whose API server is away, and that does not end requests.
func TestScalerDoesNotRespond(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		demand := map[model.ServiceName]hold.Demand{web: {Clients: 1}}
		began := time.Now()
		r.set(demand, hangs)
		r.failure("has not accepted the request for 2s")
		if took := time.Since(began); took > Refresh/2 {
			t.Errorf("the request ended after %s", took)
		}
		r.set(demand, 0)
		r.expect(next(r, r.requests), Report{[]Service{{"shop", "web", 1, false}}, true})
	})
}

// TestTokenGoesToScalerOnly has a server without the scaler's certificate.
func TestTokenGoesToScalerOnly(t *testing.T) {
	run(t, "someone", func(r *rig) {
		r.set(map[model.ServiceName]hold.Demand{web: {Clients: 1}}, 0)
		r.failure("certificate is valid for someone, not " + ServerName)
		if len(r.requests) > 0 {
			r.Error("the server has received a request")
		}
	})
}

func TestServiceOfScalerIsUnknown(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		r.must(os.WriteFile(filepath.Join(r.dir, ServiceFile), []byte("system/other"), 0o600))
		r.set(map[model.ServiceName]hold.Demand{web: {Clients: 1}}, 0)
		r.failure(`Service system/other has no port "reports"`)
	})
}

func TestNoToken(t *testing.T) {
	for want, change := range map[string]func(path string) error{
		"no such file": os.Remove, "empty": func(path string) error { return os.Truncate(path, 0) },
	} {
		run(t, ServerName, func(r *rig) {
			path := filepath.Join(r.dir, TokenFile)
			r.must(change(path))
			r.set(map[model.ServiceName]hold.Demand{web: {Clients: 1}}, 0)
			r.failure(path + ": " + want)
		})
	}
}

func TestNoScaler(t *testing.T) {
	run(t, ServerName, func(r *rig) {
		r.must(os.Remove(filepath.Join(r.dir, CAFile)))
		for range 3 {
			r.set(map[model.ServiceName]hold.Demand{web: {Clients: 1}}, 0)
		}
		if _, err := r.reporter.Failure(); err != nil || len(r.requests) > 0 {
			r.Errorf("%d requests, %v", len(r.requests), err)
		}
	})
}
