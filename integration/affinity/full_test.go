package affinity

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestFullAffinityMapServesNewClients fills the affinity map. Earlier clients keep their
// endpoints; later clients are not remembered, but keep theirs as long as the endpoints stay.
// If an endpoint is removed, its clients get another one immediately, however many clients
// are remembered. Then the namespace that fills the map makes room: new clients of another one
// are remembered again.
func TestFullAffinityMapServesNewClients(t *testing.T) {
	// Not in parallel: github.com/google/nftables takes no more than 1,024 open files (select).
	l, servers := daemon.NewLab(t, 4, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long}
	many := daemon.Service{Name: "many", Number: 2, Affinity: long}
	many.Edit = func(s *corev1.Service) { s.Namespace = "crowd" }
	f.Put("web", s)
	f.Put("many", many)
	d := daemon.Start(t, l.Node, f, "--protect-tables=false")
	first, late, had := crowd{0, 120}, crowd{1000, 40}, newMemory() // 20 of the first lose their endpoint, give or take 4
	look := func(t *testing.T, w daemon.Transport, c crowd) []string {
		t.Helper()
		return survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c)
	}
	step(t, "before", func(t *testing.T, w daemon.Transport) { *had[w] = look(t, w, first) })
	d.Stop() // or else it makes room
	for _, f := range model.Families {
		fill(t, l, f, many)
	}
	step(t, "earlier clients", func(t *testing.T, w daemon.Transport) { keep(t, *had[w], look(t, w, first)) })
	step(t, "later clients", func(t *testing.T, w daemon.Transport) {
		got := look(t, w, late)
		keep(t, got, look(t, w, late))
		if len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(servers) {
			t.Errorf("%d clients got %v, want all endpoints used", len(got), got)
		}
	})
	if testing.Short() {
		return // sync/follow/affinity tests the rest with a fake kernel
	}
	d = daemon.Start(t, l.Node, f, "--protect-tables=false")
	d.Ignore("affinity map full, new clients are not remembered")
	d.Ignore("clients forgotten: their namespace has more than its share of the affinity map")
	s.Endpoints = servers[1:]
	d.After(func() { f.Put("web", s) })
	step(t, "clients of a removed endpoint", func(t *testing.T, w daemon.Transport) { leave(t, l, w, s, first, *had[w]) })
	awaitMetric(t, l)
	for _, f := range model.Families { // clients of the removed endpoint may have left room
		fill(t, l, f, many)
	}
	step(t, "new clients", func(t *testing.T, w daemon.Transport) { awaitRoom(t, l, w, s) })
	d.AwaitMessages(len(model.Families), "clients forgotten: their namespace has more than its share of the affinity map")
}

// awaitRoom connects new clients until one is remembered.
func awaitRoom(t *testing.T, l *lab.Lab, w daemon.Transport, s daemon.Service) {
	t.Helper()
	c, set := affinityMap(t, l, w.Family)
	to := s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0)
	// Room of the other family comes first, and then a pause of 70 times its processor time.
	deadline := time.Now().Add(10 * time.Minute)
	for n := 2000; ; n++ {
		from := daemon.ClientAddr(w.Family, n)
		if _, err := ask(l.Outside, from, w, to); err != nil {
			t.Fatal(err)
		}
		element := nftables.SetElement{Key: key(from, to, w.Protocol)}
		err := errors.Join(c.SetDeleteElements(set, []nftables.SetElement{element}), c.Flush())
		if err == nil {
			return
		}
		if !errors.Is(err, unix.ENOENT) || time.Now().After(deadline) {
			t.Fatalf("client %d is not remembered: %v", n, err)
		}
		<-time.After(time.Second / 5)
	}
}

// affinityMap returns the map of a family, and a connection to change it.
func affinityMap(t *testing.T, l *lab.Lab, f model.Family) (*nftables.Conn, *nftables.Set) {
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
	return c, set
}

func key(client netip.Addr, to netip.AddrPort, p model.Protocol) []byte {
	port := binary.BigEndian.AppendUint32(nil, uint32(to.Port())<<16)
	return slices.Concat(client.AsSlice(), to.Addr().AsSlice(), []byte{byte(p), 0, 0, 0}, port)
}

// fill adds elements of other clients of the Service until the map is full, by netlink:
// with packets it would take half a minute.
func fill(t *testing.T, l *lab.Lab, f model.Family, s daemon.Service) {
	t.Helper()
	c, set := affinityMap(t, l, f)
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
	from, _ := netip.AddrFromSlice(client)
	return nftables.SetElement{Key: key(from, to, model.UDP), Val: make([]byte, 4), Timeout: long}
}

// awaitMetric waits until the metric counts connections of both families. The proxy reads
// the kernel's counters every 15 seconds.
func awaitMetric(t *testing.T, l *lab.Lab) {
	t.Helper()
	metric := regexp.MustCompile(`(?m)^kubevmap_affinity_full_connections_total\{ip_family="IPv[46]"\} [1-9]`)
	eventually.Succeeds(t, "the metric counts the connections", func() error {
		page, err := l.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if err == nil && len(metric.FindAllString(page, -1)) < len(model.Families) {
			err = errors.New("not of both families")
		}
		return err
	})
}
