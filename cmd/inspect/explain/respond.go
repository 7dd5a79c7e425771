package explain

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/simulate"
)

// eachDestination calls fn for the endpoints that the packet may reach, with their addresses.
func eachDestination(a *answer.Answer, fn func(e *answer.Endpoint, at netip.AddrPort)) {
	for i := range a.Outcomes {
		if !a.Outcomes[i].Arrives() {
			continue
		}
		for k := range a.Outcomes[i].Endpoints {
			e := &a.Outcomes[i].Endpoints[k]
			if addr, err := netip.ParseAddr(e.Address); err == nil {
				fn(e, netip.AddrPortFrom(addr, e.Port))
			}
		}
	}
}

// observe sets how endpoints respond, by what the kernel tracks now and by what the running
// process observed: d, which may be nil. What it observed is newer.
func observe(a *answer.Answer, p model.Protocol, d *nodestatus.Document) error {
	answered, err := conntrack.New(conntrack.Config{}).Answering(p)
	if err != nil {
		return err
	}
	observed := map[netip.AddrPort]string{}
	if d != nil {
		for i := range d.Services {
			addResponses(observed, &d.Services[i], p)
		}
	}
	eachDestination(a, func(e *answer.Endpoint, at netip.AddrPort) {
		if answered[at] {
			e.Response = answer.Responds
		}
		if r := observed[at]; r == answer.Refuses || r != "" && e.Response == "" {
			e.Response = r
		}
	})
	return nil
}

// addResponses adds the endpoints of a Service that refused connections or did not answer. Over
// UDP, silence may be right.
func addResponses(observed map[netip.AddrPort]string, s *nodestatus.Service, p model.Protocol) {
	for i := range s.Ports {
		if !strings.EqualFold(s.Ports[i].Protocol, p.String()) {
			continue
		}
		for k := range s.Ports[i].Endpoints {
			switch e := &s.Ports[i].Endpoints[k]; {
			case e.Refused > 0:
				observed[e.AddrPort()] = answer.Refuses
			case e.Unanswered > 0 && p != model.UDP:
				observed[e.AddrPort()] = answer.Silent
			}
		}
	}
}

const (
	// probeTimeout is long enough for a first packet that is sent again once.
	probeTimeout = 3 * time.Second
	// maxProbed is how many endpoints are asked.
	maxProbed = 32
)

// probe asks endpoints whether they answer, from this node, each by one connect of TCP.
func probe(ctx context.Context, a *answer.Answer, p simulate.Packet) {
	if p.Protocol != model.TCP {
		a.Hints = append(a.Hints, "--probe asked no endpoint: only over TCP is it certain what an answer or its absence "+
			"means")
		return
	}
	var g errgroup.Group
	asked := 0
	eachDestination(a, func(e *answer.Endpoint, at netip.AddrPort) {
		if asked++; asked > maxProbed {
			return
		}
		g.Go(func() error { e.Response = connect(ctx, at); return nil })
	})
	_ = g.Wait() // the functions return no errors
}

// connect returns how an address responds.
func connect(ctx context.Context, at netip.AddrPort) string {
	c, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		_ = c.Close() // it has answered
		return answer.Responds
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return answer.Refuses
	}
	return answer.Silent
}
