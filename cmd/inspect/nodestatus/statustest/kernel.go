// Package statustest runs loops for documents, says what documents of two sources must have in common, and runs
// functions of tests as other users.
package statustest

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// AsKernel reduces a document from the daemon to what one from the kernel's tables has;
// see the comments at the fields of [nodestatus.Document]. Numbers of connections are
// removed, too.
func AsKernel(d *nodestatus.Document) *nodestatus.Document {
	out := &nodestatus.Document{
		Schema: d.Schema, Source: nodestatus.FromKernel, Time: d.Time, NodeAddresses: d.NodeAddresses, Services: []nodestatus.Service{},
	}
	for _, s := range d.Services {
		ports := []nodestatus.Port{}
		for _, p := range s.Ports {
			if len(p.Frontends) > 0 {
				ports = append(ports, port(p))
			}
		}
		if len(ports) > 0 {
			out.Services = append(out.Services, nodestatus.Service{Namespace: s.Namespace, Name: s.Name, Ports: ports})
		}
	}
	return out
}

// port returns what the tables have of a port.
func port(p nodestatus.Port) nodestatus.Port {
	p.Traffic, p.Rejected = nodestatus.Traffic{}, ""
	cluster, local := 0, 0
	endpoints := []nodestatus.Endpoint{}
	for _, e := range p.Endpoints {
		if e.Slot == nil && e.LocalSlot == nil {
			continue
		}
		if e.Slot != nil {
			cluster++
		}
		if e.LocalSlot != nil {
			local++
		}
		endpoints = append(endpoints, nodestatus.Endpoint{
			Address: e.Address, Port: e.Port, Slot: e.Slot, LocalSlot: e.LocalSlot, Share: e.Share, LocalShare: e.LocalShare,
		})
	}
	p.Endpoints = endpoints
	p.Scheduler, p.AffinitySeconds = balancing(p, max(cluster, local))
	frontends := []nodestatus.Frontend{}
	for _, f := range p.Frontends {
		frontends = append(frontends, frontend(f, cluster > 0))
	}
	slices.SortStableFunc(frontends, func(a, b nodestatus.Frontend) int {
		return compare(a, b)
	})
	p.Frontends = frontends
	return p
}

// balancing returns what chains show about the choice among n endpoints.
func balancing(p nodestatus.Port, n int) (scheduler string, affinity int) {
	switch {
	case n == 0:
		return "", 0
	case p.AffinitySeconds > 0:
		return "random", p.AffinitySeconds
	case n < 2, n > nft.MaxSlots && p.Scheduler != "rr":
		return "random", 0
	}
	return p.Scheduler, 0
}

// frontend returns what the tables have of a frontend; cluster reports whether its port
// has endpoints in the cluster.
func frontend(f nodestatus.Frontend, cluster bool) nodestatus.Frontend {
	served := f.Verdict == nodestatus.VerdictBalance || f.Kind != "ClusterIP" && f.Policy == "Local" && cluster
	if f.Kind == "ExternalIP" || f.Kind == "LoadBalancerIP" {
		f.Kind = nodestatus.External
	}
	if f.Verdict == nodestatus.VerdictReject {
		f.Policy = ""
	}
	if !served {
		f.Masquerade = ""
	}
	f.Traffic = nodestatus.Traffic{}
	f.Sources = outermost(f.Sources)
	return f
}

// outermost returns the ranges that no other one contains.
func outermost(all []string) (out []string) {
	for _, a := range all {
		p := netip.MustParsePrefix(a)
		inner := slices.ContainsFunc(all, func(b string) bool {
			o := netip.MustParsePrefix(b)
			return o != p && o.Bits() <= p.Bits() && o.Contains(p.Addr())
		})
		if !inner && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// compare orders frontends as documents do: ClusterIP, NodePort, external ones.
func compare(a, b nodestatus.Frontend) int {
	kinds := []string{model.KindClusterIP.String(), model.KindNodePort.String(), nodestatus.External}
	if c := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); c != 0 {
		return c
	}
	if a.Address == "" || b.Address == "" {
		return strings.Compare(a.Address, b.Address)
	}
	return netip.MustParseAddr(a.Address).Compare(netip.MustParseAddr(b.Address))
}

// AsUser runs a function as the user with this uid, and returns its result: a thread of its
// own becomes that user and ends with the function, while the process stays root's. It needs
// root; an error ends the test.
func AsUser[T any](t *testing.T, uid int, it func() (T, error)) T {
	t.Helper()
	var result T
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		_, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if failed != 0 {
			done <- failed
			return
		}
		var err error
		result, err = it()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return result
}
