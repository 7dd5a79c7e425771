package trace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/trace/ruletext"
	"kube-vmap/nft/simulate"
)

// NextPath waits for a packet whose way is over, which shows by a verdict or by a
// moment's silence. When ctx ends it still gives those that were on their way, and
// then the error of ctx.
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
	w := t.ready[0]
	t.ready = t.ready[1:]
	t.askRouting(w)
	return w, nil
}

// askRouting asks why routing refuses a packet that was not seen behind prerouting, if
// it does. It only adds a reason: that it cannot be asked is no error.
func (t *Tracer) askRouting(w *Path) {
	ending, p, _ := w.End()
	if ending != EndingNotSeenAgain && (ending != EndingLostAfterHook || p.Chain.Hook != "prerouting") {
		return
	}
	in, err := t.routes.Link(p.In)
	if err != nil {
		return
	}
	way := simulate.RouteQuery{In: in, From: p.Packet.From.Addr(), To: p.Packet.To.Addr()}
	if n := len(p.Steps); n > 0 {
		way.Mark = p.Steps[n-1].Mark
	}
	r, err := t.routes.Route(way)
	switch {
	case errors.Is(err, simulate.ErrNoRoute):
		w.Refusal = err.Error()
	case err == nil && r.Out == in && !r.Via.IsValid():
		// It would stay on the bridge, which has waited for the neighbour.
		if silent, err := t.routes.NeighbourUnreachable(way.To, in); silent && err == nil {
			w.Refusal = fmt.Sprintf("no neighbour at %s answers for %s (ip neigh)", in.Name, way.To)
		}
	}
}

// receive hears one event, or none if none came in time.
func (t *Tracer) receive(ctx context.Context) error {
	wait := ctx
	if at, open := t.paths.nextDeadline(); open {
		// What has come already is heard in any case, on a busy machine, too.
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
	// Where there is never silence, some other program's trace goes on all the time.
	t.ready = append(t.ready, t.paths.expire(time.Now().Add(-maxExtraWait))...)
	return nil
}

const (
	// minWait is how long it may take to see what waits at a socket.
	minWait = 5 * time.Millisecond
	// maxExtraWait is how much longer a walk is kept open while other events come.
	maxExtraWait = 2 * time.Second
)

// resolve reads what the event refers to.
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

// Matched is how many packets looked as asked for so far, answers left out: those
// that were followed, and those that were too many.
func (t *Tracer) Matched() (total uint64, err error) {
	for _, c := range t.config.chains() {
		if c.priority == priorityBegin {
			n, err := t.matchedIn(c.name)
			if err != nil {
				return total, err
			}
			total += n
		}
	}
	return total, nil
}

func (t *Tracer) matchedIn(chain string) (n uint64, err error) {
	m, err := request(unix.NFT_MSG_GETRULE, netlink.Dump, t.config.family(), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_RULE_TABLE, t.table)
		ae.String(unix.NFTA_RULE_CHAIN, chain)
	})
	if err != nil {
		return 0, err
	}
	return n, ask(t.own, m, func(data []byte) error {
		r, err := ruletext.Decode(data)
		n += r.Packets
		return err
	})
}
