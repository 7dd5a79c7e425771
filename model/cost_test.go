package model

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The cost of one change in relation to its size and to that of the cluster. Memory is
// counted exactly; processor time, which other programs disturb, is the minimum of
// several runs, and its bound is well below quadratic growth.

// dimension is something of which there may be many. build returns a function that
// makes one change in a state with n of them, and can be called repeatedly.
type dimension struct {
	name  string
	build func(n int) (change func())
	// own means that the change affects all n, so that its cost may be proportional to n.
	own bool
}

// processorTime returns the time that the thread used, without other programs.
func processorTime() time.Duration {
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var used syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&used)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(used.Nano())
}

// costOf returns the minimum cost of a change over several runs.
func costOf(change func()) (bytes uint64, took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	change() // allocates what stays
	change()
	for range 7 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := processorTime()
		change()
		elapsed := processorTime() - start
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; bytes == 0 || n < bytes {
			bytes = n
		}
		if took == 0 || elapsed < took {
			took = elapsed
		}
	}
	return bytes, took
}

// alternating returns a function that changes from one state to the other and back.
func alternating(m *ServiceMap, a, b func()) func() {
	turn := false
	return func() {
		if turn = !turn; turn {
			a()
		} else {
			b()
		}
		m.Changes()
	}
}

func costService(name string, i int) Service {
	return Service{
		Name: ServiceName{"shop", name}, UID: name, Created: int64(i),
		ClusterIPs: []netip.Addr{clusterIP(IPv4, i), clusterIP(IPv6, i)},
		Ports:      []ServicePort{{Name: "p", Protocol: TCP, Port: 80}},
	}
}

func costSlice(s Service, part, endpoints int) EndpointSlice {
	out := EndpointSlice{Name: EndpointSliceName{"shop", fmt.Sprint(s.Name.Name, "-", part)}, Service: s.Name}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
	}
	for k := range endpoints {
		out.Endpoints = append(out.Endpoints, Endpoint{Addr: podIP(IPv4, part*10_000+k), Ready: true, Serving: true})
	}
	return out
}

// changedPolicy returns a function that changes the policies of the Service, with other
// Services in the map, and back.
func changedPolicy(s Service, others ...Service) func() {
	m := NewServiceMap(Options{}, thisNode)
	for _, o := range others {
		m.SetService(o)
	}
	other := s
	other.ExternalPolicy, other.InternalPolicy = PolicyLocal, PolicyLocal
	m.SetService(s)
	m.Changes()
	return alternating(m, func() { m.SetService(other) }, func() { m.SetService(s) })
}

func ports(n int) []ServicePort {
	var out []ServicePort
	for i := range n {
		out = append(out, ServicePort{Name: fmt.Sprint("p", i), Protocol: TCP, Port: uint16(i + 1)})
	}
	return out
}

func externals(n int) []netip.Addr {
	var out []netip.Addr
	for i := range n {
		out = append(out, externalIP(IPv4, i))
	}
	return out
}

