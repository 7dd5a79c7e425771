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
}

// Create implements [reviewer].
func (a *apiServer) Create(
	_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviews++
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

// newReceiver starts a server for reports, and returns a function that sends a request to it.
func newReceiver(t *testing.T, period time.Duration) (d *demands, api *apiServer, send func(token string, body io.Reader) (int, string)) {
	d, api = newDemands(), &apiServer{}
	certificate, key, err := cert.GenerateSelfSignedCertKey(demand.ServerName, nil, nil)
	must(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := newReports(d, api, reporter, slog.New(slog.DiscardHandler))
	r.period = period
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.serve(ctx, l, pair) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: demand.ServerName}, DisableKeepAlives: true,
	}}
	return d, api, func(token string, body io.Reader) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l.Addr().String()+demand.Path, body)
		must(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
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
	d, api, send := newReceiver(t, time.Hour)
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
		api.set(test.api, false)
		status, text := send(test.token, strings.NewReader(test.body))
		if status != test.status || !strings.Contains(text, test.text) {
			t.Errorf("token %q: %d %s, want %d %s", test.token, status, text, test.status, test.text)
		}
	}
	if len(d.total) > 0 || d.settled.IsZero() {
		t.Errorf("demand %v, settled %s", d.total, d.settled)
	}
}

// TestAddressIsLimited has an address that sends many tokens: the API server must not see them all.
func TestAddressIsLimited(t *testing.T) {
	_, api, send := newReceiver(t, time.Hour)
	counts := map[int]int{}
	for i := range 100 {
		status, _ := send(fmt.Sprint(i), http.NoBody)
		counts[status]++
	}
	if counts[http.StatusTooManyRequests] == 0 || counts[http.StatusUnauthorized] != api.reviews {
		t.Errorf("responses %v, %d reviews", counts, api.reviews)
	}
}

// TestTokenIsReviewedAgain has a request that goes on.
func TestTokenIsReviewedAgain(t *testing.T) {
	d, api, send := newReceiver(t, 0)
	body, node := io.Pipe()
	ended := make(chan int)
	go func() {
		status, _ := send(reporter+"/one", body)
		ended <- status
	}()
	signals, stop := d.watch(web)
	defer stop()
	write := func() {
		_, err := node.Write([]byte(line))
		must(t, err)
		<-signals
	}
	write()
	api.set(errors.New("away"), false) // that says nothing about the token
	write()
	write()
	api.set(nil, true)
	write()
	if status := <-ended; status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if api.reviews != 5 { // the first one, and one after each line
		t.Errorf("%d reviews", api.reviews)
	}
}
