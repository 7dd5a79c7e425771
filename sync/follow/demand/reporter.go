// Package demand reports the demand for Services that scale to zero to kube-vmap-scaler
// (deploy/scaler), which passes it on to KEDA.
//
//	hold: a packet is held --> Reporter --TLS--> kube-vmap-scaler --gRPC--> KEDA --> replicas: 1
//
// While there is demand, the reporter has one request to the scaler, and writes a line to its body
// for each change. A Service is reported when its demand begins, when clients begin to wait, when its
// demand ends, and otherwise every 30 s: a flood of packets makes no flood of reports. If the
// request ends, the next one begins with all demand.
//
// The kubelet provides a token for the scaler and its certificate as files. Without a scaler there is
// no certificate, and nothing is sent.
package demand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/throttle"
)

const (
	// Refresh is the time between reports of a Service whose demand goes on, and between lines.
	Refresh = 30 * time.Second
	// retryPause is the time between requests that fail.
	retryPause = time.Second
)

// Config configures a [Reporter].
type Config struct {
	// Demand returns the demand through this node, and Changed delivers when it may have changed, at
	// least every second while there is some.
	Demand  func() map[model.ServiceName]hold.Demand
	Changed <-chan struct{}
	// Dir has the token, and the scaler's certificate and Service.
	Dir        string
	Log        *slog.Logger
	Background *throttle.Budget // of all background work
}

// A Reporter is a [sync.Follower] that finds the scaler's address in commits.
type Reporter struct {
	Config
	*follow.Queue
	addrs   map[model.Match]model.ServiceName // of ports with the scaler's port name
	request *request                          // nil if there is none
	sent    map[model.ServiceName]sent        // by this request
	written time.Time                         // the last line
	retry   time.Time                         // when the next request may begin
	pace    throttle.Throttle

	acceptTimeout time.Duration

	mu    stdsync.Mutex
	since time.Time // of the failure
	err   error
}

// sent is what was reported of a Service.
type sent struct {
	at    time.Time
	began time.Time // of the last outage
}

// New returns a Reporter; it does nothing before Run.
func New(c Config) *Reporter {
	return &Reporter{
		Config: c, Queue: follow.NewQueue(), addrs: map[model.Match]model.ServiceName{},
		pace:          c.Background.Throttle(0),
		acceptTimeout: acceptTimeout,
	}
}

