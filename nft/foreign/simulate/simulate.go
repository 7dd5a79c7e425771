// Package simulate predicts what the kernel does with a packet. It interprets the rules of
// nf_tables as the kernel holds them, of all programs. What a walk meets are events; a caller that
// knows some of the tables turns them into notes of its own ([Own]).
//
//	           Sources: Rules, Network, Connections
//	                        |  only what the packet meets
//	                        v
//	Packet --> one walk through the hooks, rule by rule --> leaf
//	   ^                    |  at a random pick,             |
//	   |                    |  the next result               |
//	   +--------------------+                                v
//	                           leaves with their probabilities --> Result
//
// A walk is run with a list of choices: the results of random picks. For each other result of
// a pick, another walk is run from the start. So the interpreter itself never branches and
// reads as the kernel works: registers, one expression after the other, verdicts
// (net/netfilter/nf_tables_core.c). Sources are asked for each thing once. Leaves are merged
// as they come; there are at most 4,096, and of the rest only the probability is known.
//
// At the end of the way there, the same walk goes on with the endpoint's reply: a packet of an
// established connection, which chains of type nat do not see and connection tracking
// translates back; and then with what the client sends next. Their picks are choices of that
// walk, so they multiply the walks by no more than their own picks do.
//
// What the interpreter does not understand is reported. In a table of the caller's own the outcome is
// unknown then. In other tables, an effect that is not understood is a doubt, as is
// what is not known of links, routing and the order of chains. A match that cannot be decided, such
// as a limit, is followed both ways: the result is as of a rule that does not match, and the
// doubt is noted only if the other way ends elsewhere, or with other probabilities.
//
// An expression of nf_tables is a [kind], with how it is decoded, run and printed; a match or target
// of iptables-nft is an [Extension]. iptables-legacy, IPVS and BPF are not simulated.
package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"kube-vmap/nft/foreign/simulate/path"
)

// Run simulates the path of the packet. The packet comes in by the interface, or by the
// interface towards its source if that is the zero value; the node itself sends packets
// from its own addresses. An error is about the sources. What cannot be predicted is an outcome, not
// an error.
func Run(s Sources, p Packet, in Link) (Result, error) {
	m := &sourceCache{Sources: s, family: p.Family()}
	if err := m.readBaseChains(); err != nil {
		return Result{}, err
	}
	from, err := m.ingressLink(p, in)
	if err != nil {
		return Result{}, fmt.Errorf("find the interface towards %s: %w", p.From, err)
	}
	r := Result{Packet: p, In: from.Name}
	if err := m.locateClient(&r, from); err != nil {
		return Result{}, fmt.Errorf("find the location of %s: %w", p.From, err)
	}
	flows, err := s.Connections.Flows(p)
	if err != nil {
		return Result{}, fmt.Errorf("find connections of %s: %w", p.From, err)
	}
	r.Flows = slices.Clone(flows)
	own := removeOwnFlow(p, &r.Flows)
	if err = explore(m, from, &r); err == nil && own != nil {
		r, err = m.runEstablished(from, r, own)
	}
	r.setLeft()
	return r, err
}

// runEstablished simulates a packet of an open connection, after one that begins it.
func (m *sourceCache) runEstablished(from Link, fresh Result, own *Flow) (Result, error) {
	r := Result{
		Packet: fresh.Packet, In: fresh.In, ClientVia: fresh.ClientVia, ToNode: fresh.ToNode,
		Flow: own, Flows: fresh.Flows, IfNew: fresh.Outcomes, IfNewUnexplored: fresh.Unexplored,
	}
	err := explore(m, from, &r)
	r.Service, r.Kind = cmp.Or(r.Service, fresh.Service), cmp.Or(r.Kind, fresh.Kind)
	return r, err
}

func (m *sourceCache) readBaseChains() error {
	list, err := m.Rules.BaseChains(m.family)
	if err != nil {
		return err
	}
	onLinks := func(b BaseChain) bool { return b.Table.Family == "bridge" || b.Table.Family == "arp" }
	m.linkChains = slices.DeleteFunc(slices.Clone(list), func(b BaseChain) bool { return !onLinks(b) })
	m.baseChains = orderBaseChains(slices.DeleteFunc(slices.Clone(list), onLinks))
	return nil
}

