package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The lab has few pods, so each of them is many endpoints: one at every port from
// firstPort on. Together they are more than there are slots.
const (
	manyPorts = 100
	firstPort = 20000
)

// TestMoreEndpointsThanSlotsAreAllUsed also takes the Service below the limit
// and above it again, so that it changes from one kind of map to the other.
func TestMoreEndpointsThanSlotsAreAllUsed(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	for _, h := range servers(l) {
		serveMany(t, h)
	}
	w := watch(t, l.Node.Host)
	many := daemon.Service{
		Name: "many", Number: 1, EndpointSpec: "pod-1 pod-2 remote-1",
		ServicePorts: daemon.EveryProtocol("", daemon.Port, firstPort, 0),
	}
	for i, ports := range []int{manyPorts, 10, manyPorts} {
		many.Times = ports
		f.Put("services", many)
		if i == 0 {
			start(t, l.Node, f, daemon.PodRanges)
		}
		w.settles(f, daemon.PodRanges)
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			to := at(w.Family, 1)
			if w.Protocol == model.UDP {
				reachesAll(t, l.Pods[2].Host, to, addressesOf(l, w.Family, ports))
				return
			}
			answers(t, l.Pods[2].Host, w, to, strings.Fields(many.EndpointSpec), nil)
		})
	}
}

// serveMany serves at every port. Over UDP the answer is the server's address and port.
func serveMany(t *testing.T, h *lab.Host) {
	t.Helper()
	for n := range manyPorts {
		for _, p := range []model.Protocol{model.TCP, model.SCTP} {
			if _, err := h.Serve(p, firstPort+uint16(n)); err != nil {
				t.Fatal(err)
			}
		}
		for _, family := range model.Families {
			if err := serveAddr(t, h, h.AddrPort(family, firstPort+uint16(n))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// serveAddr answers every datagram with its destination address.
func serveAddr(t *testing.T, h *lab.Host, at netip.AddrPort) error {
	var c *net.UDPConn
	err := h.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		return err
	}
	var group stdsync.WaitGroup
	group.Go(func() {
		for {
			_, from, err := c.ReadFromUDPAddrPort(make([]byte, 1))
			if err != nil {
				return // closed
			}
			_, _ = c.WriteToUDPAddrPort([]byte(at.String()), from)
		}
	})
	t.Cleanup(func() { c.Close(); group.Wait() })
	return nil
}

// addressesOf returns the addresses that may answer.
func addressesOf(l *lab.Lab, family model.Family, ports int) map[string]bool {
	all := map[string]bool{}
	for _, h := range servers(l) {
		for n := range ports {
			all[h.AddrPort(family, firstPort+uint16(n)).String()] = true
		}
	}
	return all
}

// reachesAll asks until all have answered, and checks that no others do. It is
// practically impossible that a fair choice among n never picks one in
// n * (ln n + 15) questions; n is below e^6.
func reachesAll(t *testing.T, from *lab.Host, to netip.AddrPort, all map[string]bool) {
	t.Helper()
	reached := map[string]bool{}
	err := from.Do(func() error {
		for asked := 0; len(reached) < len(all) && asked < len(all)*(6+15); asked++ {
			by, err := askForAddress(from.FreshPort(), to)
			if err != nil {
				return err
			}
			if !all[by] {
				return fmt.Errorf("%q answered, which is no endpoint", by)
			}
			reached[by] = true
		}
		return nil
	})
	if err == nil && len(reached) != len(all) {
		err = fmt.Errorf("%d endpoints were reached, want %d", len(reached), len(all))
	}
	if err != nil {
		t.Errorf("%s asks %s: %v", from, to, err)
	}
}

// askForAddress asks from a new socket, on the calling thread.
func askForAddress(port uint16, to netip.AddrPort) (string, error) {
	c, err := net.DialUDP("udp", &net.UDPAddr{Port: int(port)}, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answer)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return "", err
	}
	buf := make([]byte, 64)
	size, err := c.Read(buf)
	return string(buf[:size]), err
}
