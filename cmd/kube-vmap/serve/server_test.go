package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync/follow/listen/listentest"
)

// hosts are loopback addresses of both families.
var hosts = []string{"127.0.0.1", "::1"}

func logged() (*slog.Logger, *listentest.LogBuffer) {
	j := &listentest.LogBuffer{}
	return j.Log(), j
}

// run runs a server until the test's end, or until the returned function is called, which
// returns the result of Run.
func run(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-done
	}
}

// bound waits until the server listens and returns its address.
func bound(t *testing.T, s *Server) (stop func() error, addr string) {
	t.Helper()
	listen, bound := s.listen, make(chan string, 1)
	s.listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := listen(ctx, network, address)
		if err == nil {
			bound <- l.Addr().String()
		}
		return l, err
	}
	stop = run(t, s)
	select {
	case addr = <-bound:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not listen", s)
	}
	return stop, addr
}

func here(t *testing.T, host string) (stop func() error, addr string, text *listentest.LogBuffer) {
	t.Helper()
	log, text := logged()
	s := New(Config{Name: "test", Address: net.JoinHostPort(host, "0"), Handler: content("text/plain", "here"), Log: log})
	stop, addr = bound(t, s)
	return stop, addr, text
}

// get requests the root and returns the body.
func get(t *testing.T, addr string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
	must(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func TestServerServesUntilItsContextEnds(t *testing.T) {
	for host, own := range map[string][]string{"127.0.0.1": hosts[:1], "::1": hosts[1:], "0.0.0.0": hosts, "::": hosts, "": hosts} {
		t.Run(host, func(t *testing.T) {
			stop, addr, _ := here(t, host)
			_, port, err := net.SplitHostPort(addr)
			must(t, err)
			for _, h := range own {
				if body, err := get(t, net.JoinHostPort(h, port)); err != nil || body != "here" {
					t.Errorf("on %s it answers %q, %v", h, body, err)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if body, err := get(t, net.JoinHostPort(own[0], port)); err == nil && body == "here" { // another process may have the port
				t.Error("it answers after its end")
			}
		})
	}
}

func TestHardFailServerReturnsTheFirstError(t *testing.T) {
	for _, host := range hosts {
		taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
		must(t, err)
		defer taken.Close()
		log, text := logged()
		s := New(Config{Name: "metrics", Address: taken.Addr().String(), HardFail: true, Log: log})
		err = s.Run(t.Context())
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "metrics server on "+taken.Addr().String()+": ") {
			t.Errorf("it ended with %v", err)
		}
		if text.String() != "" {
			t.Errorf("it logged what it returned: %s", text)
		}
	}
}

// network is a fake network and its only listener, with errors of the test's choice.
type network struct {
	broken chan error // result of Accept

	mu    stdsync.Mutex // for the race detector
	fails error         // of Listen
	tries int
}

func (n *network) listen(context.Context, string, string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tries++
	return n, n.fails
}

// Accept blocks.
func (n *network) Accept() (net.Conn, error) { return nil, <-n.broken }

// Close does nothing.
func (n *network) Close() error { return nil }

// Addr returns an empty address.
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// become changes the error of Listen.
func (n *network) become(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = err
}

// tried returns the number of calls of Listen.
func (n *network) tried() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tries
}

func TestServerRetriesUntilItCanListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, text := logged()
		s := New(Config{Name: "health", Address: "192.0.2.1:10256", Log: log})
		n := &network{broken: make(chan error), fails: syscall.EADDRNOTAVAIL}
		s.listen = n.listen
		stop := run(t, s)
		expect := func(when string, tries, errs int, ready bool) {
			t.Helper()
			synctest.Wait()
			if e := strings.Count(text.String(), "level=ERROR"); n.tried() != tries || e != errs {
				t.Errorf("%s, it tried %d times and logged %d errors, want %d and %d:\n%s", when, n.tried(), e, tries, errs, text)
			}
			if serves := strings.Contains(text.String(), "msg=serving"); serves != ready {
				t.Errorf("%s, it serves: %t", when, serves)
			}
		}
		expect("at the start", 1, 1, false)
		<-time.After(5*time.Second - 1)
		expect("too soon", 1, 1, false)
		<-time.After(time.Minute + 1)
		expect("after a minute", 14, 1, false)
		n.become(syscall.EADDRINUSE)
		<-time.After(10 * time.Second)
		expect("with another error", 16, 2, false)
		n.become(nil)
		<-time.After(5 * time.Second)
		expect("when it can", 17, 2, true)
		n.broken <- errors.New("accept: no more files")
		expect("when it cannot accept", 17, 3, true)
		<-time.After(5 * time.Second)
		expect("when it can again", 18, 3, true)
		n.become(syscall.EADDRINUSE)
		n.broken <- errors.New("accept: no more files")
		<-time.After(5 * time.Second)
		expect("with errors of before", 19, 5, true)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestServerWithoutAddressServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, text := logged()
		s := New(Config{Name: "metrics", HardFail: true, Log: log})
		s.listen = func(context.Context, string, string) (net.Listener, error) {
			t.Error("it listens")
			return nil, io.EOF
		}
		stop := run(t, s)
		<-time.After(time.Hour)
		if err := stop(); err != nil || text.String() != "" {
			t.Errorf("it ended with %v and logged %q", err, text)
		}
	})
}

func TestShutdownWaitsBrieflyForRequests(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"a short one": 10 * time.Millisecond, "a long one": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, _ := logged()
			begun := make(chan struct{})
			s := New(Config{Name: "test", Address: "127.0.0.1:0", Log: log, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				select {
				case <-r.Context().Done():
				case <-time.After(lasts):
					_, _ = io.WriteString(w, "done")
				}
			})})
			stop, addr := bound(t, s)
			type answer struct {
				body string
				err  error
			}
			answers := make(chan answer, 1)
			go func() {
				body, err := get(t, addr)
				answers <- answer{body, err}
			}()
			<-begun
			if err := stop(); err != nil { // before an hour
				t.Error(err)
			}
			if a := <-answers; (lasts < shutdownTimeout) != (a.body == "done" && a.err == nil) {
				t.Errorf("the request ended with %q, %v", a.body, a.err)
			}
		})
	}
}

func TestHeaderSizeIsLimited(t *testing.T) {
	_, addr, _ := here(t, hosts[0])
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<15)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "431") {
		t.Errorf("it answers %q, %v", line, err)
	}
}

func TestFloodOfConnectionsDoesNotBlockProbes(t *testing.T) {
	for _, host := range hosts {
		_, addr, _ := here(t, host)
		var first net.Conn
		for i := range maxConnections + 1 {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			must(t, err)
			defer c.Close()
			if i == 0 {
				first = c
			}
		}
		if body, err := get(t, addr); err != nil || body != "here" {
			t.Errorf("among %d silent clients, it answers %q, %v", maxConnections+1, body, err)
		}
		if _, err := io.Copy(io.Discard, first); err != nil {
			t.Errorf("the first of them went with %v", err)
		}
	}
}

func TestRequestsAreNotLogged(t *testing.T) {
	_, addr, text := here(t, hosts[0])
	_, err := get(t, addr) // it listens before it logs that
	must(t, err)
	before := text.String()
	for _, question := range []string{
		"GET /?a;b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /\x1b[2J HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		must(t, err)
		_, _ = io.WriteString(conn, question)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // with any result
		conn.Close()
	}
	if after := text.String(); after != before {
		t.Errorf("it logs\n%s", strings.TrimPrefix(after, before))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
