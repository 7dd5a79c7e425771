package flows

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
)

// TestWatchShowsWhereAPacketWasSent connects to addresses that are translated to an endpoint
// which answers, which refuses, and which does not answer, or that are dropped.
func TestWatchShowsWhereAPacketWasSent(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	if _, err := l.Pods[0].Serve(model.TCP, 8080); err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		vip := func(n int) netip.AddrPort {
			a := lab.ServiceRanges[f].Addr()
			for range n {
				a = a.Next()
			}
			return netip.AddrPortFrom(a, 80)
		}
		nowhere := netip.AddrPortFrom(l.Pods[0].Addr(f), 8082)
		command(t, l.Pods[0].Host, fmt.Sprintf("table %s t { chain c { type filter hook input priority 0; tcp dport 8082 drop; }; }", nft.FamilyName(f)))
		leads := []netip.AddrPort{l.Pods[0].AddrPort(f, 8080), l.Pods[0].AddrPort(f, 8081), nowhere}
		rules := ""
		for i, to := range leads {
			rules += fmt.Sprintf("%s daddr %s tcp dport 80 dnat to %s;", nft.FamilyName(f), vip(i+1).Addr(), to)
		}
		command(t, l.Node.Host, fmt.Sprintf(`table %s t {
			chain nat { type nat hook output priority -100; %s }
			chain filter { type filter hook output priority 0; %[1]s daddr %[3]s drop; }
		}`, nft.FamilyName(f), rules, vip(4).Addr()))
		for i := range 4 {
			port := l.Node.FreshPort()
			var e conntrack.Entry
			var found bool
			err := l.Node.Do(func() error {
				w, err := conntrack.NewWatch(f, port)
				if err != nil {
					return err
				}
				defer w.Close()
				from := netip.AddrPortFrom(l.Node.Addr(f), port)
				if _, err := l.Node.AskFrom(model.TCP, from, vip(i+1), 100*time.Millisecond); err != nil {
					return err
				}
				if _, err := l.Node.AskFresh(model.TCP, netip.Addr{}, leads[0], 3*time.Second); err != nil { // of another port
					return err
				}
				e, found, err = w.Find(model.TCP, vip(i+1))
				return err
			})
			switch {
			case err != nil:
				t.Errorf("%s: %v", vip(i+1), err)
			case i == len(leads) && found:
				t.Errorf("%s is dropped, and has the entry %+v", vip(i+1), e)
			case i < len(leads) && (!found || e.Reply != leads[i]):
				t.Errorf("%s leads to %s; found %t, %+v", vip(i+1), leads[i], found, e)
			}
		}
	}
}

// command runs nft with a script.
func command(t *testing.T, h *lab.Host, script string) {
	t.Helper()
	cmd := h.Command(t.Context(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, out, script)
	}
}
