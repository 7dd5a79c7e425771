package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/trace"
	"kube-vmap/nft/kernel/conntrack"
)

// TraceOptions select packets to follow, and for how long.
type TraceOptions struct {
	Count          int           // of packets to follow; zero means no limit
	Timeout        time.Duration // zero means no limit
	Every, Replies bool          // also packets of open connections; also replies
	Rate           uint32        // packets per second; zero means 10
}

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
	tracer, err := trace.Open(trace.Config{Packet: p, Every: o.Every, Replies: o.Replies, Rate: o.Rate})
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
	shown := 0
	for ; o.Count == 0 || shown < o.Count; shown++ {
		w, err := tracer.NextPath(limited)
		if err != nil && limited.Err() != nil && errors.Is(err, limited.Err()) {
			break
		}
		if err != nil {
			return unknown, err
		}
		ending, _, _ := w.End()
		arrival = max(arrival, ending.Arrival())
		if _, err := io.WriteString(out, traceText(shown+1, w)); err != nil {
			return unknown, fmt.Errorf("show packets: %w", err)
		}
	}
	matched, err := tracer.Matched()
	if err != nil {
		return unknown, fmt.Errorf("count the packets: %w", err)
	}
	if shown == 0 && ctx.Err() == nil {
		return unknown, fmt.Errorf("%w within %s: %s", ErrNone, o.Timeout, whyNone(matched, p, o))
	}
	if shown == 0 {
		arrival = unknown
	}
	text := nodestatus.Plural(shown, "packet") + " shown"
	if o.Count == 0 && !o.Replies && matched > uint64(shown) {
		text += fmt.Sprintf("; %d more came, more than --rate allows to follow", matched-uint64(shown))
	}
	_, err = fmt.Fprintln(out, text)
	return arrival, err
}

func waiting(p simulate.Packet, o TraceOptions) string {
	what := "packets that open a connection"
	if o.Every || p.Protocol == model.UDP {
		what = "packets"
	}
	return fmt.Sprintf("waiting for %s: %s; now send one", what, p)
}

func whyNone(matched uint64, p simulate.Packet, o TraceOptions) string {
	if matched > 0 {
		return fmt.Sprintf("%d matched, but nf_tables did not report them", matched)
	}
	const nowhere = "neither by an interface of this node nor from the node itself; is the client on another node"
	if !o.Every {
		return nowhere + ", or its connection open already (--every)?"
	}
	flows, err := conntrack.New(conntrack.Config{}).Flows(p.Protocol,
		netip.AddrPortFrom(p.From, p.FromPort), p.To)
	isFast := func(f conntrack.Entry) bool { return f.Offloaded }
	if err == nil && slices.ContainsFunc(flows, isFast) {
		return "packets that take a flowtable cannot be followed, since they pass no rules"
	}
	return nowhere + "?"
}
