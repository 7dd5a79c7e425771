package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"kube-vmap/model"
	kubevmap "kube-vmap/sync"
	"kube-vmap/sync/follow/demand"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/listen"
)

const maxTestStrangers = 8

const reporter = "system:serviceaccount:kube-system:kube-vmap"

// An apiServer signs tokens.
type apiServer struct{ key *ecdsa.PrivateKey }

func newAPIServer(t *testing.T) *apiServer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &apiServer{key}
}

// keys are what it publishes.
func (a *apiServer) keys() *jose.JSONWebKeySet {
	return &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: a.key.Public(), KeyID: "one"}}}
}

// token signs a token.
func (a *apiServer) token(user, pod, audience string, lifetime time.Duration) string {
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: a.key, KeyID: "one"},
	}, nil)
	if err != nil {
		panic(err)
	}
	c := claims{Claims: jwt.Claims{
		Subject: user, Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(lifetime)), ID: rand.Text(),
	}}
	c.Kubernetes.Pod.Name = pod
	text, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

// node is the token of a node.
func (a *apiServer) node(name string) string {
	return a.token(reporter, name, demand.Audience, time.Hour)
}

// A receiver is a server for reports.
type receiver struct {
	*testing.T
	*reports
	api    *apiServer
	client http.Client
	open   *countedListener
	addr   string
	ca     []byte // its certificate
	stop   func() // ends it, and waits until it has
}

func newReceiver(t *testing.T, f model.Family) *receiver {
	d, api := newDemands(), newAPIServer(t)
	certificate, key, err := cert.GenerateSelfSignedCertKey(demand.ServerName, nil, nil)
	must(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	must(t, err)
	if old := age(pair); old < 0 || old > time.Hour {
		t.Errorf("a new certificate is %s old", old)
	}
	l, err := net.Listen("tcp", [...]string{model.IPv4: "127.0.0.1:0", model.IPv6: "[::1]:0"}[f])
	must(t, err)
	r := newReports(d, reporter, slog.New(slog.DiscardHandler))
	r.limit = listen.NewConnLimit(maxTestStrangers)
	r.keys.Store(api.keys())
	open := &countedListener{Listener: l}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.serve(ctx, open, pair) }()
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
	return &receiver{t, r, api, client, open, l.Addr().String(), certificate, stop}
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

// TestTokens has requests of strangers with the address of a node, and then of that node. Only a token that
// the API server has signed for a node makes demand unknown, if it has expired.
func TestTokens(t *testing.T) {
	for _, f := range model.Families {
		r := newReceiver(t, f)
		forged, signed := strings.Split(newAPIServer(t).node("one"), "."), strings.Split(r.api.node("one"), ".")
		for _, test := range []struct {
			token, body, text string
			status            int
		}{
			{"", line, "no token", http.StatusUnauthorized},
			{"invalid", line, "invalid token", http.StatusUnauthorized},
			{strings.Join(forged, "."), line, "invalid token", http.StatusUnauthorized},
			{signed[0] + "." + forged[1] + "." + signed[2], line, "invalid token", http.StatusUnauthorized},
			{signed[0] + "." + signed[1] + ".", line, "invalid token", http.StatusUnauthorized},
			{r.api.token(reporter, "one", "https://kubernetes.default.svc", time.Hour), line, "another audience", http.StatusUnauthorized},
			{r.api.token("system:serviceaccount:shop:web", "one", demand.Audience, time.Hour), line, "may not report", http.StatusForbidden},
			{r.api.token(reporter, "", demand.Audience, time.Hour), line, "not bound to a Pod", http.StatusForbidden},
			{r.api.node("one"), "{", "report: ", http.StatusOK},
			{r.api.node("one"), strings.Repeat(" ", demand.MaxLine+1), "too long", http.StatusOK},
			{r.api.node("one"), line, "", http.StatusOK},
			{r.api.token(reporter, "one", demand.Audience, -time.Second), line, "expired", http.StatusUnauthorized},
		} {
			if !r.demands.settled.IsZero() {
				t.Errorf("%s: %q: demand is unknown before", f, test.token)
			}
			status, text := r.send(test.token, strings.NewReader(test.body))
			if status != test.status || !strings.Contains(text, test.text) {
				t.Errorf("%s: %q: %d %s, want %d %s", f, test.token, status, text, test.status, test.text)
			}
		}
		if r.demands.settled.IsZero() || r.demands.total[web] != 3 {
			t.Errorf("%s: settled %s, demand %v", f, r.demands.settled, r.demands.total)
		}
	}
}

// TestKeysOfTheAPIServer has an API server that publishes its keys, or not.
func TestKeysOfTheAPIServer(t *testing.T) {
	api, d := newAPIServer(t), newDemands()
	r := newReports(d, reporter, slog.New(slog.DiscardHandler))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, demand.Path, http.NoBody)
	req.Header.Set("Authorization", "Bearer "+api.node("one"))
	for _, step := range []struct {
		status   int
		text     any
		accepted bool
	}{
		{http.StatusNotFound, api.keys(), false},
		{http.StatusOK, "no keys", false},
		{http.StatusOK, api.keys(), true},
		{http.StatusInternalServerError, "", true}, // it keeps what it has
		{http.StatusOK, newAPIServer(t).keys(), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(step.status)
			must(t, json.NewEncoder(w).Encode(step.text))
		}))
		client, err := corev1.NewForConfig(&rest.Config{Host: server.URL})
		must(t, err)
		readErr := r.readKeys(t.Context(), client.RESTClient())
		node, _, err := r.authenticate(req)
		if (node == "one") != step.accepted || (err == nil) != step.accepted {
			t.Errorf("%d %v: node %q, %v, keys: %v", step.status, step.text, node, err, readErr)
		}
		server.Close()
	}
}

