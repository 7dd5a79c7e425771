package takeover

import (
	"cmp"
	"context"
	"iter"
	"maps"
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

func batchTargets(b nft.Batch) (all []target) {
	clusterIPs := map[netip.Addr]bool{}
	for _, op := range b {
		for e := range added(op, nft.SetClusterIPs) {
			clusterIPs[e.Key.Addr] = true
		}
	}
	for _, op := range b {
		for e := range added(op, nft.SetServices) {
			if e.Key.Protocol == model.TCP && clusterIPs[e.Key.Addr] && e.Service != nil {
				all = append(all, target{netip.AddrPortFrom(e.Key.Addr, e.Key.Port), *e.Service})
			}
		}
	}
	return all
}

// batchEndpoints returns the endpoints that a batch gives to the sample, of each target as many as
// count.
func (t *Takeover) batchEndpoints(b nft.Batch) (all []netip.AddrPort) {
	count := map[netip.AddrPort]int{}
	for _, s := range t.sample {
		count[s.at] = maxEndpoints
	}
	for _, op := range b {
		for e := range added(op, nft.SetEndpoints, nft.SetEndpointsMany, nft.SetStickyEndpoints) {
			at := netip.AddrPortFrom(e.Key.Addr, e.Key.Port)
			if e.Key.Protocol == model.TCP && count[at] > 0 {
				count[at]--
				all = append(all, e.Value.Endpoint)
			}
		}
	}
	return all
}

// added yields the elements that an op adds to sets of these kinds, of any kind if there are none. It
// makes one after the other: a first load has those of all Services.
func added(op nft.Op, kinds ...nft.SetKind) iter.Seq[*nft.Element] {
	return func(yield func(*nft.Element) bool) {
		if id, _ := nft.AddsTo(op); len(kinds) > 0 && !slices.Contains(kinds, id.Kind) {
			return
		}
		switch op := op.(type) {
		case nft.AddElements:
			for i := 0; i < len(op.Elements) && yield(&op.Elements[i]); i++ {
			}
		case nft.AddFrontends:
			var e nft.Element
			for i := range op.Len() {
				if op.Make(i, &e); !yield(&e) {
					return
				}
			}
		}
	}
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

// working returns those of a sample to which the node can connect.
func (t *Takeover) working(ctx context.Context, all []target) (out []target) {
	sample := choose(all)
	failed := failures(ctx, sample, func(s target) error { return t.dial(ctx, s.at) })
	return slices.DeleteFunc(sample, func(s target) bool {
		return slices.ContainsFunc(failed, func(f failure) bool { return f.target == s })
	})
}

func (t *Takeover) setSample(all []target) {
	t.sample = all
	t.changes.watch(all)
}

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

// failing returns the targets of the sample that do not answer because of rules. One that has
// no endpoints any more is no failure, nor one that cannot be reached itself, unless it could be
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

// answering returns those of the endpoints to which the node can connect.
func (t *Takeover) answering(ctx context.Context, endpoints []netip.AddrPort) map[netip.AddrPort]bool {
	answers := make(chan netip.AddrPort)
	for _, e := range endpoints {
		go func() {
			if t.dial(ctx, e) != nil {
				e = netip.AddrPort{}
			}
			answers <- e
		}()
	}
	out := map[netip.AddrPort]bool{}
	for range endpoints {
		out[<-answers] = true
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

// changes counts changes of the addresses of a sample by the loop. An author who adds and removes
// endpoints all the time must not make a check compare what was read with what has changed since.
type changes struct {
	mu     stdsync.Mutex
	counts map[netip.Addr]int
}

// watch begins to count changes of these targets only.
func (c *changes) watch(sample []target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = map[netip.Addr]int{}
	for _, s := range sample {
		c.counts[s.at.Addr()] = 0
	}
}

func (c *changes) read() map[netip.Addr]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// add counts the changes of a batch. Call it before the batch is applied.
func (c *changes) add(b nft.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counts) == 0 {
		return
	}
	count := func(e *nft.Element) {
		if n, watched := c.counts[e.Key.Addr]; watched {
			c.counts[e.Key.Addr] = n + 1
		}
	}
	for _, op := range b {
		for e := range added(op) {
			count(e)
		}
		if gone, deletes := op.(nft.DeleteElements); deletes {
			for i := range gone.Elements {
				count(&gone.Elements[i])
			}
		}
	}
}