// Failure returns since when demand cannot be reported, and why; nil if it can, or if there is no
// scaler, or no demand. It may be called at any time.
func (r *Reporter) Failure() (since time.Time, err error) {
	if len(r.Demand()) == 0 {
		return time.Time{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.err
}

// Run reports demand until ctx ends, which is not an error.
func (r *Reporter) Run(ctx context.Context) error {
	for {
		var results <-chan error
		if r.request != nil {
			results = r.request.results
		}
		select {
		case <-ctx.Done():
			r.end()
			return nil
		case <-r.Ready():
			r.applyCommits()
		case <-r.Changed:
			r.applyCommits()
			r.report(ctx)
		case err, more := <-results:
			if r.finish(err); err != nil || !more {
				r.end()
			}
		}
	}
}

func (r *Reporter) applyCommits() {
	for _, c := range r.Take() {
		follow.Update(r.addrs, c, isScaler, func(model.Match, model.ServiceName) {})
	}
}

// isScaler keeps the ports that may be the scaler's.
func isScaler(f *model.Frontend, _ model.ServiceName, _ bool) (model.ServiceName, bool) {
	return f.Service.ServiceName, f.Service.Port == PortName && f.IsClusterIP() && f.Match.Protocol == model.TCP
}

// report sends what has changed.
func (r *Reporter) report(ctx context.Context) {
	now := time.Now()
	demand := r.Demand()
	if r.pace.Remaining() > 0 || r.request == nil && (len(demand) == 0 || now.Before(r.retry)) {
		return
	}
	complete := false
	if r.request == nil {
		var err error
		if r.request, err = r.newRequest(ctx); err != nil {
			r.finish(err)
			return
		}
		r.sent, complete = map[model.ServiceName]sent{}, true
	}
	var changes []Service
	r.pace.Do(func() { changes = r.changes(demand, now) })
	if len(changes) == 0 && !complete && now.Sub(r.written) < Refresh {
		return
	}
	for {
		n := min(len(changes), MaxServices)
		report := Report{Services: changes[:n], Complete: complete && n == len(changes)}
		if err := r.request.write(report); err != nil {
			// Run receives why the request ended.
			return
		}
		if changes = changes[n:]; len(changes) == 0 {
			break
		}
	}
	r.written = now
}

// changes returns what has to be reported, sorted, as if it was.
func (r *Reporter) changes(demand map[model.ServiceName]hold.Demand, now time.Time) (changes []Service) {
	for s, d := range demand {
		before, known := r.sent[s]
		waiting := d.Began.After(before.began)
		if known && !waiting && now.Sub(before.at) < Refresh {
			continue
		}
		if d.Began.Before(before.began) {
			d.Began = before.began
		}
		r.sent[s] = sent{now, d.Began}
		changes = append(changes, Service{s.Namespace, s.Name, d.Clients, waiting})
	}
	for s := range r.sent {
		if _, remains := demand[s]; !remains {
			delete(r.sent, s)
			changes = append(changes, Service{Namespace: s.Namespace, Name: s.Name})
		}
	}
	slices.SortFunc(changes, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return changes
}

// end ends the request, if there is one.
func (r *Reporter) end() {
	if r.request != nil {
		r.request.cancel(nil)
		r.request = nil
	}
}

// finish notes that a request was accepted, or how it ended.
func (r *Reporter) finish(err error) {
	if errors.Is(err, errNoScaler) || len(r.Demand()) == 0 { // or nothing to report
		err = nil
	}
	if err != nil {
		r.retry = time.Now().Add(retryPause)
	}
	r.mu.Lock()
	before := r.err
	if r.err = err; before == nil {
		r.since = time.Now()
	}
	r.mu.Unlock()
	switch {
	case err != nil && before == nil:
		r.Log.Warn("demand not reported, Services that scale to zero may not be started", "err", err)
	case err == nil && before != nil:
		r.Log.Info("demand reported again")
	}
}

// address returns where a Service receives reports.
func (r *Reporter) address(service string) (netip.AddrPort, error) {
	for m, s := range r.addrs {
		if s.String() == service {
			return netip.AddrPortFrom(m.Addr, m.Port), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("Service %s has no port %q", service, PortName)
}

// How a node finds kube-vmap-scaler, and what it sends: a POST to Path, with a token of Audience, whose
// body is lines of JSON, each a [Report]. A request begins with all demand of the node. The response
// begins when the token is accepted. It has no content, except why the scaler ends the request.
const (
	// Audience is whom the token is for (KEP-1205).
	Audience = "kube-vmap-scaler"
	// Path is the path of the URL.
	Path = "/demand"
	// PortName is the name of the Service's port.
	PortName = "reports"
	// ServerName is the name in the scaler's certificate.
	ServerName = "kube-vmap-scaler"
	// CAFile is a key of the ConfigMap, and a file on nodes: the certificate.
	CAFile = "ca.crt"
	// ServiceFile is another one: "namespace/name" of the Service.
	ServiceFile = "service"
	// TokenFile is a file next to them.
	TokenFile = "token"
	// MaxServices is how many Services a report has at most.
	MaxServices = 1000
	// MaxLine is the maximum length of its line in bytes.
	MaxLine = 1 << 20
)

// A Report is what has changed in the demand through a node.
type Report struct {
	Services []Service `json:"services,omitempty"`
	// Complete reports whether the request has sent all demand by now.
	Complete bool `json:"complete,omitempty"`
}

// Service is the demand for a Service through a node.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Clients counts those that wait, and active connections; zero if demand has ended.
	Clients int `json:"clients"`
	// Waiting reports whether clients began to wait for an endpoint since the last report.
	Waiting bool `json:"waiting,omitempty"`
}
