package takeover

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

const (
	// sampleSize is how many addresses are tried.
	sampleSize = 20
	// connectTimeout is how long a connection may take.
	connectTimeout = time.Second
	// attempts is how often an address must fail: one endpoint among several may be broken.
	attempts = 3
	// maxEndpoints is how many endpoints of a Service are tried without it.
	maxEndpoints = 32
)

// A target is a ClusterIP and a TCP port.
type target struct {
	at      netip.AddrPort
	service model.ServicePortName
}

// A failure is a target that does not answer, though all its endpoints do.
type failure struct {
	target
	err error
}

// dialFunc connects, and closes the connection.
type dialFunc func(ctx context.Context, to netip.AddrPort) error

func connect(ctx context.Context, to netip.AddrPort) error {
	c, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// batchTargets returns the targets that a batch adds.
func batchTargets(b nft.Batch) (all []target) {
	clusterIPs := map[netip.Addr]bool{}
	for _, op := range b {
		for _, e := range addedTo(nft.SetClusterIPs, op) {
			clusterIPs[e.Key.Addr] = true
		}
	}
	for _, op := range b {
		for _, e := range addedTo(nft.SetServices, op) {
			if e.Key.Protocol == model.TCP && clusterIPs[e.Key.Addr] && e.Service != nil {
				all = append(all, target{netip.AddrPortFrom(e.Key.Addr, e.Key.Port), *e.Service})
			}
		}
	}
	return all
}

// addedTo returns the elements that an op adds to a set of the kind.
func addedTo(kind nft.SetKind, op nft.Op) []nft.Element {
	if id, adds := nft.AddsTo(op); !adds || id.Kind != kind {
		return nil
	}
	_, list, _ := nft.AddedElements(op)
	return list
}

// installedTargets returns the targets that the kernel has.
func installedTargets(installed []nft.InstalledFrontend) (all []target) {
	for i := range installed {
		if f := &installed[i]; len(endpoints(f)) > 0 {
			all = append(all, target{netip.AddrPortFrom(f.Match.Addr, f.Match.Port), f.Service})
		}
	}
	return all
}

// endpoints returns the TCP endpoints of a ClusterIP, each once; none for anything else.
func endpoints(f *nft.InstalledFrontend) []netip.AddrPort {
	if f.Kind != model.KindClusterIP || f.Match.Protocol != model.TCP || f.Verdict != model.VerdictBalance {
		return nil
	}
	list := f.Cluster
	if f.Policy == model.PolicyLocal {
		list = f.Local
	}
	list = slices.Clone(list)
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// choose returns a sample: the API server's addresses, and others of as many namespaces as
// possible.
func choose(all []target) []target {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	rank, count := map[netip.AddrPort]int{}, map[string]int{}
	for _, t := range all {
		count[t.service.Namespace]++
		if rank[t.at] = count[t.service.Namespace]; t.service.ServiceName == kubernetes {
			rank[t.at] = 0
		}
	}
	slices.SortStableFunc(all, func(a, b target) int { return cmp.Compare(rank[a.at], rank[b.at]) })
	return all[:min(len(all), sampleSize)]
}

// working returns those of a sample to which the node can connect.
func (t *Takeover) working(ctx context.Context, all []target) (out []target) {
	sample := choose(all)
	errs := t.dialAll(ctx, sample, func(s target) error { return t.dial(ctx, s.at) })
	for i, s := range sample {
		if errs[i] == nil {
			out = append(out, s)
		}
	}
	return out
}

// sampleEndpoints returns the endpoints of the sample.
func (t *Takeover) sampleEndpoints(installed []nft.InstalledFrontend) map[netip.AddrPort][]netip.AddrPort {
	out := map[netip.AddrPort][]netip.AddrPort{}
	for _, s := range t.sample {
		out[s.at] = nil
	}
	for i := range installed {
		f := &installed[i]
		at := netip.AddrPortFrom(f.Match.Addr, f.Match.Port)
		if _, wanted := out[at]; !wanted {
			continue
		}
		if list := endpoints(f); len(list) > 0 {
			out[at] = list
		}
	}
	return out
}

// failing returns the targets of the sample that do not answer although each of their
// endpoints does without the Service. One that has no endpoints any more, or one that
// cannot be reached itself, is no failure.
func (t *Takeover) failing(ctx context.Context, endpoints map[netip.AddrPort][]netip.AddrPort) (out []failure) {
	errs := t.dialAll(ctx, t.sample, func(s target) error { return t.tryAgain(ctx, s.at, endpoints[s.at]) })
	for i, s := range t.sample {
		if errs[i] != nil {
			out = append(out, failure{s, errs[i]})
		}
	}
	return out
}

// tryAgain returns an error if an address does not answer, and each of the endpoints does.
func (t *Takeover) tryAgain(ctx context.Context, at netip.AddrPort, endpoints []netip.AddrPort) error {
	if len(endpoints) == 0 {
		return nil
	}
	var err error
	for range attempts {
		if err = t.dial(ctx, at); err == nil {
			return nil
		}
	}
	if !t.allAnswer(ctx, endpoints) {
		return nil
	}
	return err
}

// allAnswer reports whether the node can connect to each of the endpoints, or to the most that
// are tried.
func (t *Takeover) allAnswer(ctx context.Context, endpoints []netip.AddrPort) bool {
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	for _, e := range endpoints[:min(len(endpoints), maxEndpoints)] {
		if t.dial(ctx, e) != nil {
			return false
		}
	}
	return true
}

// dialAll tries all targets at the same time.
func (t *Takeover) dialAll(ctx context.Context, all []target, try func(target) error) []error {
	errs := make([]error, len(all))
	var group stdsync.WaitGroup
	for i, s := range all {
		group.Go(func() { errs[i] = try(s) })
	}
	group.Wait()
	if ctx.Err() != nil { // what failed may have had no time
		clear(errs)
	}
	return errs
}
