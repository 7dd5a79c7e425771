package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"

	"kube-vmap/sync/follow/demand"
	"kube-vmap/sync/follow/listen"
)

const (
	// lineTimeout is how long a node may send nothing.
	lineTimeout = 3 * demand.Refresh
	// maxStrangers limits connections before they have sent the token of a node. One more closes the
	// oldest. All nodes that Kubernetes supports may connect together.
	maxStrangers = 5000
	// logInterval is the least time between log messages about refused requests.
	logInterval = time.Minute
)

// claims are what a token says (KEP-1205, KEP-4193).
type claims struct {
	jwt.Claims
	Kubernetes struct {
		Node boundObject `json:"node"`
		Pod  boundObject `json:"pod"`
	} `json:"kubernetes.io"`
}

type boundObject struct {
	Name string `json:"name"`
}

// reports receives what nodes report.
type reports struct {
	demands  *demands
	keys     atomic.Pointer[jose.JSONWebKeySet] // of the API server
	reporter string                             // the user who may report
	limit    *listen.ConnLimit                  // of strangers
	log      *slog.Logger
	refused  prometheus.Counter
	logged   rate.Sometimes
}

func newReports(d *demands, reporter string, log *slog.Logger) *reports {
	r := &reports{
		demands: d, reporter: reporter, limit: listen.NewConnLimit(maxStrangers), log: log,
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubevmap_scaler_refused_total", Help: "Requests of nodes, or others, that were refused.",
		}),
		logged: rate.Sometimes{Interval: logInterval},
	}
	r.keys.Store(&jose.JSONWebKeySet{})
	return r
}

// serve serves until ctx ends. Requests end then, and nodes send them again.
func (r *reports) serve(ctx context.Context, l net.Listener, pair tls.Certificate) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+demand.Path, r.receive)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server := &http.Server{
		Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connection{}, c.(*tls.Conn).NetConn())
		},
	}
	server.SetKeepAlivesEnabled(false) // no connection without a request
	return serveHTTP(ctx, tls.NewListener(r.limit.Listener(l), config), server)
}

// connection is the key of a request's context for its connection.
type connection struct{}

// A refusal is why a request is refused, with the HTTP status.
type refusal struct {
	status int
	reason string
}

// Error implements error.
func (r *refusal) Error() string { return r.reason }

// receive receives the reports of a node for as long as it sends some.
func (r *reports) receive(w http.ResponseWriter, req *http.Request) {
	control := http.NewResponseController(w)
	defer control.SetReadDeadline(time.Now()) //nolint:errcheck // what remains of the body is not read
	node, expiry, err := r.authenticate(req)
	if err == nil { // the response begins before the body ends
		err = errors.Join(control.EnableFullDuplex(), control.Flush())
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		r.refused.Inc()
		r.logged.Do(func() { r.log.Warn("request refused", "from", req.RemoteAddr, "err", err) })
		http.Error(w, err.Error(), refused.status)
	case err == nil:
		err = r.read(req, control, node, expiry)
		r.log.Debug("request ended", "node", node, "err", err)
		if err != nil {
			_, _ = fmt.Fprint(w, err)
		}
	}
}

// read reads a request until the token expires, the node sends another request, or this program ends.
func (r *reports) read(req *http.Request, control *http.ResponseController, node string, expiry time.Time) error {
	ctx, cancel := context.WithDeadline(req.Context(), expiry)
	defer cancel()
	request := r.demands.begin(node, cancel)
	defer request.end()
	r.log.Debug("request begins", "node", node)
	defer context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(req.Body)
	lines.Buffer(nil, demand.MaxLine)
	for {
		if err := control.SetReadDeadline(time.Now().Add(lineTimeout)); err != nil {
			return err
		}
		// ctx may have ended before the deadline was set, and the last line before it was complete.
		if ctx.Err() != nil || !lines.Scan() || lines.Err() != nil {
			break
		}
		var report demand.Report
		if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if err := request.report(report); err != nil {
			return err
		}
		r.log.Debug("demand", "node", node, "services", len(report.Services), "complete", report.Complete)
	}
	if ctx.Err() != nil {
		return nil // the node has another token, or its next request another connection
	}
	return lines.Err()
}

