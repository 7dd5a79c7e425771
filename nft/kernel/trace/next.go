package trace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/simulate"
)

// NextPath waits for a packet whose path is complete: it has a final verdict, or no event
// came for a while. When ctx ends, NextPath returns the incomplete paths, and then the error
// of ctx.
func (t *Tracer) NextPath(ctx context.Context) (*Path, error) {
	for len(t.ready) == 0 {
		err := t.receive(ctx)
		switch {
		case err == nil:
		case errors.Is(err, ErrLost):
			t.paths.markLost()
		case ctx.Err() != nil:
			if t.ready = append(t.ready, t.paths.flush()...); len(t.ready) == 0 {
				return nil, ctx.Err()
			}
		default:
			return nil, err
		}
	}
	path := t.ready[0]
	t.ready = t.ready[1:]
	t.askRouting(path)
	return path, nil
}

// askRouting finds out why routing refuses a packet that was not seen after prerouting, if
// it does. It only adds a reason, so it ignores errors.
func (t *Tracer) askRouting(path *Path) {
	ending, p, _ := path.End()
	if ending != EndingNotSeenAgain && (ending != EndingLostAfterHook || p.Chain.Hook != "prerouting") {
		return
	}
	in, err := t.routes.Link(p.In)
	if err != nil {
		return
	}
	query := simulate.RouteQuery{In: in, From: p.Packet.From.Addr(), To: p.Packet.To.Addr()}
	if n := len(p.Steps); n > 0 {
		query.Mark = p.Steps[n-1].Mark
	}
	r, err := t.routes.Route(query)
	switch {
	case errors.Is(err, simulate.ErrNoRoute):
		path.Refusal = err.Error()
	case err == nil && r.Out == in && !r.Via.IsValid():
		// The packet would stay on the bridge, which needs the neighbour.
		if silent, err := t.routes.NeighbourUnreachable(query.To, in); silent && err == nil {
			path.Refusal = fmt.Sprintf("no neighbour on %s answers for %s (ip neigh)", in.Name, query.To)
		}
	}
}

// receive receives one event, or none if none came in time.
func (t *Tracer) receive(ctx context.Context) error {
	wait := ctx
	if at, open := t.paths.nextDeadline(); open {
		// Events that wait already are always read, also on a busy machine.
		limited, cancel := context.WithTimeout(ctx, max(time.Until(at), minWait))
		defer cancel()
		wait = limited
	}
	e, err := t.Next(wait)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		t.ready = append(t.ready, t.paths.expire(time.Now())...)
		return nil
	}
	if err != nil {
		return err
	}
	complete, err := t.resolve(e)
	if err != nil {
		return err
	}
	t.ready = append(t.ready, t.paths.add(complete, time.Now())...)
	// If another program traces all the time, there is never a pause.
	t.ready = append(t.ready, t.paths.expire(time.Now().Add(-maxExtraWait))...)
	return nil
}

const (
	// minWait is enough time to read what waits at a socket.
	minWait = 5 * time.Millisecond
	// maxExtraWait is how much longer than its deadline a path stays open while events of
	// other packets come.
	maxExtraWait = 2 * time.Second
)

func (t *Tracer) resolve(e Event) (resolvedEvent, error) {
	out := resolvedEvent{Event: e}
	if t.paths.find(e.ID) == nil {
		if err := t.refreshMetadata(); err != nil {
			return out, err
		}
	}
	var errs [4]error
	out.chain, errs[0] = t.chainOf(&e)
	if e.Kind != KindPolicy && e.Rule != 0 {
		out.rule, errs[1] = t.ruleOf(&e)
	}
	out.in, errs[2] = t.link(e.In)
	out.out, errs[3] = t.link(e.Out)
	return out, errors.Join(errs[:]...)
}

// Matched returns how many packets matched so far, without replies: those that were traced,
// and those that exceeded the rate.
func (t *Tracer) Matched() (total uint64, err error) {
	table := simulate.Table{Family: dump.FamilyName(t.config.family()), Name: t.table}
	err = t.reader.EachRule(simulate.Chain{Table: table}, func(r dump.Rule) bool {
		for _, e := range r.Expressions {
			if c, counts := e.(*expr.Counter); counts && r.Remark == commentBegin {
				total += c.Packets
			}
		}
		return true
	})
	return total, err
}