// begin begins the request of a node. write waits until the demand of a line is known.
func (r *receiver) begin() (write func(), ended <-chan string) {
	body, node := io.Pipe()
	responses := make(chan string, 1)
	go func() {
		_, text := r.send(r.api.node("one"), body)
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

// A slowNode sends the body of a request, with a deadline, as a connection has it.
type slowNode struct {
	http.ResponseWriter
	pipe *io.PipeWriter

	mu       sync.Mutex // guards what follows
	deadline *time.Timer
}

// SetReadDeadline implements the method of [http.ResponseController].
func (n *slowNode) SetReadDeadline(at time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deadline.Stop()
	n.deadline = time.AfterFunc(time.Until(at), func() { _ = n.pipe.CloseWithError(os.ErrDeadlineExceeded) })
	return nil
}

// TestSlowRequestsEnd has nodes that send a byte of a line every second, or only empty reports.
func TestSlowRequestsEnd(t *testing.T) {
	for _, test := range []struct {
		text   string
		expiry time.Duration
		want   time.Duration
		err    error
	}{
		{" ", time.Hour, lineTimeout, os.ErrDeadlineExceeded},
		{"{}\n", time.Hour, time.Hour, nil},
		{" ", time.Minute, time.Minute, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReports(newDemands(), reporter, slog.New(slog.DiscardHandler))
			body, pipe := io.Pipe()
			node := &slowNode{ResponseWriter: httptest.NewRecorder(), pipe: pipe, deadline: time.NewTimer(time.Hour)}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, demand.Path, body)
			var sends sync.WaitGroup
			sends.Go(func() {
				for err := error(nil); err == nil; _, err = io.WriteString(pipe, test.text) {
					<-time.After(time.Second)
				}
			})
			defer sends.Wait()
			began := time.Now()
			err := r.read(req, http.NewResponseController(node), "one", began.Add(test.expiry))
			if took := time.Since(began); took != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q: %v after %s, want %v after %s", test.text, err, took, test.err, test.want)
			}
		})
	}
}

// TestRequestEndsBeforeTheProgram has a node that would otherwise log that its connection was reset.
func TestRequestEndsBeforeTheProgram(t *testing.T) {
	r := newReceiver(t, model.IPv4)
	write, ended := r.begin()
	write()
	if r.stop(); r.demands.open > 0 {
		t.Errorf("%d requests go on", r.demands.open)
	}
	if text := <-ended; text != "" {
		t.Errorf("response %q", text)
	}
}

