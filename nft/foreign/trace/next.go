package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
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
	case err == nil && r.Out == in && !r.Via.IsValid() && path.isTranslated():
		// The packet would stay on the bridge, which has just looked for the neighbour.
		if s, err := t.routes.Neighbour(query.To, in); s != simulate.NeighbourKnown && err == nil {
			path.Refusal = fmt.Sprintf("no neighbour on %s answers for %s (ip neigh)", in.Name, query.To)
		}
	}
}

// receive receives one event, or none if none came in time.
func (t *Tracer) receive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := ctx
	at, open := t.paths.nextDeadline()
	if t.paths.lost {
		at, open = time.Time{}, true // only what waits already is in doubt
	}
	if open {
		limited, cancel := context.WithDeadline(ctx, at)
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

// maxExtraWait is how much longer than its deadline a path stays open while events of
// other packets come.
const maxExtraWait = 2 * time.Second

// next returns the next event, and waits for it until ctx ends. One that waits already is returned
// even after that, since a busy machine may run this late. The error is ENOBUFS if more came than
// could be read.
func (t *Tracer) next(ctx context.Context) (event, error) {
	for {
		messages, err := t.receiveMessages(ctx)
		if err != nil {
			return event{}, err
		}
		for _, m := range messages { // a datagram has one
			if m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_TRACE {
				return decodeEvent(m.Data)
			}
		}
	}
}

func (t *Tracer) receiveMessages(ctx context.Context) ([]netlink.Message, error) {
	messages, err := t.receiveUntil(ctx)
	if err == nil || ctx.Err() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return messages, err
	}
	// A deadline that has passed ends Receive before it looks at the socket.
	waits, err := t.hasMessages()
	switch {
	case err != nil:
		return nil, err
	case waits:
		return t.receiveUntil(context.Background())
	}
	return nil, ctx.Err()
}

func (t *Tracer) receiveUntil(ctx context.Context) ([]netlink.Message, error) {
	err := t.events.SetReadDeadline(time.Time{})
	var messages []netlink.Message
	if err == nil {
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ended)
			_ = t.events.SetReadDeadline(time.Unix(1, 0)) // the socket is open
		})
		messages, err = t.events.Receive()
		if !stop() {
			<-ended // it must not end the next one
		}
	}
	if err != nil {
		return nil, fmt.Errorf("receive a trace of nf_tables: %w", err)
	}
	return messages, nil
}

// hasMessages reports whether messages wait at the socket, or the error that some were lost.
func (t *Tracer) hasMessages() (waits bool, err error) {
	raw, err := t.events.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("poll a netfilter socket: %w", err)
	}
	var pollErr error
	err = raw.Control(func(fd uintptr) {
		n := 0
		for pollErr = unix.EINTR; errors.Is(pollErr, unix.EINTR); {
			n, pollErr = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		}
		waits = n > 0
	})
	if err = cmp.Or(err, pollErr); err != nil {
		err = fmt.Errorf("poll a netfilter socket: %w", err)
	}
	return waits, err
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