// ingressLink returns the interface that the packet comes in by; none if the node sends it.
func (m *sourceCache) ingressLink(p Packet, in Link) (Link, error) {
	if in != (Link{}) {
		return in, nil
	}
	if local, err := m.isLocal(p.From); local || err != nil {
		return Link{}, err
	}
	back, err := m.wayTo(p.From, p.To.Addr())
	for _, h := range back.Hops {
		m.ingress = union(m.ingress, []Link{h.Out})
	}
	if m.Host != nil && errors.Is(err, ErrNoRoute) {
		links, listErr := m.Host.Links()
		if m.ingress, m.unknownIngress = links, true; listErr != nil || len(links) == 0 {
			return Link{}, cmp.Or(listErr, err)
		}
		return links[0], nil
	}
	return back.Out, err
}

// wayTo returns the route to a client. Rules of routing may have none for packets of the node
// itself; then it is that for packets to forward, by the first interface that has one.
func (m *sourceCache) wayTo(client, from netip.Addr) (Route, error) {
	back, err := m.route(RouteQuery{To: client})
	if m.Host == nil || !errors.Is(err, ErrNoRoute) {
		return back, err
	}
	links, listErr := m.Host.Links()
	for _, l := range links {
		if r, err := m.route(RouteQuery{To: client, From: from, In: l}); err == nil && !r.Local {
			return r, nil
		}
	}
	return back, errors.Join(err, listErr)
}

// locateClient finds the next hop to the client, and whether the destination is the node
// itself.
func (m *sourceCache) locateClient(r *Result, from Link) (err error) {
	if r.ToNode, err = m.isLocal(r.Packet.To.Addr()); err != nil || from == (Link{}) {
		return err
	}
	back, err := m.wayTo(r.Packet.From, r.Packet.To.Addr())
	if errors.Is(err, ErrNoRoute) {
		return nil // the caller named the interface
	}
	r.ClientVia = back.Via
	return err
}

// removeOwnFlow removes the flow that the packet belongs to from the list and returns it.
func removeOwnFlow(p Packet, flows *[]Flow) *Flow {
	if p.FromPort == 0 {
		return nil
	}
	i := slices.IndexFunc(*flows, func(f Flow) bool {
		return f.Client == netip.AddrPortFrom(p.From, p.FromPort) && !f.Reopens
	})
	if i < 0 {
		return nil
	}
	own := (*flows)[i]
	*flows = slices.Delete(*flows, i, i+1)
	return &own
}

// explore runs all walks, or so many of them that the rest is only counted.
func explore(m *sourceCache, in Link, r *Result) error {
	s, c := &summary{Result: r}, &choices{perPick: maxChoicesPerPick, walks: maxWalks}
	for more := true; more; more = c.advance() {
		if m.Interrupted != nil {
			if err := m.Interrupted(); err != nil {
				return fmt.Errorf("simulate the packet: %w", err)
			}
		}
		w := &walk{sourceCache: m, choices: c, packet: r.Packet, in: in, flow: r.Flow}
		if err := w.noteUnknown(w.run()); err != nil {
			return err
		}
		l, err := w.leaf()
		if err == nil {
			err = w.addReply(&l)
		}
		if err != nil {
			return err
		}
		s.add(l, c)
	}
	s.finish(c)
	return nil
}

type leaf struct {
	record
	notes       Notes
	probability float64
	endpoint    path.Endpoint
}

func (w *walk) leaf() (l leaf, err error) {
	l = leaf{record: w.record, probability: w.choices.probability()}
	if l.notes, err = w.notes(); err != nil {
		return l, err
	}
	to := w.frame.destination()
	l.endpoint = path.Endpoint{
		Address: to.Addr(), Port: to.Port(), Sees: w.frame.source().Addr(), Probability: l.probability,
		Node: w.record.hook == HookInput,
	}
	if !l.endpoint.Node {
		l.endpoint.Out, l.endpoint.NextHop = w.frame.out.Name, w.nextHop
	}
	if l.verdict == path.VerdictNotService && (l.translated || w.conn.status&statusDestNAT != 0) {
		l.verdict = path.VerdictDelivered
	}
	if w.flow != nil && w.conn.status&statusSourceNAT != 0 {
		l.masquerade, l.notes.Why = true, "the connection was made so"
	}
	return l, nil
}