// TestNextRequestEndsTheLast has a node with two requests.
func TestNextRequestEndsTheLast(t *testing.T) {
	r := newReceiver(t, model.IPv6)
	write, ended := r.begin()
	write()
	write, last := r.begin()
	if text := <-ended; text != "" {
		t.Errorf("response %q", text)
	}
	write()
	r.stop()
	<-last
}

// TestRotation has a node that reports, whose token the kubelet replaces too late, and then another
// receiver, whose certificate it has not mounted yet. Demand is never none.
func TestRotation(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			r, next := newReceiver(t, f), newReceiver(t, f)
			next.keys.Store(r.api.keys())
			next.demands.unsettle(mountTime) // as by the publisher
			dir, changed := t.TempDir(), make(chan struct{})
			node := demand.New(demand.Config{
				Demand:  func() map[model.ServiceName]hold.Demand { return map[model.ServiceName]hold.Demand{web: {Clients: 3}} },
				Changed: changed, Dir: dir, Log: slog.New(slog.DiscardHandler),
			})
			mount := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
			reportTo := func(r *receiver) {
				at := netip.MustParseAddrPort(r.addr)
				node.Follow(kubevmap.Committed{Full: true, Set: []model.Frontend{{
					Match: model.Match{Family: f, Protocol: model.TCP, Addr: at.Addr(), Port: at.Port()},
					Service: model.ServicePortName{
						ServiceName: model.ServiceName{Namespace: "system", Name: "scaler"}, Port: demand.PortName, Protocol: model.TCP,
					},
				}}})
			}
			clients := func(r *receiver) (int, error) { // now
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				return r.demands.await(ctx, web, false)
			}
			until := func(failure string) {
				for _, err := node.Failure(); !strings.Contains(fmt.Sprint(err), failure); _, err = node.Failure() {
					changed <- struct{}{}
					last, _ := clients(r)
					if now, err := clients(next); last != 3 || now != 3 && err == nil {
						t.Fatalf("%d clients, then %d, before %q", last, now, failure)
					}
				}
			}
			mount(demand.CAFile, string(r.ca))
			mount(demand.ServiceFile, "system/scaler")
			mount(demand.TokenFile, r.api.node("one"))
			reportTo(r)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- node.Run(ctx) }()
			changed <- struct{}{}
			_, err := r.demands.await(t.Context(), web, false)
			must(t, err)
			mount(demand.TokenFile, r.api.token(reporter, "one", demand.Audience, -time.Second))
			r.demands.begin("one", func() {}).end() // the request ends, as when its token expires
			until("expired")
			mount(demand.TokenFile, r.api.node("one"))
			until("<nil>")
			reportTo(next)
			r.stop()
			until("certificate signed by unknown authority")
			mount(demand.CAFile, string(next.ca))
			until("<nil>")
			if n, err := next.demands.await(t.Context(), web, false); n != 3 {
				t.Errorf("%d clients, %v", n, err)
			}
			stop()
			must(t, <-ended)
		})
	}
}

// A countedListener counts open connections.
type countedListener struct {
	net.Listener
	open, most atomic.Int32
}

// Accept implements [net.Listener].
func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.most.Store(max(l.most.Load(), l.open.Add(1)))
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, err
}

type countedConn struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestStrangersCloseTheirConnections has strangers with more connections than the limit, and a node whose
// connection is older.
func TestStrangersCloseTheirConnections(t *testing.T) {
	for _, f := range model.Families {
		r := newReceiver(t, f)
		write, ended := r.begin()
		write()
		for range 10 * maxTestStrangers {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
			must(t, err)
			defer c.Close()
		}
		if status, text := r.send(r.api.node("two"), http.NoBody); status != http.StatusOK {
			t.Errorf("%s: another node: %d %s", f, status, text)
		}
		write()
		if most := r.open.most.Load(); most > maxTestStrangers+3 { // both nodes, and the one before the oldest is closed
			t.Errorf("%s: %d open connections", f, most)
		}
		r.stop()
		<-ended
	}
}

// TestNoIdleConnection has a client without a token that keeps its connection open.
func TestNoIdleConnection(t *testing.T) {
	r := newReceiver(t, model.IPv6)
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
