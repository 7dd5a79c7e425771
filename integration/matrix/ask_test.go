package matrix

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// answer is how long to wait for an answer: packets do not wait for anything.
	answer = 5 * time.Second
	// soon is what a refusal must come within: far from any retransmission.
	soon = 200 * time.Millisecond
	// silence is how long to wait for what must not come.
	silence = 200 * time.Millisecond
)

// Enough questions: so many that it is as good as impossible that one of a few
// endpoints was never picked; as many as are asked where one that must not answer
// would be picked every third time; and as many as are asked anyway.
const (
	enough  = 200
	certain = 8
	few     = 2
)

// client asks from a host.
type client struct {
	*lab.Host
	name, row string        // in a sentence, and in the table
	from      [2]netip.Addr // what it asks from; the host chooses if invalid
}

// String is the client's name.
func (c *client) String() string { return c.name }

// fromOther is the same host asking from other addresses.
func (c *client) fromOther(name string, addrs [2]netip.Addr) *client {
	return &client{Host: c.Host, name: name, row: c.row, from: addrs}
}

// ask asks once, from a fresh port.
func (c *client) ask(w daemon.Transport, to netip.AddrPort, timeout time.Duration) (lab.Answer, error) {
	return c.AskFresh(w.Protocol, c.from[w.Family], to, timeout)
}

// source is the address that a server sees.
type source uint8

const (
	// anySource is for those who do not mind.
	anySource source = iota
	// own is the client's own address and port.
	own
	// snat is one of the node's addresses.
	snat
)

// String is the source in words.
func (s source) String() string { return [...]string{"anybody", "the client itself", "the node"}[s] }

// result is what must come of a question, however often it is asked.
type result struct {
	source source
	// by are those who must answer sooner or later, and nobody else may. If there
	// are none, refused tells that the question is refused, else nothing comes
	// back.
	by      []string
	refused bool
	// others tells that there are servers which must not answer.
	others bool
}

var (
	isRefused = result{refused: true}
	isSilent  = result{}
)

// by is the result that these hosts answer.
func by(source source, hosts string) result {
	return result{source: source, by: strings.Fields(hosts), others: true}
}

// cell is one question of a table.
type cell struct {
	says      string // what of the table it is, in front of the rest; may be empty
	from      *client
	transport daemon.Transport
	to        netip.AddrPort
	want      result
}

// String is the question.
func (c cell) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%s: %s asks %s, %s", c.says, c.from, c.to, c.transport), ": ")
}

// asks are the questions of these clients to the n-th Service, by these ways to
// reach it, over every protocol and family.
func asks(clients []*client, kinds []kind, n int, want result) []cell {
	var all []cell
	for _, k := range kinds {
		at := func(f model.Family) netip.AddrPort { return k.at(f, n) }
		for _, c := range asksAt(clients, at, want) {
			c.says = k.String()
			all = append(all, c)
		}
	}
	return all
}

// asksAt are the questions of these clients to an address, over every protocol
// and family.
func asksAt(clients []*client, at func(model.Family) netip.AddrPort, want result) []cell {
	var all []cell
	for _, c := range clients {
		for _, w := range daemon.Transports() {
			all = append(all, cell{from: c, transport: w, to: at(w.Family), want: want})
		}
	}
	return all
}

// check asks everything at the same time, and what must stay silent afterwards:
// that takes its time whatever happens, and nothing else must slow it down.
func (s *scene) check(t *testing.T, cells []cell) {
	t.Helper()
	quiet := func(c cell) bool { return len(c.want.by) == 0 && !c.want.refused }
	failed := s.askAll(slices.DeleteFunc(slices.Clone(cells), quiet), 16)
	failed = append(failed, s.askAll(slices.DeleteFunc(cells, func(c cell) bool { return !quiet(c) }), 128)...)
	for i, err := range failed {
		if i == mostComplaints {
			t.Errorf("and %d more", len(failed)-i)
			break
		}
		t.Error(err)
	}
}

