package passivehealth

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/sync"
)

// nodeSample is how many other nodes are asked to learn whether this node has a network.
const nodeSample = 8

// A node is one whose endpoints do not answer.
type node struct {
	name        string
	addrs       sets.Set[netip.Addr] // of its endpoints
	began, next time.Time            // of asking, or of silent; and when to ask again
	asking      bool                 // it is being asked
	unanswered  bool                 // it did not answer the last time
	silent      bool                 // it does not answer; all its endpoints are unresponsive
}

// A nodeAnswer is what asking a node found.
type nodeAnswer struct {
	name    string
	outcome outcome
}

// locate learns on which nodes these checks' endpoints run.
func (t *Tracker) locate(ctx context.Context, list []*check) {
	list = slices.DeleteFunc(slices.Clone(list), func(c *check) bool { return c.located })
	if len(list) == 0 {
		return
	}
	var addrs []netip.Addr
	for _, c := range list {
		addrs = append(addrs, c.addr.Addr())
	}
	byNode, err := t.EndpointsByNode(ctx, addrs)
	if err != nil {
		return // it ends
	}
	for _, c := range list {
		c.located = true
		for name, all := range byNode {
			if _, on := slices.BinarySearchFunc(all, c.addr.Addr(), netip.Addr.Compare); on {
				c.node = name
				t.addrsOf[name] = all
			}
		}
	}
}

// askNodes asks the nodes on which endpoints of two Services do not answer.
func (t *Tracker) askNodes(ctx context.Context, now time.Time, silent []*check) {
	services := map[string]sets.Set[sync.Object]{}
	for _, c := range silent {
		if c.node == "" || c.node == t.NodeName {
			continue
		}
		if services[c.node] == nil {
			services[c.node] = sets.New[sync.Object]()
		}
		services[c.node].Insert(c.services()...)
	}
	for name, of := range services {
		if of.Len() >= 2 && t.nodes[name] == nil {
			t.nodes[name] = &node{name: name, began: now, next: now}
		}
	}
	for name, n := range t.nodes {
		switch {
		case n.asking || now.Before(n.next):
		case !n.silent && services[name].Len() < 2:
			delete(t.nodes, name)
		default:
			n.asking, n.unanswered, n.next = true, false, now.Add(askPeriodAfter(now.Sub(n.began)))
			t.group.Go(func() error { t.askNode(ctx, name); return nil })
		}
	}
}

// askNode asks one node at its kubelet.
func (t *Tracker) askNode(ctx context.Context, name string) {
	a := nodeAnswer{name: name, outcome: outcomeUnknown}
	if targets := t.kubelets.of(ctx, name); len(targets) > 0 {
		a.outcome = t.askAny(ctx, targets)
	}
	sync.Send(ctx, t.nodeAnswers, a)
}

// askAny asks all targets twice within secondQuestion. Any answer counts.
func (t *Tracker) askAny(ctx context.Context, targets []netip.AddrPort) outcome {
	outcomes := make(chan outcome, len(targets))
	for _, to := range targets {
		go func() {
			o := outcomeOf(t.Ask(ctx, to, secondQuestion/2))
			if o == outcomeSilence {
				o = outcomeOf(t.Ask(ctx, to, secondQuestion/2))
			}
			outcomes <- o
		}()
	}
	result := outcomeSilence
	for range targets {
		if o := <-outcomes; o == outcomeAnswer || result == outcomeSilence {
			result = o
		}
	}
	return result
}

// nodeAnswered handles what asking a node found. It reports whether the node answers again.
func (t *Tracker) nodeAnswered(now time.Time, a nodeAnswer) bool {
	n := t.nodes[a.name]
	if n == nil {
		return false
	}
	n.asking, n.unanswered = false, a.outcome == outcomeSilence
	if a.outcome != outcomeAnswer || !n.silent {
		return false
	}
	delete(t.nodes, a.name)
	for _, c := range t.checks.all {
		if c.node == a.name && c.phase == phaseUnresponsive {
			c.release(now)
		}
	}
	t.reportNode(n)
	return true
}

// decideNodes makes the endpoints of nodes unresponsive that did not answer, unless it is this
// node that has no network. It reports whether there are some.
func (t *Tracker) decideNodes(ctx context.Context, now time.Time) (found bool) {
	for name, n := range t.nodes {
		if n.silent || !n.unanswered || t.cutOff.Load() || t.sampled.Before(n.began) {
			continue
		}
		// Their endpoints may have changed since a check was located.
		byNode, err := t.EndpointsByNode(ctx, t.addrsOf[name])
		if err != nil {
			return false // it ends
		}
		n.addrs = sets.New(byNode[name]...)
		n.silent, n.began, found = true, now, true
		t.reportNode(n)
	}
	return found
}

