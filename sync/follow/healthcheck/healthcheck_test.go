package healthcheck

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen"
	"kube-vmap/sync/follow/listen/listentest"
)

// allAddresses and listedAddresses are values of Config.AllAddresses.
var allAddresses, listedAddresses = [...]bool{true, true}, [...]bool{false, false}

// loopback are the node's addresses, sorted.
var loopback = listentest.Loopback[:]

// A rig has a node's Servers.
type rig struct {
	*Servers
	unhealthy atomic.Bool // the proxy
	recorder  listentest.Recorder
	log       listentest.LogBuffer
}

func newRig(all [len(model.Families)]bool) *rig {
	r := &rig{}
	r.Servers = New(Config{
		AllAddresses: all, Healthy: func() bool { return !r.unhealthy.Load() }, Recorder: &r.recorder, Log: r.log.Log(),
	})
	return r
}

func (r *rig) run(t *testing.T) (stop func()) { return listentest.Run(t, r.Run) }

// service returns a Service name.
func service(name string) model.ServiceName { return model.ServiceName{Namespace: "shop", Name: name} }

// check returns a Service's health check, with local endpoints by family.
func check(name string, port uint16, local ...int) model.HealthCheck {
	h := model.HealthCheck{Service: service(name), Port: port}
	copy(h.Local[:], local)
	return h
}

// A reply is a response that was read.
type reply struct {
	code   int
	header http.Header
	body   string
}

// ask sends a request over its own connection.
func ask(t *testing.T, method string, addr netip.AddrPort, path string) (reply, error) {
	t.Helper()
	c, err := (&net.Dialer{Timeout: listentest.Timeout}).DialContext(t.Context(), "tcp", addr.String())
	if err != nil {
		return reply{}, err
	}
	defer c.Close()
	return askOn(c, method, path)
}

// askOn sends a request over a connection.
func askOn(c net.Conn, method, path string) (reply, error) {
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n", method, path); err != nil {
		return reply{}, err
	}
	a, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return reply{a.StatusCode, a.Header, string(body)}, err
}

// answers waits until an address responds with a status, and part of a body.
func answers(t *testing.T, addr netip.AddrPort, code int, part string) {
	t.Helper()
	listentest.Eventually(t, fmt.Sprintf("%s responds %d with %q", addr, code, part), func() bool {
		a, err := ask(t, http.MethodGet, addr, "/")
		return err == nil && a.code == code && strings.Contains(a.body, part)
	})
}

func TestHealthCheckResponsesAreThoseOfKubeProxy(t *testing.T) {
	const body = "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n" +
		"\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %t\n}"
	r, port := newRig(listedAddresses), listentest.FreePort(t)
	stop := r.run(t)
	for _, f := range model.Families {
		addr := netip.AddrPortFrom(loopback[f], port)
		for _, test := range []struct {
			local     int
			unhealthy bool
			code      int
		}{
			{local: 2, code: 200},
			{local: 1, code: 200},
			{local: 0, code: 503},
			{local: 2, unhealthy: true, code: 503},
			{local: 0, unhealthy: true, code: 503},
		} {
			r.unhealthy.Store(test.unhealthy)
			h := check("web", port)
			h.Local[f], h.Local[1-f] = test.local, 7
			r.Follow(sync.Committed{HealthChecks: []model.HealthCheck{h}, NodeAddrs: loopback})
			answers(t, addr, test.code, "")
			for method, path := range map[string]string{
				http.MethodGet: "/", http.MethodHead: "/healthz", http.MethodPost: "//x/../y?z", http.MethodDelete: "/a%20b/",
			} {
				a, err := ask(t, method, addr, path)
				want := fmt.Sprintf(body, test.local, !test.unhealthy)
				length := fmt.Sprint(len(want))
				if method == http.MethodHead {
					want = ""
				}
				if err != nil || a.code != test.code || a.body != want {
					t.Errorf("%s %s at %s: %v, %d\n%s\nwant %d\n%s", method, path, addr, err, a.code, a.body, test.code, want)
				}
				a.header.Del("Date")
				a.header.Del("Connection")
				header := http.Header{
					"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"},
					"X-Load-Balancing-Endpoint-Weight": {fmt.Sprint(test.local)}, "Content-Length": {length},
				}
				if got, want := fmt.Sprint(a.header), fmt.Sprint(header); got != want {
					t.Errorf("%s %s at %s has headers %s, want %s", method, path, addr, got, want)
				}
			}
		}
	}
	stop()
	if w := r.recorder.Warnings(); len(w) > 0 {
		t.Errorf("events: %v", w)
	}
}

func TestHealthCheckListensOnNodePortAddresses(t *testing.T) {
	r, port := newRig(listedAddresses), listentest.FreePort(t)
	r.run(t)
	a, b, c := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"), netip.IPv6Loopback()
	link := netip.MustParseAddr("fe80::1")
	all := []netip.Addr{a, b, c}
	for i, addrs := range [][]netip.Addr{{a}, {a, b}, {a, b, c}, {b, c, link}, {c}, nil, {a, b, c}} {
		now := sync.Committed{NodeAddrs: addrs}
		if i == 0 {
			now.HealthChecks = []model.HealthCheck{check("web", port, 1, 1)}
		}
		r.Follow(now)
		for _, each := range all {
			where := netip.AddrPortFrom(each, port)
			if strings.Contains(fmt.Sprint(addrs), each.String()) {
				answers(t, where, 200, "web")
			} else {
				listentest.WaitClosed(t, where)
			}
		}
	}
	if w := r.recorder.Warnings(); len(w) > 0 {
		t.Errorf("events: %v", w)
	}
}

