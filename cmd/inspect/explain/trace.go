package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/trace"
	"kube-vmap/nft/simulate"
)

// TraceOptions select packets to follow, and for how long.
type TraceOptions struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Count is the number of packets to follow; zero means no limit.
	Count int
	// Timeout is how long to wait; zero means no limit.
	Timeout time.Duration
	// Every follows all packets, not only those that open a connection; Replies follows
	// replies, too.
	Every, Replies bool
	// Rate is how many packets per second are followed at most; zero means 10.
	Rate uint32
}

// addTo adds the flags of the options.
func (o *TraceOptions) addTo(f *pflag.FlagSet) {
	f.IntVar(&o.Count, "count", 0, "with --trace: end after this number of `packets`; 0 means no limit")
	f.DurationVar(&o.Timeout, "timeout", 0, "with --trace: end after this `time`; 0 means no limit")
	f.BoolVar(&o.Every, "every", false, "with --trace: follow every packet, not only those that open a connection")
	f.BoolVar(&o.Replies, "replies", false, "with --trace: follow replies, too")
	f.Uint32Var(&o.Rate, "rate", 10, "with --trace: follow at most this number of `packets` per second")
}

// ErrNone is returned if no packet came in time.
var ErrNone = errors.New("no such packet came")

// Follow writes the path of each packet like p as it comes, until ctx ends, which is no
// error, or a limit of the options is reached. It needs CAP_NET_ADMIN. The arrival is that
// of all packets together; unknown if there was none.
func Follow(ctx context.Context, p simulate.Packet, o TraceOptions, out io.Writer) (arrival trace.Arrival, err error) {
	const unknown = trace.ArrivalUnknown
	if o.Count < 0 || o.Timeout < 0 {
		return unknown, errors.New("--count and --timeout: must not be negative")
	}
	tracer, err := trace.Open(trace.Config{NetNS: o.NetNS, Packet: p, Every: o.Every, Replies: o.Replies, Rate: o.Rate})
	if err != nil {
		return unknown, err
	}
	defer func() { err = errors.Join(err, tracer.Close()) }()
	if _, err := fmt.Fprintln(out, waiting(p, o)); err != nil {
		return unknown, fmt.Errorf("show packets: %w", err)
	}
	limited := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	shown, arrival, err := show(limited, tracer, o.Count, out)
	if err != nil {
		return unknown, err
	}
	matched, err := tracer.Matched()
	if err != nil {
		return unknown, fmt.Errorf("count the packets: %w", err)
	}
	if shown == 0 && ctx.Err() == nil {
		return unknown, fmt.Errorf("%w within %s%s", ErrNone, o.Timeout, whyNone(matched, onFastPath(p, o), o))
	}
	if shown == 0 {
		arrival = unknown
	}
	_, err = fmt.Fprintln(out, summary(shown, matched, o))
	return arrival, err
}

// show writes packets as they come, and returns their number and arrival.
func show(ctx context.Context, tracer *trace.Tracer, count int, out io.Writer) (shown int, arrival trace.Arrival,
	err error,
) {
	for count == 0 || shown < count {
		w, err := tracer.NextPath(ctx)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return shown, arrival, nil
		case err != nil:
			return shown, arrival, err
		}
		shown++
		ending, _, _ := w.End()
		arrival = max(arrival, ending.Arrival())
		if _, err := io.WriteString(out, traceText(shown, w)); err != nil {
			return shown, arrival, fmt.Errorf("show packets: %w", err)
		}
	}
	return shown, arrival, nil
}

// waiting returns the first line of the output.
func waiting(p simulate.Packet, o TraceOptions) string {
	from := "any client"
	switch {
	case p.From.IsValid() && p.FromPort != 0:
		from = fmt.Sprintf("%s port %d", p.From, p.FromPort)
	case p.From.IsValid():
		from = p.From.String()
	}
	what := "packets that open a connection"
	if o.Every || p.Protocol.String() == "udp" {
		what = "packets"
	}
	return fmt.Sprintf("waiting for %s from %s to %s/%s; now send one", what, from, p.To, p.Protocol)
}

// onFastPath returns how many open connections with such packets take a flowtable, zero if that
// cannot be read.
func onFastPath(p simulate.Packet, o TraceOptions) (n int) {
	flows, err := conntrack.New(conntrack.Config{NetNS: o.NetNS}).Flows(p.Protocol,
		netip.AddrPortFrom(p.From, p.FromPort), p.To)
	if err != nil {
		return 0
	}
	for i := range flows {
		if flows[i].Offloaded {
			n++
		}
	}
	return n
}

// whyNone returns possible reasons why nothing came; fast is the number of connections whose
// packets pass no rules.
func whyNone(matched uint64, fast int, o TraceOptions) string {
	switch {
	case matched > 0:
		return fmt.Sprintf(": %d matched, but nf_tables did not report them", matched)
	case o.Every && fast > 0:
		return fmt.Sprintf(": packets on the fast path cannot be followed, since they pass no rules (%d of the client's "+
			"connections)", fast)
	case o.Every:
		return ": neither by an interface of this node nor from the node itself; is the client on another node?"
	}
	return ": neither by an interface of this node nor from the node itself; is the client on another node, " +
		"or its connection open already (--every)?"
}

// summary returns the last line of the output.
func summary(shown int, matched uint64, o TraceOptions) string {
	s := fmt.Sprintf("%d packets shown", shown)
	if shown == 1 {
		s = "1 packet shown"
	}
	if o.Count == 0 && !o.Replies && matched > uint64(shown) {
		s += fmt.Sprintf("; %d more came, more than --rate allows to follow", matched-uint64(shown))
	}
	return s
}
