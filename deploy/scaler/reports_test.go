package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"kube-vmap/sync/follow/demand"
)

const reporter = "system:serviceaccount:kube-system:kube-vmap"

// An apiServer reviews tokens of the form "user/node".
type apiServer struct {
	mu      sync.Mutex
	err     error
	expired bool
	reviews int
	done    chan struct{} // delivers after each review, if it is not nil
}

// Create implements [reviewer].
func (a *apiServer) Create(
	ctx context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	if r.Spec.Token == "hangs" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviews++
	if a.done != nil {
		a.done <- struct{}{}
	}
	user, node, valid := strings.Cut(r.Spec.Token, "/")
	r.Status = authenticationv1.TokenReviewStatus{
		Authenticated: valid && !a.expired, Audiences: r.Spec.Audiences, User: authenticationv1.UserInfo{Username: user},
	}
	if node != "" {
		r.Status.User.Extra = map[string]authenticationv1.ExtraValue{claimNode: {node}}
	}
	return r, a.err
}

// set changes what the next reviews are.
func (a *apiServer) set(err error, expired bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.expired = err, expired
}

// A receiver is a server for reports.
type receiver struct {
	*testing.T
	demands *demands
	api     *apiServer
	client  http.Client
	addr    string
	stop    func() // ends it, and waits until it has
}

func newReceiver(t *testing.T, period time.Duration) *receiver {
	d, api := newDemands(), &apiServer{}
	certificate, key, err := cert.GenerateSelfSignedCertKey(demand.ServerName, nil, nil)
	must(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	must(t, err)
	if old := age(pair); old < 0 || old > time.Hour {
		t.Errorf("a new certificate is %s old", old)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := newReports(d, api, reporter, slog.New(slog.DiscardHandler))
	r.period = period
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.serve(ctx, l, pair) }()
	stop := sync.OnceFunc(func() {
		cancel()
		must(t, <-ended)
	})
	t.Cleanup(stop)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: demand.ServerName}, DisableKeepAlives: true,
	}}
	return &receiver{t, d, api, client, l.Addr().String(), stop}
}

// send sends a request, and returns the response.
func (r *receiver) send(token string, body io.Reader) (int, string) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://"+r.addr+demand.Path, body)
	must(r.T, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := r.client.Do(req)
	must(r.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(r.T, err)
	return resp.StatusCode, string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const line = `{"services":[{"namespace":"shop","name":"web","clients":3,"waiting":true}],"complete":true}` + "\n"

// TestOnlyNodesReport has requests of others, and of nodes that are invalid.
func TestOnlyNodesReport(t *testing.T) {
	r := newReceiver(t, time.Hour)
	unavailable := errors.New("the API server is away")
	for _, test := range []struct {
		token, body string
		api         error
		status      int
		text        string
	}{
		{"", line, nil, http.StatusUnauthorized, "no token"},
		{"invalid", line, nil, http.StatusUnauthorized, "invalid token"},
		{"system:serviceaccount:shop:web/one", line, nil, http.StatusForbidden, "may not report demand"},
		{reporter + "/", line, nil, http.StatusForbidden, "not bound to a Pod"},
		{reporter + "/one", line, unavailable, http.StatusServiceUnavailable, unavailable.Error()},
		{reporter + "/one", "{", nil, http.StatusOK, "report: "},
		{reporter + "/one", strings.Repeat(" ", demand.MaxLine+1), nil, http.StatusOK, "too long"},
		{reporter + "/one", "", nil, http.StatusOK, ""},
	} {
		r.api.set(test.api, false)
		status, text := r.send(test.token, strings.NewReader(test.body))
		if status != test.status || !strings.Contains(text, test.text) {
			t.Errorf("token %q: %d %s, want %d %s", test.token, status, text, test.status, test.text)
		}
	}
	if len(r.demands.total) > 0 || r.demands.settled.IsZero() {
		t.Errorf("demand %v, settled %s", r.demands.total, r.demands.settled)
	}
}

// TestAddressIsLimited has an address that sends many tokens: the API server must not see them all.
func TestAddressIsLimited(t *testing.T) {
	r := newReceiver(t, time.Hour)
	counts := map[int]int{}
	for i := range 100 {
		status, _ := r.send(fmt.Sprint(i), http.NoBody)
		counts[status]++
	}
	if counts[http.StatusTooManyRequests] == 0 || counts[http.StatusUnauthorized] != r.api.reviews {
		t.Errorf("responses %v, %d reviews", counts, r.api.reviews)
	}
}

// begin begins the request of a node. write waits until the demand of a line is known.
func (r *receiver) begin() (write func(), ended <-chan string) {
	body, node := io.Pipe()
	responses := make(chan string, 1)
	go func() {
		_, text := r.send(reporter+"/one", body)
		responses <- text
	}()
	signals, stop := r.demands.watch(web)
	r.Cleanup(stop)
	return func() {
		_, err := node.Write([]byte(line))
		must(r.T, err)
		<-signals
	}, responses
}

// TestTokenIsReviewedAgain has a request that goes on.
func TestTokenIsReviewedAgain(t *testing.T) {
	r := newReceiver(t, 0)
	api := r.api
	api.done = make(chan struct{}, 1)
	write, ended := r.begin()
	<-api.done
	for _, next := range []struct {
		err     error
		expired bool
	}{{}, {errors.New("away"), false}, {errors.New("away"), false}, {nil, true}} { // "away" says nothing about the token
		api.set(next.err, next.expired)
		write()
		<-api.done
	}
	if text := <-ended; text != "" {
		t.Errorf("response %q", text)
	}
	if len(api.done) > 0 {
		t.Error("the token is reviewed once more")
	}
}

// TestRequestEndsBeforeTheProgram has a node that would otherwise log that its connection was reset.
func TestRequestEndsBeforeTheProgram(t *testing.T) {
	r := newReceiver(t, time.Hour)
	write, ended := r.begin()
	write()
	if r.stop(); r.demands.open > 0 {
		t.Errorf("%d requests go on", r.demands.open)
	}
	if text := <-ended; text != "" {
		t.Errorf("response %q", text)
	}
}

// TestNoIdleConnection has a client without a token that keeps its connection open.
func TestNoIdleConnection(t *testing.T) {
	r := newReceiver(t, time.Hour)
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a client that does not care
	c, err := dialer.DialContext(t.Context(), "tcp", r.addr)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(readTimeout/2)))
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: scaler\r\nContent-Length: 0\r\n\r\n", demand.Path)
	must(t, err)
	_, err = io.ReadAll(c)
	must(t, err)
}

// TestDemandIsUnknownWithoutReviews has an API server that does not respond, and a client that does
// not wait for it.
func TestDemandIsUnknownWithoutReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemands()
		r := newReports(d, &apiServer{}, reporter, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := r.review(ctx, "hangs"); err == nil || !d.settled.IsZero() {
			t.Errorf("client without a token: %v, settled %s", err, d.settled)
		}
		d.unsettle(settleTime)
		<-time.After(2 * settleTime)
		for range 3 {
			began := time.Now()
			if _, err := r.review(t.Context(), "hangs"); isFinal(err) || time.Since(began) > settleTime/2 {
				t.Errorf("no response: %v after %s", err, time.Since(began))
			}
			<-time.After(settleTime / 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if n, err := d.await(ctx, web); err == nil {
				t.Errorf("%d clients, as no node can report", n)
			}
			cancel()
		}
	})
}