// locateSilent learns which endpoints silent nodes have now, and forgets nodes without any: they
// have left the cluster, never answer, and other nodes may get the addresses of their endpoints. It
// reports whether something changed.
func (t *Tracker) locateSilent(ctx context.Context, now time.Time) (changed bool) {
	silent := t.silentNodes()
	if len(silent) == 0 || now.Sub(t.located) < longAskPeriod {
		return false
	}
	t.located = now
	var addrs []netip.Addr
	for _, n := range silent {
		addrs = append(addrs, n.addrs.UnsortedList()...)
	}
	byNode, err := t.EndpointsByNode(ctx, addrs)
	if err != nil {
		return false // it ends
	}
	for _, n := range silent {
		has := sets.New(byNode[n.name]...)
		changed = changed || !has.Equal(n.addrs)
		if n.addrs = has; has.Len() == 0 {
			delete(t.nodes, n.name)
			delete(t.addrsOf, n.name)
			t.Log.Info("node that does not answer has no endpoints any more", "node", n.name)
		}
	}
	return changed
}

// kubelets remember where the kubelets of nodes listen: when a node is to be asked, the API server
// may be away.
type kubelets struct {
	ask   func(ctx context.Context, node string) ([]netip.AddrPort, error) // nil without an API server
	mu    stdsync.Mutex
	known map[string]kubelet
}

type kubelet struct {
	at   []netip.AddrPort
	read time.Time
}

const (
	maxKubelets   = 256 // are remembered
	kubeletExpiry = 10 * time.Minute
)

// of returns where the kubelet of a node listens, or listened when the API server last answered;
// nothing if that is not known.
func (k *kubelets) of(ctx context.Context, node string) []netip.AddrPort {
	k.mu.Lock()
	last := k.known[node]
	k.mu.Unlock()
	if k.ask == nil || time.Since(last.read) < kubeletExpiry {
		return last.at
	}
	ctx, cancel := context.WithTimeout(ctx, secondQuestion)
	defer cancel()
	at, err := k.ask(ctx, node)
	if err != nil {
		return last.at
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= maxKubelets {
		clear(k.known)
	}
	k.known[node] = kubelet{at, time.Now()}
	return at
}

// A nodesAnswer is how many of the other nodes that were asked answer.
type nodesAnswer struct{ answered, silent int }

// sampleNodes asks a random sample of the other nodes, to learn whether this node has a network.
// It is due if one of the silent checks began after the last time.
func (t *Tracker) sampleNodes(ctx context.Context, now time.Time, silent []*check) {
	covered := !slices.ContainsFunc(silent, func(c *check) bool { return t.sampleBegan.Before(c.began) })
	if t.sampling || covered && (!t.cutOff.Load() || now.Sub(t.sampleBegan) < answerTime) {
		return
	}
	sample := t.pools.sample(4 * nodeSample)
	byNode, err := t.EndpointsByNode(ctx, slices.Collect(maps.Keys(sample)))
	if err != nil {
		return // it ends
	}
	var a nodesAnswer
	others := map[string]netip.AddrPort{} // with an endpoint
	for name, all := range byNode {       // in random order
		i := slices.IndexFunc(all, func(addr netip.Addr) bool { return sample[addr].addr.IsValid() })
		switch {
		case name == t.NodeName || i < 0 || len(others)+a.silent >= nodeSample:
		case t.nodes[name] != nil && t.nodes[name].silent:
			a.silent++
		default:
			others[name] = sample[all[i]].target()
		}
	}
	t.sampling, t.sampleBegan = true, now
	t.group.Go(func() error { t.askSample(ctx, others, a); return nil })
}

// askSample asks other nodes at their kubelets. If these are not known, an endpoint is asked.
func (t *Tracker) askSample(ctx context.Context, others map[string]netip.AddrPort, a nodesAnswer) {
	outcomes := make(chan outcome, len(others))
	for name, endpoint := range others {
		go func() {
			targets := t.kubelets.of(ctx, name)
			if len(targets) == 0 {
				targets = []netip.AddrPort{endpoint}
			}
			outcomes <- t.askAny(ctx, targets)
		}()
	}
	for range others {
		switch <-outcomes {
		case outcomeAnswer:
			a.answered++
		case outcomeSilence:
			a.silent++
		}
	}
	sync.Send(ctx, t.samples, a)
}

// handleSample learns from the other nodes whether this one is cut off: most of them do not
// answer, and they are more than one, which might have failed itself.
func (t *Tracker) handleSample(a nodesAnswer) {
	t.sampling, t.sampled = false, t.sampleBegan
	cutOff := a.silent >= 2 && a.silent > a.answered
	if cutOff != t.cutOff.Swap(cutOff) {
		t.Log.Warn("reachability of other nodes changed", "cut_off", cutOff, "answered", a.answered, "silent", a.silent)
	}
}

// sample returns up to n endpoints of random pools, by their addresses.
func (p pools) sample(n int) map[netip.Addr]endpoint {
	out := map[netip.Addr]endpoint{}
	for _, each := range p { // in random order
		for _, list := range each.lists {
			for i, from := 0, rand.Int(); i < len(list) && len(out) < n; i++ {
				a := list[(from%len(list)+i)%len(list)]
				out[a.Addr()] = endpoint{each.key.Protocol, a}
			}
		}
		if len(out) == n {
			break
		}
	}
	return out
}
