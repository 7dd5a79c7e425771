package sync_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// checked returns the Service with a health check.
func checked(s sync.SetService, port uint16) sync.SetService {
	s.Service.ExternalPolicy, s.Service.HealthCheckNodePort = model.PolicyLocal, port
	return s
}

func TestFollowersSeeCommittedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		expect := func(what, want string) {
			t.Helper()
			if got := s.committed.take(); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
			}
		}
		s.send(checked(webService("web", 1), 32000), webSlice(model.IPv4, 1))
		expect("the first burst", "full set 6 removed 0 web:32000=[0 0] at []")
		s.send(webSlice(model.IPv6, 1))
		expect("endpoints of one family", "set 3 removed 0 at []")
		s.send(webSlice(model.IPv6, 1))
		expect("nothing new", "set 0 removed 0 at []")
		s.send(webService("web", 2))
		expect("other addresses, and no health check", "set 6 removed 6 web:0=[0 0] at []")

		s.kernel.Fail(kerneltest.FaultNotSent, 1)
		s.send(checked(webService("web", 2), 32001), webSlice(model.IPv4, 3))
		expect("what the kernel did not take", "")
		elapse(time.Second)
		expect("when it takes it", "full set 6 removed 0 web:32001=[0 0] at []")
		s.kernel.Fail(kerneltest.FaultNotSent, 1)
		s.send(webSlice(model.IPv4, 2))
		elapse(time.Second)
		expect("when all is compared again", "full set 6 removed 0 web:32001=[0 0] at []")
		s.send(sync.DeleteService{Name: webService("web", 1).Service.Name})
		expect("a Service that goes", "set 0 removed 6 web:0=[0 0] at []")
		s.send(webService("web", 1), webSlice(model.IPv6, 1))
		s.committed.take()
		s.kernel.Refuse("default/web:udp", syscall.EINVAL, 0)
		s.send(webSlice(model.IPv4, 3))
		expect("a port in quarantine", "set 2 removed 2 at []")
		s.kernel.Refuse("default/web:tcp", syscall.ENOMEM, 0)
		s.send(checked(webService("web", 1), 32000), webSlice(model.IPv4, 4))
		expect("a Service for which there is no memory", "set 0 removed 0 web:32000=[0 0] at []")
	})
}

// sharedKernel is a kernel whose tables another process changes.
type sharedKernel struct {
	*kerneltest.Kernel
	foreign atomic.Uint32
}

// ForeignChanges implements [sync.Kernel].
func (k *sharedKernel) ForeignChanges() (uint32, error) { return k.foreign.Load(), nil }

// ReadOnce implements [sync.TableReader].
func (k *sharedKernel) ReadOnce() (nft.Tables, bool, error) {
	have, err := k.Read()
	return have, true, err
}

// TestFollowersSeeRepairs is about flows that began before a repair and may have no endpoint.
// Followers see nothing of a Service that waits for memory.
func TestFollowersSeeRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &sharedKernel{Kernel: kerneltest.New()}
		s := newRigOn(t, k, sync.Config{DriftReader: k}, slog.DiscardHandler)
		s.send(webService("web", 1), webSlice(model.IPv4, 1))
		s.kernel.Refuse("default/app:tcp", syscall.ENOMEM, 0)
		s.send(webService("app", 2))
		s.committed.take()
		if _, err := k.Apply(nft.Batch{nft.FlushChain{Family: model.IPv4, Name: "nat-prerouting"}}); err != nil {
			t.Fatal(err)
		}
		k.foreign.Add(1)
		elapse(time.Second)
		if got, want := s.committed.take(), "full set 6 removed 0 at []"; !strings.Contains(got, want) {
			t.Errorf("followers see %q, want %q", got, want)
		}
	})
}

// TestRepairsDoNotCommitAddressesThatWait has an address that waits for the next sync.
func TestRepairsDoNotCommitAddressesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, addrs := &sharedKernel{Kernel: kerneltest.New()}, make(addressList)
		c := sync.Config{DriftReader: k, Addresses: addrs, MinSyncPeriod: time.Minute}
		s := newRigOn(t, k, c, slog.DiscardHandler)
		addrs <- single(netip.MustParseAddr("192.0.2.1"))
		s.send(webService("web", 1))
		addrs <- single(netip.MustParseAddr("192.0.2.2"))
		synctest.Wait()
		s.committed.take()
		if _, err := k.Apply(nft.Batch{nft.FlushChain{Family: model.IPv4, Name: "nat-prerouting"}}); err != nil {
			t.Fatal(err)
		}
		k.foreign.Add(1)
		elapse(time.Second)
		if got, want := s.committed.take(), "full set 6 removed 0 at [192.0.2.1]"; got != want {
			t.Errorf("followers see %q, want %q", got, want)
		}
	})
}

// TestFollowersSeeWhatWasDeletedBetweenProcesses has a second loop on the same kernel, without a
// Service that the first one had.
func TestFollowersSeeWhatWasDeletedBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kerneltest.New()
		s := newRigOn(t, k, sync.Config{}, slog.DiscardHandler)
		s.send(webService("web", 1), webSlice(model.IPv4, 1), webService("other", 2))
		s = newRigOn(t, k, sync.Config{}, slog.DiscardHandler)
		s.send(webService("other", 2))
		if got, want := s.committed.take(), "full set 6 removed 3 at []"; !strings.Contains(got, want) {
			t.Errorf("followers see %q, want %q", got, want)
		}
	})
}

// TestNodePortAddressesAreFollowed also has a Service whose author wrote the address and node port
// of another one.
func TestNodePortAddressesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := make(addressList)
		s := newRig(t, sync.Config{Addresses: addrs})
		node := sync.SetNode{Node: model.Node{Name: "node-1"}}
		first, second, ip6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")
		web, greedy := exposed(webService("web", 1), model.IPv4), webService("greedy", 2)
		greedy.Service.ExternalIPs, greedy.Service.Ports = []netip.Addr{second}, greedy.Service.Ports[:1]
		greedy.Service.Ports[0].Port = web.Service.Ports[0].NodePort
		go func() { s.bursts <- []sync.Event{node, web, greedy} }()
		synctest.Wait()
		if got := s.committed.take(); got != "" {
			t.Errorf("committed before addresses are known: %s", got)
		}
		for _, step := range []struct {
			addrs []netip.Addr
			want  string
		}{
			{[]netip.Addr{first, ip6}, "[192.0.2.1 2001:db8::1]"},
			{[]netip.Addr{first, second, ip6}, "[192.0.2.1 192.0.2.2 2001:db8::1]"},
			{[]netip.Addr{second}, "[192.0.2.2]"},
			{nil, "[]"},
		} {
			addrs <- single(step.addrs...)
			synctest.Wait()
			if v, err := s.loop.Snapshot(t.Context()); err != nil || fmt.Sprint(v.NodeAddrs) != step.want {
				t.Errorf("the kernel has %s, want %s, %v", v.NodeAddrs, step.want, err)
			} else if (len(v.Conflicts) > 0) != slices.Contains(step.addrs, second) {
				t.Errorf("with %s, the conflicts are %v", step.want, v.Conflicts)
			}
			if got := s.committed.take(); !strings.HasSuffix(got, "at "+step.want) {
				t.Errorf("followers see %s, want %s", got, step.want)
			}
		}
	})
}
