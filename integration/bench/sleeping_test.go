package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/cert"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/demand"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/source/addresses"
	"kube-vmap/sync/throttle"
)

const (
	sleepingServices, sleepingNamespaces = 100_000, 500
	// sleepingHold is their hold. They hold again a minute after it is over.
	sleepingHold = 30 * time.Second
	// quietTime is measured before the flood, and floodTime lasts until they hold again.
	quietTime, floodTime = 10 * time.Second, 140 * time.Second
	// reportDelay is by how much more one report may be delayed than the next one.
	reportDelay = time.Second
)

// sleepingRange has the ClusterIPs of the Services that scale to zero.
var sleepingRange = netip.MustParsePrefix("10.98.0.0/15")

// BenchmarkSleeping has the loop and the followers of a node, and clients that flood it with 10,000
// first packets a second, to 100,000 Services that scale to zero. About three quarters of [nft.MaxHeld]
// of them hold, the others reject connections. It measures how long changes of other tenants take; the
// resident memory of this process, at most and without garbage; and how often a Service is reported to
// kube-vmap-scaler. That demand has ended does not count.
func BenchmarkSleeping(b *testing.B) {
	l := labtest.New(b, lab.Options{})
	must(b, l.Outside.AddRoute(sleepingRange, l.Node.Addr(model.IPv4)))
	ctx, cancel := context.WithCancel(b.Context())
	group, ctx := errgroup.WithContext(ctx)
	n := startSleeping(ctx, b, group, l)
	rejected, f := int(n.rejected.Load()), flood{}
	quiet, _ := n.changes(b, quietTime)
	debug.FreeOSMemory()
	before, kernel := residentMemory(b), settledMemory(b)
	group.Go(func() error { return l.Outside.Do(func() error { return f.run(ctx) }) })
	during, most := n.changes(b, floodTime)
	kernel = kernelMemory(b) - kernel
	debug.FreeOSMemory()
	after := residentMemory(b)
	cancel()
	must(b, group.Wait())
	n.mu.Lock()
	defer n.mu.Unlock()
	if reported := len(n.reported); reported != sleepingServices-rejected {
		b.Errorf("%d Services were reported", reported)
	}
	report.Line(b, "clients", report.Number("SYN/s", float64(f.sent)/floodTime.Seconds(), 0),
		report.Number("held", sleepingServices-rejected, 0), report.Number("rejected", rejected, 0))
	report.Line(b, "changes", report.Time("ms-quiet", quiet.Median(), 0), report.Time("ms", during.Median(), 0),
		report.Ratio("x-quiet", during.Median(), quiet.Median(), 2),
		report.Time("ms-p90-quiet", quiet.At(0.9), 0), report.Time("ms-p90", during.At(0.9), 0),
		report.Time("ms-p99-quiet", quiet.At(0.99), 0), report.Time("ms-p99", during.At(0.99), 0))
	mb := func(unit string, bytes int) report.Figure { return report.Number(unit, float64(bytes)/1e6, 0) }
	report.Line(b, "memory", mb("MB-quiet", before), mb("MB-in-use", after), mb("MB-most", most), mb("MB-kernel", kernel),
		report.Number("x-in-use", float64(after)/float64(before), 1.5), report.Number("x-most", float64(most)/float64(before), 3))
	report.Line(b, "signals", report.Number("events", n.events, 0), report.Number("reports", n.reports, 0),
		report.Number("of-a-Service-in-30-s", n.mostReports, 2)) // one of 30 s, and one that clients began to wait
}

// A sleepingNode is a node with other tenants' Services, too.
type sleepingNode struct {
	*cluster
	first     []sync.Event
	bursts    chan []sync.Event
	committed chan struct{} // changes of other tenants
	rejected  atomic.Int64

	mu                   stdsync.Mutex
	events               int                    // that clients wait
	reports, mostReports int                    // of demand: all; the most of a Service within [demand.Refresh]
	reported             map[string][]time.Time // of each Service, within that time
}

