package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The lab's pods are few, so that each of them is many endpoints: one at every
// port from firstPort on. All together are more than there are slots.
const (
	manyPorts = 100
	firstPort = 20000
)

// crowd are the hosts that serve at many ports.
var crowd = []string{"pod-1", "pod-2", "remote-1"}

// TestMoreEndpointsThanSlotsAreAllReached also takes the Service below the limit
// and over it again: it then changes from one kind of map to the other.
func TestMoreEndpointsThanSlotsAreAllReached(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	for _, name := range crowd {
		serveMany(t, f.hosts[name])
	}
	w := watch(t, l.Node.Host)
	for i, ports := range []int{manyPorts, 10, manyPorts} {
		f.write("services.yaml", text(t, manyEndpoints(f, ports)...))
		if i == 0 {
			start(t, l.Node, f.dir, podRanges)
		}
		w.settles(f.dir, podRanges)
		eachWay(t, func(t *testing.T, w way) {
			to := at(w.family, 1, port)
			if w.protocol == model.UDP {
				reachesAll(t, l.Pods[2].Host, to, addressesOf(f, w.family, ports))
				return
			}
			answers(t, l.Pods[2].Host, w, to, crowd, nil)
		})
	}
}

// manyEndpoints are a Service and a slice for each port of its endpoints.
func manyEndpoints(f *folder, ports int) []any {
	s := service{name: "many", address: 1, ports: everyProtocol()}
	objects := []any{s.object()}
	for n := range ports {
		slice := s.ports
		for i := range slice {
			slice[i].target = int32(firstPort + n)
		}
		for _, family := range model.Families {
			objects = append(objects, s.slices(f.hosts, family, "-"+strconv.Itoa(n), slice, "pod-1 pod-2 remote-1")...)
		}
	}
	return objects
}

// serveMany serves at every port. Over UDP the answer is the address and port
// that was asked.
func serveMany(t *testing.T, h *lab.Host) {
	t.Helper()
	for n := range manyPorts {
		for _, p := range []model.Protocol{model.TCP, model.SCTP} {
			if _, err := h.Serve(p, firstPort+uint16(n)); err != nil {
				t.Fatal(err)
			}
		}
		for _, family := range model.Families {
			if err := tell(t, h, h.AddrPort(family, firstPort+uint16(n))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tell answers every datagram with the address that it came to.
func tell(t *testing.T, h *lab.Host, at netip.AddrPort) error {
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

// addressesOf are the addresses that may answer.
func addressesOf(f *folder, family model.Family, ports int) map[string]bool {
	all := map[string]bool{}
	for _, name := range crowd {
		for n := range ports {
			all[f.hosts[name].AddrPort(family, firstPort+uint16(n)).String()] = true
		}
	}
	return all
}

// reachesAll asks until all have answered, and checks that no others do. It is
// as good as impossible that a fair choice among n has left one out after
// n * (ln n + 15) questions, and n is below e^6.
func reachesAll(t *testing.T, from *lab.Host, to netip.AddrPort, all map[string]bool) {
	t.Helper()
	reached := map[string]bool{}
	err := from.Do(func() error {
		for asked := 0; len(reached) < len(all) && asked < len(all)*(6+15); asked++ {
			by, err := askForAddress(to)
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

// askForAddress asks over a connection of its own, from the calling thread.
func askForAddress(to netip.AddrPort) (string, error) {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(freshPort()), net.UDPAddrFromAddrPort(to))
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
