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

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestFullAffinityMapServesNewClients fills the table of clients. Those who came before
// keep their endpoints; those who come after get one each time they ask.
func TestFullAffinityMapServesNewClients(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 4, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long}
	f.Put("web", s)
	daemon.Start(t, l.Node, f, "--protect-tables=false").Ignore("affinity map full, new clients are not remembered")
	first, late, had := crowd{0, 40}, crowd{1000, 40}, newMemory()
	look := func(t *testing.T, w daemon.Transport, c crowd) []string {
		t.Helper()
		return survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c)
	}
	step(t, "before", func(t *testing.T, w daemon.Transport) { *had[w] = look(t, w, first) })
	for _, f := range model.Families {
		fill(t, l, f, s)
	}
	step(t, "those who came before", func(t *testing.T, w daemon.Transport) { keep(t, *had[w], look(t, w, first)) })
	step(t, "those who come after", func(t *testing.T, w daemon.Transport) { free(t, look(t, w, late), look(t, w, late)) })
	told(t, l)
}

// fill remembers so many other clients of the Service, each with an endpoint that
// it has, that there is no place left. They come by netlink: to make them by
// packets would take half a minute.
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
	for size := 400; size > 0; { // a netlink attribute holds no more
		var part []nftables.SetElement
		for n := range size {
			part = append(part, remembered(f, s, total+n))
		}
		if err := errors.Join(c.SetAddElements(set, part), c.Flush()); errors.Is(err, unix.ENFILE) {
			size /= 2
			continue
		} else if err != nil {
			t.Fatalf("remember clients %d to %d: %v", total, total+size, err)
		}
		total += size
	}
	t.Logf("%s: full with %d clients more", f, total)
}

// remembered is an element for a client that there is not.
func remembered(f model.Family, s daemon.Service, n int) nftables.SetElement {
	client := lab.OutsideRanges[f].Addr().AsSlice()
	binary.BigEndian.PutUint32(client[len(client)-4:], 0xf0000000+uint32(n))
	to, e := s.AddrPort(nil, f, model.KindClusterIP, 0), s.Endpoints[n%len(s.Endpoints)].AddrPort(f, daemon.TargetPort)
	key := slices.Concat(client, to.Addr().AsSlice(), []byte{byte(model.UDP), 0, 0, 0}, port(to))
	return nftables.SetElement{Key: key, Val: slices.Concat(e.Addr().AsSlice(), port(e)), Timeout: long}
}

// port is a port as a part of a key is: in four bytes.
func port(a netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(nil, a.Port()), 0, 0)
}

// told waits until the metric says of both families that the table is full. The
// proxy looks every 15 seconds.
func told(t *testing.T, l *lab.Lab) {
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
			t.Fatal("the metric does not say that the table is full")
		}
	}
}
