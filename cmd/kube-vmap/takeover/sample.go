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
	"kube-vmap/sync/follow/passivehealth"
)

const (
	// sampleSize is how many addresses are tried.
	sampleSize = 20
	// connectTimeout is how long a connection may take.
	connectTimeout = time.Second
	// attempts is how often an address must fail: one endpoint among several may be broken.
	attempts = 3
	// maxEndpoints is how many endpoints a Service may have whose failures count: each of them
	// is tried without it.
	maxEndpoints = 32
)

type target struct {
	at      netip.AddrPort
	service model.ServicePortName
}

// A failure is a target that does not answer because of rules.
type failure struct {
	target
	err error
}

// dialFunc connects, and closes the connection.
type dialFunc func(ctx context.Context, to netip.AddrPort) error

func connect(ctx context.Context, to netip.AddrPort) error {
	return dial(ctx, to, net.Dialer{Control: passivehealth.HalfOpen})
}

// dial connects and closes the connection. It is half-open: many programs do not survive a reset in
// accept, and the port of one that is closed regularly cannot be bound for a minute.
func dial(ctx context.Context, to netip.AddrPort, d net.Dialer) error {
	d.Timeout = connectTimeout
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// each calls fn with the elements that a batch adds or deletes, one after the other: a first load has
// the elements of all Services.
func each(b nft.Batch, fn func(kind nft.SetKind, e *nft.Element, adds bool)) {
	for _, op := range b {
		switch op := op.(type) {
		case nft.AddElements:
			for i := range op.Elements {
				fn(op.Set.Kind, &op.Elements[i], true)
			}
		case nft.DeleteElements:
			for i := range op.Elements {
				fn(op.Set.Kind, &op.Elements[i], false)
			}
		case nft.AddFrontends:
			var e nft.Element
			for i := range op.Len() {
				op.Make(i, &e)
				fn(op.Set.Kind, &e, true)
			}
		}
	}
}

func batchTargets(b nft.Batch) (all []target) {
	clusterIPs := map[netip.Addr]bool{}
	each(b, func(kind nft.SetKind, e *nft.Element, adds bool) {
		if adds && kind == nft.SetClusterIPs {
			clusterIPs[e.Key.Addr] = true
		}
	})
	each(b, func(kind nft.SetKind, e *nft.Element, adds bool) {
		if adds && kind == nft.SetServices && e.Key.Protocol == model.TCP && clusterIPs[e.Key.Addr] && e.Service != nil {
			all = append(all, target{netip.AddrPortFrom(e.Key.Addr, e.Key.Port), *e.Service})
		}
	})
	return all
}

// batchEndpoints returns the endpoints that a batch gives to a sample, of each target as many as
// count.
func batchEndpoints(b nft.Batch, sample []target) (all []netip.AddrPort) {
	count := map[netip.AddrPort]int{}
	for _, s := range sample {
		count[s.at] = maxEndpoints
	}
	kinds := []nft.SetKind{nft.SetEndpoints, nft.SetEndpointsMany, nft.SetStickyEndpoints}
	each(b, func(kind nft.SetKind, e *nft.Element, adds bool) {
		at := netip.AddrPortFrom(e.Key.Addr, e.Key.Port)
		if adds && slices.Contains(kinds, kind) && e.Key.Protocol == model.TCP && count[at] > 0 {
			count[at]--
			all = append(all, e.Value.Endpoint)
		}
	})
	return all
}

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

// working returns the targets of a sample to which the node can connect.
func (t *Takeover) working(ctx context.Context, all []target) (out []target) {
	sample := choose(all)
	failed := failures(ctx, sample, func(s target) error { return t.dial(ctx, s.at) })
	return slices.DeleteFunc(sample, func(s target) bool {
		return slices.ContainsFunc(failed, func(f failure) bool { return f.target == s })
	})
}

func (t *Takeover) sampleEndpoints(installed []nft.InstalledFrontend) map[netip.AddrPort][]netip.AddrPort {
	out := map[netip.AddrPort][]netip.AddrPort{}
	for _, s := range t.sample {
		out[s.at] = nil
	}
	for i := range installed {
		f := &installed[i]
		at := netip.AddrPortFrom(f.Match.Addr, f.Match.Port)
		if _, wanted := out[at]; wanted && f.Match.Protocol == model.TCP {
			out[at] = endpoints(f)
		}
	}
	return out
}

// failing returns the targets of the sample that do not answer because of rules. One that no
// longer has endpoints is not a failure, nor one that cannot be reached itself, unless it could be
// before the first commit, and packets to it do not leave the node now.
func (t *Takeover) failing(ctx context.Context, endpoints map[netip.AddrPort][]netip.AddrPort) []failure {
	return failures(ctx, t.sample, func(s target) error { return t.tryAgain(ctx, s, endpoints[s.at]) })
}

// tryAgain returns an error if a target does not answer and the rules can be the reason. The
// last attempt is observed, while each of the endpoints is tried without the Service: what
// drops packets for a moment drops all of these.
func (t *Takeover) tryAgain(ctx context.Context, s target, endpoints []netip.AddrPort) error {
	if len(endpoints) == 0 || len(endpoints) > maxEndpoints {
		return nil
	}
	if repeated(func() error { return t.dial(ctx, s.at) }) == nil {
		return nil
	}
	answer := make(chan map[netip.AddrPort]bool, 1)
	go func() { answer <- t.answering(ctx, endpoints) }()
	o := t.observe(ctx, s.at)
	now, left := <-answer, !o.known || o.reply.IsValid()
	silent := func(e netip.AddrPort) bool { return !now[e] && (left || !t.direct[e]) }
	switch {
	case o.err == nil || slices.ContainsFunc(endpoints, silent):
		return nil
	case !blamesRules(s, o, endpoints):
		t.Log.Debug("connection of a check failed, but not because of rules", "service", s.service.String(),
			"address", s.at.String(), "err", o.err)
		return nil
	}
	return o.err
}

// answering returns the endpoints to which the node can connect.
func (t *Takeover) answering(ctx context.Context, endpoints []netip.AddrPort) map[netip.AddrPort]bool {
	out := map[netip.AddrPort]bool{}
	var all []target
	for _, e := range endpoints {
		all, out[e] = append(all, target{at: e}), true
	}
	for _, f := range failures(ctx, all, func(s target) error { return t.dial(ctx, s.at) }) {
		delete(out, f.at)
	}
	return out
}

// failures tries all targets at the same time, and returns those that fail; none if ctx has ended,
// because they may have had no time.
func failures(ctx context.Context, all []target, try func(target) error) (out []failure) {
	errs := make([]error, len(all))
	var group stdsync.WaitGroup
	for i, s := range all {
		group.Go(func() { errs[i] = try(s) })
	}
	group.Wait()
	for i, s := range all {
		if errs[i] != nil && ctx.Err() == nil {
			out = append(out, failure{s, errs[i]})
		}
	}
	return out
}

func repeated(try func() error) (err error) {
	for range attempts {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// changes are the addresses of a sample that the loop has changed since it was last read. An author who
// adds and removes endpoints all the time must not make a check compare what was read with what has
// changed since.
type changes struct {
	mu      stdsync.Mutex
	changed map[netip.Addr]bool // false for those that have not changed
}

// watch watches the addresses of a sample only, from now on.
func (c *changes) watch(sample []target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = map[netip.Addr]bool{}
	for _, s := range sample {
		c.changed[s.at.Addr()] = false
	}
}

func (c *changes) has(at netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed[at]
}

// add adds the changes of a batch. Call it before the batch is applied.
func (c *changes) add(b nft.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changed) == 0 {
		return
	}
	each(b, func(_ nft.SetKind, e *nft.Element, _ bool) {
		if _, watched := c.changed[e.Key.Addr]; watched {
			c.changed[e.Key.Addr] = true
		}
	})
}
