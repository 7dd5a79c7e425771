package affinity

import (
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestFullAffinityMapServesNewClients fills the affinity map. Earlier clients keep their
// endpoints; later clients get any endpoint for each connection. If an endpoint is removed,
// its clients get another one immediately, however many clients are remembered.
func TestFullAffinityMapServesNewClients(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 4, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long}
	f.Put("web", s)
	d := daemon.Start(t, l.Node, f, "--protect-tables=false")
	d.Ignore("affinity map full, new clients are not remembered")
	first, late, had := crowd{0, 40}, crowd{1000, 40}, newMemory()
	look := func(t *testing.T, w daemon.Transport, c crowd) []string {
		t.Helper()
		return survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c)
	}
	step(t, "before", func(t *testing.T, w daemon.Transport) { *had[w] = look(t, w, first) })
	for _, f := range model.Families {
		fill(t, l, f, s)
	}
	step(t, "earlier clients", func(t *testing.T, w daemon.Transport) { keep(t, *had[w], look(t, w, first)) })
	step(t, "later clients", func(t *testing.T, w daemon.Transport) { free(t, look(t, w, late), look(t, w, late)) })
	s.Endpoints = servers[1:]
	d.After(func() { f.Put("web", s) })
	step(t, "clients of a removed endpoint", func(t *testing.T, w daemon.Transport) { leave(t, l, w, s, first, *had[w]) })
	awaitMetric(t, l)
}

// fill adds elements of other clients of the Service until the map is full, by netlink:
// with packets it would take half a minute.
func fill(t *testing.T, l *lab.Lab, f model.Family, s daemon.Service) {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(l.Node.FD()))
	if err != nil {
		t.Fatal(err)
	}
	family := [...]nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}[f]
	set, err := c.GetSetByName(&nftables.Table{Name: "kube-vmap", Family: family}, "affinity")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for size := 400; size > 0; { // the limit of a netlink attribute
		var part []nftables.SetElement
		for n := range size {
			part = append(part, remembered(f, s, total+n))
		}
		if err := errors.Join(c.SetAddElements(set, part), c.Flush()); errors.Is(err, unix.ENFILE) {
			size /= 2
			continue
		} else if err != nil {
			t.Fatalf("add clients %d to %d: %v", total, total+size, err)
		}
		total += size
	}
	t.Logf("%s: full with %d more clients", f, total)
}

// remembered returns an element of a client that does not exist.
func remembered(f model.Family, s daemon.Service, n int) nftables.SetElement {
	client := lab.OutsideRanges[f].Addr().AsSlice()
	binary.BigEndian.PutUint32(client[len(client)-4:], 0xf0000000+uint32(n))
	to := s.AddrPort(nil, f, model.KindClusterIP, 0)
	port := binary.BigEndian.AppendUint32(nil, uint32(to.Port())<<16)
	key := slices.Concat(client, to.Addr().AsSlice(), []byte{byte(model.UDP), 0, 0, 0}, port)
	return nftables.SetElement{Key: key, Val: make([]byte, 4), Timeout: long}
}

// awaitMetric waits until the metric counts connections of both families. The proxy reads
// the kernel's counters every 15 seconds.
func awaitMetric(t *testing.T, l *lab.Lab) {
	t.Helper()
	metric := regexp.MustCompile(`(?m)^kubevmap_affinity_full_connections_total\{ip_family="IPv[46]"\} [1-9]`)
	ticker := time.NewTicker(time.Second / 5)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-ticker.C {
		page, err := l.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if err != nil {
			t.Fatal(err)
		}
		if len(metric.FindAllString(page, -1)) == len(model.Families) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the metric does not count the connections")
		}
	}
}