// authenticate returns the node that has sent a request, and when its token expires. It verifies the
// signature of the API server, so requests of strangers neither reach that nor use up a limit of nodes.
func (r *reports) authenticate(req *http.Request) (node string, expiry time.Time, err error) {
	token, isBearer := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		return "", expiry, &refusal{http.StatusUnauthorized, "no token"}
	}
	var c claims
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512})
	if err == nil {
		err = parsed.Claims(r.keys.Load(), &c)
	}
	if err != nil || c.Expiry == nil || !c.Audience.Contains(demand.Audience) {
		return "", expiry, &refusal{http.StatusUnauthorized, fmt.Sprintf("invalid token, or for another audience: %v", err)}
	}
	expiry, node = c.Expiry.Time(), cmp.Or(c.Kubernetes.Node.Name, c.Kubernetes.Pod.Name)
	switch {
	case c.Subject != r.reporter:
		return "", expiry, &refusal{http.StatusForbidden, c.Subject + " may not report demand, " + r.reporter + " may"}
	case node == "":
		return "", expiry, &refusal{http.StatusForbidden, "the token is not bound to a Pod"}
	case !time.Now().Before(expiry): // the kubelet has not replaced it
		r.demands.unsettle(settleTime)
		return "", expiry, &refusal{http.StatusUnauthorized, "the token has expired at " + expiry.String()}
	}
	conn, _ := req.Context().Value(connection{}).(net.Conn)
	listen.Exempt(conn)
	return node, expiry, nil
}

// readKeys reads the keys by which the API server signs tokens (KEP-1393).
func (r *reports) readKeys(ctx context.Context, api rest.Interface) error {
	text, err := api.Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
	keys := &jose.JSONWebKeySet{}
	if err == nil {
		err = json.Unmarshal(text, keys)
	}
	if err != nil {
		return fmt.Errorf("keys of the API server: %w", err)
	}
	r.keys.Store(keys)
	return nil
}

// endpointPeriod is the time between checks of the endpoint.
const endpointPeriod = 2 * time.Second

// An endpoint checks that nodes report to this Pod, and to no other. After the control plane has lost a
// node, a successor may run elsewhere while KEDA is still connected to this program.
type endpoint struct {
	readKeys func(context.Context) error // without which it accepts no token
	api      v1.EndpointSliceInterface
	demands  *demands
	log      *slog.Logger
}

// run checks until ctx ends. While nodes may report elsewhere, demand is not known. If they do, after they
// reported here, it returns why, before a successor has settled: nodes and KEDA connect again then.
func (e *endpoint) run(ctx context.Context) error {
	var last time.Time // when nodes reported here
	logged := rate.Sometimes{Interval: logInterval}
	for ctx.Err() == nil {
		err := e.check(ctx)
		switch {
		case err == nil:
			last = time.Now()
		case !last.IsZero() && time.Since(last) >= settleTime:
			return err
		default:
			e.demands.unsettle(settleTime)
			logged.Do(func() { e.log.Warn("demand is not known", "err", err) })
		}
		select {
		case <-time.After(endpointPeriod):
		case <-ctx.Done():
		}
	}
	return nil
}

// check returns why nodes may report elsewhere.
func (e *endpoint) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	list, err := e.api.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + objectName})
	own, failed := net.InterfaceAddrs()
	if err := cmp.Or(err, failed, e.readKeys(ctx)); err != nil {
		return fmt.Errorf("nodes may report to another Pod: %w", err)
	}
	reason := fmt.Errorf("nodes cannot report: Service %s has no ready endpoint", objectName)
	for _, slice := range list.Items {
		for _, one := range slice.Endpoints {
			isOwn := func(a net.Addr) bool { return strings.HasPrefix(a.String(), one.Addresses[0]+"/") }
			switch ready := one.Conditions.Ready; {
			case ready != nil && !*ready:
			case slices.ContainsFunc(own, isOwn):
				reason = nil
			default:
				return fmt.Errorf("nodes report to another Pod, %s", one.Addresses[0])
			}
		}
	}
	return reason
}
