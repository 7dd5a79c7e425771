package explain

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/passivehealth"
)

// eachDestination calls fn for the endpoints that the packet may reach.
func eachDestination(a *answer.Answer, fn func(e *path.Endpoint)) {
	for i := range a.Outcomes {
		if !a.Outcomes[i].Arrives() {
			continue
		}
		for k := range a.Outcomes[i].Endpoints {
			fn(&a.Outcomes[i].Endpoints[k])
		}
	}
}

// observe sets how endpoints respond, by what the kernel tracks now and by what the running
// process observed.
func observe(r *answer.Response, packets []simulate.Packet) error {
	for _, protocol := range model.Protocols {
		if !slices.ContainsFunc(packets, func(p simulate.Packet) bool { return p.Protocol == protocol }) {
			continue
		}
		answered, err := conntrack.New(conntrack.Config{}).Answering(protocol)
		if err != nil {
			return err
		}
		observed := answer.Observed(r.Document, protocol.String())
		for i := range packets {
			if packets[i].Protocol != protocol {
				continue
			}
			eachDestination(&r.Answers[i], func(e *path.Endpoint) {
				e.Response = response(observed[e.At()], answered[e.AddrPort()])
			})
		}
	}
	return nil
}

// response returns how an endpoint responds that may have answered a connection which is still
// tracked. That may be long ago: a refusal is newer, and if nothing is observed both are possible.
func response(observed string, answered bool) string {
	switch {
	case !answered || observed == answer.Refuses:
		return observed
	case observed == answer.Silent:
		return ""
	}
	return answer.Responds
}

const (
	// probeTimeout is long enough for a first packet that is sent again once.
	probeTimeout = 3 * time.Second
	// maxProbed is how many endpoints of a packet are asked.
	maxProbed = 32
)

// probe tries endpoints from this node, each by half of a TCP handshake.
func probe(ctx context.Context, r *answer.Response, packets []simulate.Packet) {
	var g errgroup.Group
	g.SetLimit(maxProbed)
	for i := range packets {
		asked := 0
		eachDestination(&r.Answers[i], func(e *path.Endpoint) {
			if asked++; asked <= maxProbed && packets[i].Protocol == model.TCP {
				g.Go(func() error { e.Response = connect(ctx, e.AddrPort()); return nil })
			}
		})
	}
	_ = g.Wait() // the functions return no errors
}

func connect(ctx context.Context, at netip.AddrPort) string {
	c, err := (&net.Dialer{Timeout: probeTimeout, Control: passivehealth.HalfOpen}).DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		_ = c.Close() // it has answered
		return answer.Responds
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return answer.Refuses
	case ctx.Err() != nil, errors.Is(err, syscall.EMFILE):
		return "" // it was not asked to the end
	}
	return answer.Silent
}