func TestFamiliesListenIndependently(t *testing.T) {
	for _, f := range model.Families {
		var all [len(model.Families)]bool
		all[f] = true
		want := slices.Clone(loopback)
		want[f] = [...]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[f]
		if got := newRig(all).listenAddrs(loopback); !slices.Equal(got, want) {
			t.Errorf("all addresses of %s: listens on %v, want %v", f, got, want)
		}
	}
}

func TestPortIsOpenWhileTheServiceHasIt(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(allAddresses)
			r.run(t)
			ports := listentest.FreePorts(t, 3)
			old, other, fresh := ports[0], ports[1], ports[2]
			at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(loopback[f], port) }
			follow := func(checks ...model.HealthCheck) { r.Follow(sync.Committed{HealthChecks: checks, NodeAddrs: loopback}) }

			follow(check("web", old, 1, 1), check("mail", other))
			answers(t, at(old), 200, `"name": "web"`)
			answers(t, at(other), 503, `"name": "mail"`)
			follow(check("web", fresh, 1, 1))
			answers(t, at(fresh), 200, `"name": "web"`)
			listentest.WaitClosed(t, at(old))
			follow(check("web", 0), check("mail", fresh, 3, 3)) // moves
			answers(t, at(fresh), 200, `"name": "mail"`)
			listentest.WaitClosed(t, at(other))
			follow(check("mail", 0))
			listentest.WaitClosed(t, at(fresh))
			if w := r.recorder.Warnings(); len(w) > 0 {
				t.Errorf("events: %v", w)
			}
		})
	}
}

func TestSnapshotClosesOtherPorts(t *testing.T) {
	r, ports := newRig(allAddresses), listentest.FreePorts(t, 2)
	removed, kept := ports[0], ports[1]
	stop := r.run(t)
	r.Follow(sync.Committed{HealthChecks: []model.HealthCheck{check("removed", removed, 1, 1), check("kept", kept, 1, 1)}})
	var connections [len(model.Families)]map[uint16]net.Conn
	for _, f := range model.Families {
		connections[f] = map[uint16]net.Conn{}
		for _, port := range ports {
			c := listentest.Dial(t, netip.AddrPortFrom(loopback[f], port))
			if a, err := askOn(c, http.MethodGet, "/"); err != nil || a.code != 200 {
				t.Errorf("%s: %d, %v", f, a.code, err)
			}
			connections[f][port] = c
		}
	}
	r.Follow(sync.Committed{Full: true, HealthChecks: []model.HealthCheck{check("kept", kept)}})
	for _, f := range model.Families {
		listentest.WaitClosed(t, netip.AddrPortFrom(loopback[f], removed))
		if _, err := connections[f][removed].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection ended with %v", f, err)
		}
		if a, err := askOn(connections[f][kept], http.MethodGet, "/"); err != nil || a.code != 503 { // it stays open
			t.Errorf("%s: %d, %v", f, a.code, err)
		}
	}
	stop()
	for _, f := range model.Families {
		listentest.WaitClosed(t, netip.AddrPortFrom(loopback[f], kept))
	}
}

// pipes is a listener for connections within a bubble of synctest.
type pipes struct {
	net.Listener
	in chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p.in
	if !open {
		return nil, syscall.EINVAL
	}
	return c, nil
}

func (pipes) Close() error { return nil }

func TestSlowClientIsDisconnected(t *testing.T) {
	for sent, reads := range map[string]bool{
		"": true, "GET / HT": true, "GET / HTTP/1.1\r\nHost: node\r\n": true, "GET / HTTP/1.1\r\nHost: node\r\n\r\n": false,
		"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 9\r\n\r\n": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			r, l := newRig(allAddresses), pipes{in: make(chan net.Conn)}
			done := make(chan error, 1)
			go func() {
				done <- r.serve(listen.Socket{Service: service("web"), Addr: netip.AddrPortFrom(loopback[0], 1)}, l)
			}()
			start := time.Now()
			client, server := net.Pipe()
			l.in <- server
			if _, err := io.WriteString(client, sent); err != nil {
				t.Fatal(err)
			}
			if !reads {
				<-time.After(11 * time.Second)
			}
			if n, err := io.Copy(io.Discard, client); err != nil || !reads && n > 0 {
				t.Errorf("after %q: %d bytes, %v", sent, n, err)
			}
			if took := time.Since(start); reads && took > 5*time.Second {
				t.Errorf("after %q it took %v", sent, took)
			}
			close(l.in)
			if err := <-done; err == nil {
				t.Error("serve returned no error")
			}
		})
	}
}

// TestConnectionFloodKeepsOutNoClient has a client that may stay for a minute after its request,
// and very many that send none.
func TestConnectionFloodKeepsOutNoClient(t *testing.T) {
	r, ports := newRig(listedAddresses), listentest.FreePorts(t, 2)
	r.run(t)
	r.Follow(sync.Committed{NodeAddrs: loopback, HealthChecks: []model.HealthCheck{
		check("api", ports[0], 1, 1), check("web", ports[1], 1, 1),
	}})
	for _, f := range model.Families {
		flooded := netip.AddrPortFrom(loopback[f], ports[0])
		answers(t, flooded, 200, "api")
		first := listentest.Dial(t, flooded)
		if a, err := askOn(first, http.MethodGet, "/"); err != nil || a.code != 200 {
			t.Errorf("%s: %d, %v", f, a.code, err)
		}
		for range maxConnections {
			listentest.Dial(t, flooded)
		}
		for _, port := range ports {
			answers(t, netip.AddrPortFrom(loopback[f], port), 200, "local")
		}
		err := first.SetDeadline(time.Now().Add(listentest.Timeout))
		if _, failed := io.Copy(io.Discard, first); errors.Join(err, failed) != nil {
			t.Errorf("%v: first of %d clients still connected, or: %v, %v", f, maxConnections+1, err, failed)
		}
	}
}