var dimensions = []dimension{
	{"ports of the Service", func(n int) func() {
		s := costService("web", 1)
		s.Ports = ports(n)
		return changedPolicy(s)
	}, true},
	{"ports of a Service that lists its own ClusterIP", func(n int) func() {
		s := costService("web", 1)
		s.Ports, s.ExternalIPs = ports(n), s.ClusterIPs
		return changedPolicy(s)
	}, true},
	{"ports that are renamed", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		a, b := costService("web", 1), costService("web", 1)
		a.Ports, b.Ports = ports(n), ports(n)
		for i := range b.Ports {
			b.Ports[i].Name += "x"
		}
		return alternating(m, func() { m.SetService(a) }, func() { m.SetService(b) })
	}, true},
	{"external addresses", func(n int) func() {
		s := costService("web", 1)
		s.ExternalIPs = externals(n)
		return changedPolicy(s)
	}, true},
	{"external addresses that others hold", func(n int) func() {
		s, older := costService("web", 2), costService("older", 1)
		s.ExternalIPs, older.ExternalIPs = externals(n), externals(n)
		return changedPolicy(s, older)
	}, true},
	{"ports that another Service of the same ClusterIP holds", func(n int) func() {
		s, older := costService("web", 2), costService("older", 1)
		s.Ports, older.Ports, s.ClusterIPs = ports(n), ports(n), older.ClusterIPs
		return changedPolicy(s, older)
	}, true},
	{"source ranges", func(n int) func() {
		s := costService("web", 1)
		s.LoadBalancerIPs = externals(1)
		for i := range n {
			s.SourceRanges = append(s.SourceRanges, netip.PrefixFrom(podIP(IPv4, i), 32))
		}
		return changedPolicy(s)
	}, true},
	{"endpoints of a slice", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		s := costService("web", 1)
		m.SetService(s)
		return alternating(m, func() { m.SetSlice(costSlice(s, 0, n)) }, func() { m.SetSlice(costSlice(s, 0, n-1)) })
	}, true},
	{"endpoints of different weights", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		s := costService("web", 1)
		m.SetService(s)
		for part := range n / 100 {
			slice := costSlice(s, part, 100)
			slice.Weight = uint16(1 + part*101)
			m.SetSlice(slice)
		}
		slice, other := costSlice(s, 0, 100), costSlice(s, 0, 100)
		slice.Weight, other.Weight = 7, 65535
		m.SetSlice(slice)
		m.Changes()
		return alternating(m, func() { m.SetSlice(other) }, func() { m.SetSlice(slice) })
	}, true},
	{"other Services", func(n int) func() {
		var others []Service
		for i := range n {
			others = append(others, costService(fmt.Sprint("other-", i), i+2))
		}
		return changedPolicy(costService("web", 1), others...)
	}, false},
	{"other claims of its external address", func(n int) func() {
		var others []Service
		for i := range n {
			o := costService(fmt.Sprint("other-", i), i)
			o.ExternalIPs = externals(1)
			others = append(others, o)
		}
		s := costService("web", n/2)
		s.ExternalIPs = externals(1)
		return changedPolicy(s, others...)
	}, false},
	{"claims of the external address that it takes from others", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		for i := range n {
			o := costService(fmt.Sprint("other-", i), i+2)
			o.ExternalIPs = externals(1)
			m.SetService(o)
		}
		s, without := costService("web", 1), costService("web", 1)
		s.ExternalIPs = externals(1)
		return alternating(m, func() { m.SetService(s) }, func() { m.SetService(without) })
	}, false},
}

// TestCostOfChangeGrowsAtMostLinearly compares the cost of a change at three sizes.
func TestCostOfChangeGrowsAtMostLinearly(t *testing.T) {
	skipIfShort(t)
	const n = 1000
	for _, d := range dimensions {
		t.Run(d.name, func(t *testing.T) {
			bytes, took := costOf(d.build(n))
			for _, times := range []uint64{2, 4} {
				moreBytes, longer := costOf(d.build(int(times) * n))
				most := bytes + bytes/4 + 4096
				if d.own { // appended lists have up to twice the capacity
					most = 2 * times * bytes
				}
				if moreBytes > most {
					t.Errorf("with %d, a change takes %d bytes, with %d times as many %d", n, bytes, times, moreBytes)
				}
				// Quadratic would be times*times. A hash table larger than the processor's cache is
				// slower, too.
				if bound := 3*time.Duration(times)*took + 2*time.Millisecond; longer > bound {
					t.Errorf("with %d, a change takes %s, with %d times as many %s", n, took, times, longer)
				}
			}
		})
	}
}

// TestNamespaceOverBudgetCostsOthersNothing changes a Service while another namespace
// with more and more Services is over its budget.
func TestNamespaceOverBudgetCostsOthersNothing(t *testing.T) {
	skipIfShort(t)
	build := func(n int) func() {
		m := NewServiceMap(Options{Budget: Budget{PerNamespace: 100}}, thisNode)
		for i := range n {
			o := costService(fmt.Sprint("other-", i), i+2)
			o.Name.Namespace = "greedy"
			m.SetService(o)
		}
		s := costService("web", 1)
		other := s
		other.InternalPolicy = PolicyLocal
		m.SetService(s)
		m.Changes()
		return alternating(m, func() { m.SetService(other) }, func() { m.SetService(s) })
	}
	bytes, took := costOf(build(1000))
	moreBytes, longer := costOf(build(64_000))
	if moreBytes > bytes+bytes/4+4096 || longer > 10*took+5*time.Millisecond {
		t.Errorf("a change takes %d bytes and %s, with 64 times as many other Services %d and %s", bytes, took, moreBytes, longer)
	}
}
