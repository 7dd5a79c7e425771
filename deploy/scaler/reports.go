package main

import (
	"bufio"
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
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"kube-vmap/sync/follow/demand"
)

const (
	// lineTimeout is how long a node may send nothing.
	lineTimeout = 3 * demand.Refresh
	// reviewPeriod is the time between checks of a token while its request goes on.
	reviewPeriod = 10 * time.Minute
	// reviewTimeout limits a check. A node that must try again does so within settleTime.
	reviewTimeout = settleTime / 2
	// An address may send a request per reviewInterval, after reviewBurst: each causes a
	// request to the API server. maxAddresses limits the memory.
	reviewInterval, reviewBurst = time.Second, 10
	maxAddresses                = 10_000
	// logInterval is the least time between log messages about refused requests.
	logInterval = time.Minute
)

// Claims of a token that is bound to a Pod (KEP-4193).
const (
	claimNode = "authentication.kubernetes.io/node-name"
	claimPod  = "authentication.kubernetes.io/pod-name"
)

// reviewer checks tokens; the API server does.
type reviewer interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// reports receives what nodes report.
type reports struct {
	demands  *demands
	reviewer reviewer
	reporter string // the user who may report
	log      *slog.Logger
	refused  prometheus.Counter
	period   time.Duration // reviewPeriod

	mu     sync.Mutex
	limits *lru.Cache // *rate.Limiter by address
	logged rate.Sometimes
}

func newReports(d *demands, r reviewer, reporter string, log *slog.Logger) *reports {
	return &reports{
		demands: d, reviewer: r, reporter: reporter, log: log, period: reviewPeriod,
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubevmap_scaler_refused_total", Help: "Requests of nodes, or others, that were refused.",
		}),
		limits: lru.New(maxAddresses), logged: rate.Sometimes{Interval: logInterval},
	}
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
	}
	server.SetKeepAlivesEnabled(false) // no connection without a request
	return serveHTTP(ctx, tls.NewListener(l, config), server)
}

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
	token, node, err := r.authenticate(req)
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
		err = r.read(req, control, token, node)
		r.log.Debug("request ended", "node", node, "err", err)
		if err != nil {
			_, _ = fmt.Fprint(w, err)
		}
	}
}

// read reads a request until the token expires, or this program ends.
func (r *reports) read(req *http.Request, control *http.ResponseController, token, node string) error {
	reviewed := time.Now()
	request := r.demands.begin(node)
	defer request.end()
	r.log.Debug("request begins", "node", node)
	ctx := req.Context()
	defer context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(req.Body)
	lines.Buffer(nil, demand.MaxLine)
	for {
		if err := control.SetReadDeadline(time.Now().Add(lineTimeout)); err != nil {
			return err
		}
		if ctx.Err() != nil || !lines.Scan() { // ctx may have ended before the deadline was set
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
		if time.Since(reviewed) < r.period {
			continue
		}
		if _, err := r.review(ctx, token); isFinal(err) {
			return nil // the next request has another token
		}
		reviewed = time.Now()
	}
	if ctx.Err() != nil {
		return nil // this program ends
	}
	return lines.Err()
}

// isFinal reports whether a token is not valid; of others the API server has not said it.
func isFinal(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.status != http.StatusServiceUnavailable
}

// authenticate returns the token of a request, and the node that has sent it.
func (r *reports) authenticate(req *http.Request) (token, node string, err error) {
	token, isBearer := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		return "", "", &refusal{http.StatusUnauthorized, "no token"}
	}
	addr, _, _ := net.SplitHostPort(req.RemoteAddr)
	if !r.limit(addr).Allow() {
		return "", "", &refusal{http.StatusTooManyRequests, "too many requests from this address"}
	}
	node, err = r.review(req.Context(), token)
	return token, node, err
}

// limit returns the limit of requests from an address.
func (r *reports) limit(addr string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, known := r.limits.Get(addr); known {
		return l.(*rate.Limiter)
	}
	l := rate.NewLimiter(rate.Every(reviewInterval), reviewBurst)
	r.limits.Add(addr, l)
	return l
}

// review has the API server check a token, and returns the node that it is bound to.
func (r *reports) review(ctx context.Context, token string) (node string, err error) {
	timed, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.reviewer.Create(timed, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{demand.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		if ctx.Err() == nil { // others than nodes may end their requests early
			r.demands.unsettle(settleTime)
		}
		return "", &refusal{http.StatusServiceUnavailable, fmt.Sprintf("the API server cannot check the token: %v", err)}
	}
	user := review.Status.User
	switch {
	case !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, demand.Audience):
		return "", &refusal{http.StatusUnauthorized, "invalid token: " + review.Status.Error}
	case user.Username != r.reporter:
		return "", &refusal{http.StatusForbidden, user.Username + " may not report demand, " + r.reporter + " may"}
	}
	for _, claim := range [...]string{claimNode, claimPod} {
		if names := user.Extra[claim]; len(names) == 1 {
			return names[0], nil
		}
	}
	return "", &refusal{http.StatusForbidden, "the token is not bound to a Pod"}
}
