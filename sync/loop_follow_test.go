package sync_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// ledger is a diary of what the kernel took.
type ledger struct{ diary }

// Follow notes what was taken.
func (d *ledger) Follow(t sync.Committed) {
	var out strings.Builder
	if t.Full {
		out.WriteString("whole ")
	}
	fmt.Fprintf(&out, "set %d gone %d", len(t.Set), len(t.Gone))
	for _, h := range t.HealthChecks {
		fmt.Fprintf(&out, " %s:%d=%v", h.Service.Name, h.Port, h.Local)
	}
	d.write("%s at %v", out.String(), t.NodeAddrs)
}

// addressList delivers what the test says.
type addressList chan []netip.Addr

func (a addressList) Run(ctx context.Context, out chan<- []netip.Addr) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-a:
			select {
			case out <- list:
			case <-ctx.Done():
			}
		}
	}
}

// followed is a stage whose diary follows what the kernel takes.
func followed(t *testing.T, addrs addressList) *stage {
	var c sync.Config
	if addrs != nil {
		c.Addresses = addrs
	}
	return newStage(t, c)
}

// checked makes a Service one with a health check.
func checked(s sync.SetService, port uint16) sync.SetService {
	s.Service.ExternalPolicy, s.Service.HealthCheckNodePort = model.PolicyLocal, port
	return s
}

func TestFollowersHearWhatTheKernelHasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followed(t, nil)
		expect := func(what, want string) {
			t.Helper()
			if got := s.followed.take(); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
			}
		}
		s.say(checked(web("web", 1), 32000), served(model.IPv4, 1))
		expect("the first burst", "whole set 6 gone 0 web:32000=[0 0] at []")
		s.say(served(model.IPv6, 1))
		expect("endpoints of one family", "set 3 gone 0 at []")
		s.say(served(model.IPv6, 1))
		expect("nothing new", "set 0 gone 0 at []")
		s.say(web("web", 2))
		expect("other addresses, and no health check", "set 6 gone 6 web:0=[0 0] at []")

		s.kernel.Fail(kerneltest.FaultNotSent, 1)
		s.say(checked(web("web", 2), 32001), served(model.IPv4, 3))
		expect("what the kernel did not take", "")
		pass(time.Second)
		expect("when it takes it", "whole set 6 gone 0 web:32001=[0 0] at []")
		s.kernel.Fail(kerneltest.FaultNotSent, 1)
		s.say(served(model.IPv4, 2))
		pass(time.Second)
		expect("when all is compared again", "whole set 6 gone 0 web:32001=[0 0] at []")
		s.say(sync.DeleteService{Name: web("web", 1).Service.Name})
		expect("a Service that goes", "set 0 gone 6 web:0=[0 0] at []")
	})
}

func TestServicePortsThatAreLeftOutAreGoneToFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followed(t, nil)
		s.say(web("web", 1), served(model.IPv4, 1), served(model.IPv6, 1))
		s.followed.take()
		s.kernel.Refuse("default/web:udp", 22, 0)
		s.say(served(model.IPv4, 2))
		if got, want := s.followed.take(), "set 2 gone 1 at []"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestAddressesThatServeNodePortsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := make(addressList)
		s := followed(t, addrs)
		nodeIPs := func() (out []string) {
			tables, err := s.kernel.Read()
			if err != nil {
				t.Fatal(err)
			}
			for f, table := range tables {
				if table == nil {
					continue
				}
				for _, e := range table.Sets[nft.SetID{Family: model.Family(f), Kind: nft.SetNodeIPs}.Name()].Elements {
					out = append(out, e.Key.Addr.String())
				}
			}
			return out
		}
		node := sync.SetNode{Node: model.Node{Name: "node-1"}}
		go func() { s.bursts <- []sync.Event{node, web("web", 1)} }()
		synctest.Wait()
		if got := s.followed.take(); got != "" {
			t.Errorf("before addresses are known, the kernel took %s", got)
		}
		first, second, ip6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")
		for _, step := range []struct {
			addrs []netip.Addr
			want  string
		}{
			{[]netip.Addr{first, ip6}, "[192.0.2.1 2001:db8::1]"},
			{[]netip.Addr{first, second, ip6}, "[192.0.2.1 192.0.2.2 2001:db8::1]"},
			{[]netip.Addr{second}, "[192.0.2.2]"},
			{nil, "[]"},
		} {
			addrs <- step.addrs
			synctest.Wait()
			if got := fmt.Sprint(nodeIPs()); got != step.want {
				t.Errorf("the kernel has %s, want %s", got, step.want)
			}
			if got := s.followed.take(); !strings.HasSuffix(got, "at "+step.want) {
				t.Errorf("followers heard %s, want %s", got, step.want)
			}
		}
	})
}
