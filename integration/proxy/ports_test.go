package proxy

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// everyone are the kinds of clients: a pod, the node, and somebody outside.
func everyone(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[2].Host, l.Node.Host, l.Outside} }

func TestEveryPortOfAServiceHasItsOwnEndpoints(t *testing.T) {
	l := newLab(t)
	for _, pod := range l.Pods[:2] {
		if err := pod.ServeAll(targetPort + 1); err != nil {
			t.Fatal(err)
		}
	}
	s := service{name: "ports", address: 1, ports: []servicePort{
		{"http", model.TCP, 80, targetPort, "pod-1"},
		{"admin", model.TCP, 81, targetPort + 1, "pod-2"},
		{"same", model.TCP, 8080, targetPort, "pod-2"}, // no translation of the port
		{"dns-tcp", model.TCP, 53, targetPort + 1, "pod-1"},
		{"dns", model.UDP, 53, targetPort, "pod-2"},
		{"dns-sctp", model.SCTP, 53, targetPort, "remote-1"},
	}}
	f := newFolder(t, l)
	f.put("services.yaml", s)
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	for _, family := range model.Families {
		for _, p := range s.ports {
			w := way{p.protocol, family}
			to := at(family, s.address, uint16(p.port))
			for _, from := range everyone(l) {
				answers(t, from, w, to, []string{p.endpoints}, nil)
			}
		}
	}
}

func TestWhatNoServiceOffersIsNotReached(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("services.yaml",
		service{name: "web", address: 1, endpoints: "pod-1"},
		service{name: "none", address: 2, endpoints: ""},
		service{name: "dns", address: 3, endpoints: "pod-1", ports: []servicePort{
			{name: "dns", protocol: model.UDP, port: 53, target: targetPort},
		}},
		service{name: "web-2", address: 4, endpoints: "pod-2", ports: []servicePort{
			{name: "http", protocol: model.TCP, port: port + 2, target: targetPort},
		}})
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	eachWay(t, func(t *testing.T, w way) {
		for _, from := range everyone(l) {
			refused(t, from, w, at(w.family, 1, port+1)) // nobody's port
			refused(t, from, w, at(w.family, 1, port+2)) // another Service's port
			refused(t, from, w, at(w.family, 1, targetPort))
			if w.protocol != model.UDP {
				refused(t, from, w, at(w.family, 3, 53)) // the port of another protocol
			}
		}
		silent(t, everyone(l), w, at(w.family, 5, port)) // nobody's address
	})
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			for _, address := range []int{1, 2} {
				if err := pingUnreachable(from, clusterIP(family, address), answer); err != nil {
					t.Errorf("ping of %s from %s: %v", clusterIP(family, address), from, err)
				}
			}
			if err := pingUnreachable(from, clusterIP(family, 5), silence); !errors.Is(err, errNoAnswer) {
				t.Errorf("ping of %s from %s: %v, want silence", clusterIP(family, 5), from, err)
			}
		}
	}
}

// TestUnallocatedAddressesAreDroppedForNewConnections puts somebody behind such
// an address, who could answer, and who is already talking to a pod.
func TestUnallocatedAddressesAreDroppedForNewConnections(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	f.write("cluster.yaml", text(t, cluster()...))
	// Without a rule that asks for it, the kernel does not track connections.
	runNFT(t, l.Node.Host, "table inet other { chain forward { type filter hook forward priority 0; ct state new accept; }; }")
	var talks []net.Conn
	for _, family := range model.Families {
		if err := l.Outside.AddAddress(clusterIP(family, 5)); err != nil {
			t.Fatal(err)
		}
		if err := tell(t, l.Outside, at(family, 5, port)); err != nil {
			t.Fatal(err)
		}
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
			c := talk(t, from, at(family, 5, port))
			if err := exchange(c, answer); err != nil {
				t.Fatalf("%s, without the proxy: %v", from, err)
			}
			talks = append(talks, c)
		}
	}
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	for _, c := range talks {
		if err := exchange(c, answer); err != nil {
			t.Errorf("talk to %s goes on: %v", c.RemoteAddr(), err)
		}
	}
	for _, family := range model.Families {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
			err := exchange(talk(t, from, at(family, 5, port)), silence)
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.EPERM) {
				t.Errorf("new talk from %s to %s: %v, want silence", from, clusterIP(family, 5), err)
			}
		}
	}
}

// talk makes a UDP socket that knows whom to talk to.
func talk(t *testing.T, from *lab.Host, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := from.DialContext(t.Context(), "udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange sends a datagram and waits for one.
func exchange(c net.Conn, timeout time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 64))
	return err
}

// TestOrdinaryTCPClientsAreRefusedAtOnce asks with nothing but connect. The lab's
// own clients also look where the kernel keeps an ICMP error that comes too soon
// for connect, which would see it only after a second.
func TestOrdinaryTCPClientsAreRefusedAtOnce(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	s := service{name: "none", address: 1}
	f.put("services.yaml", s)
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			for range 10 {
				began := time.Now()
				_, err := from.DialContext(t.Context(), "tcp", s.at(family).String())
				if took := time.Since(began); !errors.Is(err, syscall.ECONNREFUSED) || took > time.Second/2 {
					t.Fatalf("%s from %s: %v after %s", family, from, err, took)
				}
			}
		}
	}
}

// TestUDPFromTheNodeIsRefusedBySend holds what is different for a process on the
// node: its own system call is told, not only the socket.
func TestUDPFromTheNodeIsRefusedBySend(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	s := service{name: "none", address: 1}
	f.put("services.yaml", s)
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	for _, family := range model.Families {
		c := talk(t, l.Node.Host, s.at(family))
		if _, err := c.Write([]byte("anybody?")); !errors.Is(err, syscall.EPERM) {
			t.Errorf("%s: send: %v, want %v", family, err, syscall.EPERM)
		}
		if err := c.SetDeadline(time.Now().Add(answer)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: receive: %v, want %v", family, err, syscall.ECONNREFUSED)
		}
	}
}