// mostComplaints is how many are printed: what is wrong is often wrong for many.
const mostComplaints = 12

// askAll asks some at a time and returns what is wrong.
func (s *scene) askAll(cells []cell, atATime int) []error {
	errs := make([]error, len(cells))
	var group errgroup.Group
	group.SetLimit(atATime)
	for i, c := range cells {
		group.Go(func() error { errs[i] = s.ask(c); return nil })
	}
	_ = group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func (s *scene) ask(c cell) error {
	var err error
	switch {
	case len(c.want.by) > 0:
		err = s.askUntilAllAnswered(c)
	case c.want.refused:
		err = c.isRefused()
	default:
		err = c.isSilent()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// askUntilAllAnswered asks until all have answered who should, checks that nobody
// else did, and which source each of them saw.
func (s *scene) askUntilAllAnswered(c cell) error {
	missing, least := slices.Clone(c.want.by), few
	if c.want.others {
		least = certain
	}
	for n := 0; n < enough && (len(missing) > 0 || n < least); n++ {
		a, err := c.from.ask(c.transport, c.to, answer)
		if err != nil {
			return err
		}
		if a.Outcome != lab.Answered || !slices.Contains(c.want.by, a.By) {
			return fmt.Errorf("%s, want an answer by %s", a, strings.Join(c.want.by, " or "))
		}
		right, err := s.sourceIs(c, a)
		if err != nil {
			return err
		}
		if right {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.By })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("asked %d times, and never answered by %s that saw %s", enough, strings.Join(missing, " and "), c.want.source)
	}
	return nil
}

// sourceIs checks the source that a server saw. A pod that reaches itself sees
// its node, or it would answer itself directly, whom it did not ask.
//
// Where the node asks from the very address that it masquerades with, only the
// port can tell, and not always: one that is chosen at random may be what it was
// before, and one that somebody else has been given must be another. Such an
// answer is not wrong, but it does not show that anything is right.
func (s *scene) sourceIs(c cell, a lab.Answer) (right bool, err error) {
	want := c.want.source
	if a.By == c.from.Name && want != anySource {
		want = snat
	}
	masquerades := s.masquerades(a.By, c.transport.Family)
	switch {
	case want == anySource:
		return true, nil
	case slices.Contains(masquerades, a.Seen.Addr()) && a.Seen.Addr() == a.Local.Addr():
		return (a.Seen == a.Local) == (want == own), nil
	case want == own && a.Seen != a.Local:
		return false, fmt.Errorf("%s saw %s, want the client's own %s", a.By, a.Seen, a.Local)
	case want == snat && !slices.Contains(masquerades, a.Seen.Addr()):
		return false, fmt.Errorf("%s saw %s, want the node", a.By, a.Seen)
	}
	return true, nil
}

// masquerades are the addresses of node-1 on its link towards a server.
func (s *scene) masquerades(server string, f model.Family) []netip.Addr {
	if strings.HasPrefix(server, "pod-") {
		return []netip.Addr{s.Node.Gateway(f)}
	}
	return s.nodeAddrs
}

// isRefused checks that the question is refused each time, and at once: on a busy
// machine the fastest of a few counts.
func (c cell) isRefused() error {
	fastest := answer
	for n := 0; n < few || fastest >= soon && n < 10; n++ {
		a, err := c.from.ask(c.transport, c.to, answer)
		if err != nil {
			return err
		}
		if a.Outcome != lab.Refused {
			return fmt.Errorf("%s, want refused", a)
		}
		fastest = min(fastest, a.Took)
	}
	if fastest >= soon {
		return fmt.Errorf("refused only after %s", fastest)
	}
	return nil
}

// isSilent checks that nothing comes back.
func (c cell) isSilent() error {
	a, err := c.from.ask(c.transport, c.to, silence)
	if err == nil && a.Outcome != lab.TimedOut {
		err = fmt.Errorf("%s, want silence", a)
	}
	return err
}
