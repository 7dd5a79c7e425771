package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

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
		case errors.Is(err, unix.ENOBUFS):
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
	query := simulate.RouteQuery{In: in, From: p.Packet.From, To: p.Packet.To.Addr()}
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
	if at, open := t.paths.nextDeadline(); open || t.paths.lost {
		// Events that wait already are always read, also on a busy machine.
		limited, cancel := context.WithTimeout(ctx, max(time.Until(at), minWait))
		defer cancel()
		wait = limited
	}
	e, err := t.next(wait)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		t.paths.lost = false
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

// next waits for the next event. The error is ENOBUFS if more came than could be read.
func (t *Tracer) next(ctx context.Context) (event, error) {
	if err := ctx.Err(); err != nil {
		return event{}, err
	}
	if err := t.events.SetReadDeadline(time.Time{}); err != nil {
		return event{}, fmt.Errorf("receive a trace of nf_tables: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = t.events.SetReadDeadline(time.Unix(1, 0)) }) // the socket is open
	defer stop()
	for {
		messages, err := t.events.Receive()
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return event{}, ctx.Err()
		case err != nil:
			return event{}, fmt.Errorf("receive a trace of nf_tables: %w", err)
		}
		for _, m := range messages { // a datagram has one
			if m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_TRACE {
				return decodeEvent(m.Data)
			}
		}
	}
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