// startSleeping returns when the node's rules are complete.
func startSleeping(ctx context.Context, b *testing.B, group *errgroup.Group, l *lab.Lab) *sleepingNode {
	b.Helper()
	c := &cluster{kind: clusterIP, size: size{1_000, 10}}
	n := &sleepingNode{
		cluster: c, bursts: make(chan []sync.Event), committed: make(chan struct{}, 1), reported: map[string][]time.Time{},
	}
	for i := range c.size.services {
		n.first = append(n.first, sync.SetService{Service: c.service(i)}, sync.SetSlice{Slice: c.slice(i, c.endpoints)})
	}
	for i := range sleepingServices {
		s := c.service(i)
		s.Name.Namespace, s.UID = fmt.Sprint("sleeping-", i%sleepingNamespaces), s.Name.Name
		s.ClusterIPs = []netip.Addr{lab.After(sleepingRange.Addr(), i)}
		s.Hold, s.ScaleToZero = sleepingHold, true
		n.first = append(n.first, sync.SetService{Service: s})
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	overlays := make(chan []model.Overlay)
	h := hold.New(hold.Config{
		Kernel: labtest.Kernel(b, l.Node.Host), Tracking: conntrack.New(conntrack.Config{NetNS: l.Node.FD()}),
		Addresses: addresses.Read, TCPTimeout: conntrack.TCPTimeout, Overlays: overlays, Recorder: n, Log: log,
	})
	r := demand.New(demand.Config{Demand: h.Demand, Changed: h.DemandChanged(), Dir: b.TempDir(), Log: log})
	n.serveReports(b, r)
	loop := sync.NewLoop(sync.Config{
		NodeName: thisNode, Rules: config, CPUTime: throttle.ThreadCPUTime, Overlays: overlays, Followers: []sync.Follower{n, h},
	}, n, labtest.Kernel(b, l.Node.Host), log)
	for _, run := range []func(context.Context) error{h.Run, r.Run, loop.Run} {
		group.Go(func() error { return run(ctx) })
	}
	for ctx.Err() == nil && n.rejected.Load() < sleepingServices-nft.MaxHeld*3/4 {
		<-time.After(time.Second)
	}
	return n
}

// serveReports has a server at the address of kube-vmap-scaler.
func (n *sleepingNode) serveReports(b *testing.B, r *demand.Reporter) {
	b.Helper()
	public, key, err := cert.GenerateSelfSignedCertKey(demand.ServerName, nil, nil)
	must(b, err)
	pair, err := tls.X509KeyPair(public, key)
	must(b, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for lines := bufio.NewReader(r.Body); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			n.addReport(b, line)
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	b.Cleanup(s.Close)
	for name, content := range map[string]string{
		demand.CAFile: string(public), demand.ServiceFile: "kube-system/kube-vmap-scaler", demand.TokenFile: "token",
	} {
		must(b, os.WriteFile(filepath.Join(r.Dir, name), []byte(content), 0o600))
	}
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	r.Follow(sync.Committed{Full: true, Set: []model.Frontend{{
		Match: model.Match{Addr: at.Addr(), Protocol: model.TCP, Port: at.Port()}, Kind: model.KindClusterIP,
		Service: model.ServicePortName{
			ServiceName: model.ServiceName{Namespace: "kube-system", Name: "kube-vmap-scaler"}, Port: demand.PortName,
		},
	}}})
}

// addReport counts the Services of a report.
func (n *sleepingNode) addReport(b *testing.B, line []byte) {
	var r demand.Report
	if err := json.Unmarshal(line, &r); err != nil {
		b.Error(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for _, s := range r.Services {
		if s.Clients == 0 {
			continue
		}
		recent := slices.DeleteFunc(n.reported[s.Name], func(at time.Time) bool {
			return now.Sub(at) >= demand.Refresh-reportDelay
		})
		n.reported[s.Name] = append(recent, now)
		n.reports, n.mostReports = n.reports+1, max(n.mostReports, len(recent)+1)
	}
}

// Run implements [sync.Source].
func (n *sleepingNode) Run(ctx context.Context, out chan<- []sync.Event) error {
	for burst := n.first; ; {
		sync.Send(ctx, out, burst)
		select {
		case burst = <-n.bursts:
		case <-ctx.Done():
			return nil
		}
	}
}

// Follow implements [sync.Follower].
func (n *sleepingNode) Follow(c sync.Committed) {
	others := false
	for i := range c.Set {
		switch f := &c.Set[i]; {
		case !f.Pool.ScaleToZero:
			others = true
		case f.Verdict == model.VerdictReject:
			n.rejected.Add(1)
		}
	}
	if others && !c.Full {
		n.committed <- struct{}{}
	}
}

// Warn implements [sync.Recorder].
func (n *sleepingNode) Warn(_ sync.Object, reason, _ string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if reason == hold.ReasonWaiting {
		n.events++
	}
}

// changes replaces endpoints of other tenants' Services, and returns how long each took from the objects
// to the commit, and the largest resident memory.
func (n *sleepingNode) changes(b *testing.B, during time.Duration) (took report.Times, memory int) {
	b.Helper()
	for turn, end := 0, time.Now().Add(during); time.Now().Before(end); turn++ {
		i, j := n.pickPod(turn)
		before, after := n.slice(i, n.endpoints), n.slice(i, n.endpoints)
		after.Endpoints[j] = n.pod(i, n.endpoints)
		for _, slice := range []model.EndpointSlice{after, before} {
			start := time.Now()
			n.bursts <- []sync.Event{sync.SetSlice{Slice: slice}}
			<-n.committed
			took.Add(time.Since(start))
			memory = max(memory, residentMemory(b))
			<-time.After(50 * time.Millisecond)
		}
	}
	return took, memory
}

// residentMemory returns how many bytes of memory this process has.
func residentMemory(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	must(b, err)
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kilobytes int
	_, err = fmt.Sscan(rest, &kilobytes)
	must(b, err)
	return kilobytes << 10
}
