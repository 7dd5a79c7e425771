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
	// answer is the timeout for what must be answered.
	answer = 5 * time.Second
	// soon is the time within which a port is refused, far from any retransmission.
	soon = 800 * time.Millisecond
	// silence is how long to wait for an answer that must not come.
	silence = 200 * time.Millisecond
)

// Numbers of questions.
const (
	// enough makes it practically impossible that one of a few endpoints is never picked.
	enough = 200
	// certain finds an endpoint that must not answer, if it is picked every third time.
	certain = 8
	few     = 2
)

type client struct {
	*lab.Host
	name, row string        // in messages, and in the table
	from      [2]netip.Addr // source addresses; the host chooses if they are invalid
}

// String returns the client's name.
func (c *client) String() string { return c.name }

// fromOther returns the same host with other source addresses.
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
	// anySource means that the source does not matter.
	anySource source = iota
	// own means the client's own address and port.
	own
	// snat means one of the node's addresses.
	snat
)

// String returns the source in words.
func (s source) String() string {
	return [...]string{"any source", "the client's address", "the node's address"}[s]
}

// spread is which of several hosts must answer.
type spread uint8

const (
	// each means each of them at some time.
	each spread = iota
	// byPort means the same, and that the client's port decides which one.
	byPort
	// same means always the same one to a client.
	same
	// anyOf means any of them.
	anyOf
)

// result is the expected outcome of a question, however often it is asked.
type result struct {
	source source
	// by are the hosts that must answer, and no others. If there are none, the question is
	// either refused or dropped.
	by      []string
	spread  spread
	refused bool
	// others is true if there are endpoints that must not answer.
	others bool
}

var (
	isRefused = result{refused: true}
	isSilent  = result{}
)

func by(source source, hosts string) result {
	return result{source: source, by: strings.Fields(hosts), others: true}
}

type cell struct {
	name      string // prefix for messages; may be empty
	from      *client
	transport daemon.Transport
	to        netip.AddrPort
	want      result
	list      list // what a client keeps one of, if want.spread is same
}

// list is the endpoints of a Service over a transport: all, or those of the node.
type list struct {
	service   int
	transport daemon.Transport
	local     bool
}

// choice is what a client keeps: the host that it got from a list.
type choice struct {
	list
	client netip.Addr
	to     netip.AddrPort // only if kube-proxy is tested
}

// String returns the question.
func (c cell) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%s: %s asks %s, %s", c.name, c.from, c.to, c.transport), ": ")
}

// asks returns the questions of these clients to the n-th Service, by these kinds of
// frontends, over all transports.
func asks(clients []*client, kinds []kind, n int, want result) []cell {
	return asksPort(clients, kinds, n, port, nodePorts+n, want)
}

// asksAt returns the questions of these clients to an address, over all transports.
func asksAt(clients []*client, at func(model.Family) netip.AddrPort, want result) []cell {
	var all []cell
	for _, c := range clients {
		for _, w := range daemon.Transports() {
			all = append(all, cell{from: c, transport: w, to: at(w.Family), want: want})
		}
	}
	return all
}

// sampled returns all questions in the long suite, and in the gate one of those that differ
// only in their transport, which follow each other: each transport in turn.
func sampled(cells []cell) (some []cell) {
	if !testing.Short() {
		return cells
	}
	each := len(daemon.Transports())
	for i, c := range cells {
		if group := i / each; i%each == (group+group/each)%each {
			some = append(some, c)
		}
	}
	return some
}

// check asks all questions concurrently; first those with an answer, so that the
// timeouts of the others do not slow them down.
func (s *scene) check(t *testing.T, cells []cell) {
	t.Helper()
	if kubeProxy != "" {
		s.introduce(cells)
	}
	quiet := func(c cell) bool { return len(c.want.by) == 0 && !c.want.refused }
	failed := s.askAll(slices.DeleteFunc(slices.Clone(cells), quiet), 16)
	failed = append(failed, s.askAll(slices.DeleteFunc(cells, func(c cell) bool { return !quiet(c) }), 128)...)
	for i, err := range failed {
		if i == mostErrors {
			t.Errorf("and %d more", len(failed)-i)
			break
		}
		t.Error(err)
	}
}

// introduce lets clients ask one after the other, because kube-proxy remembers two endpoints
// for a client whose first connections are simultaneous, or whose addresses of the Service
// have different policies: which of them it gets depends on the address, and on what it
// asked before.
func (s *scene) introduce(cells []cell) {
	clear(s.kept)
	for _, c := range cells {
		if c.want.spread == same {
			_, _ = c.from.ask(c.transport, c.to, silence) // the outcome is checked later
		}
	}
}

// mostErrors is how many errors are printed: one fault often affects many cells.
const mostErrors = 12

// askAll asks some questions at a time and returns the errors.
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
		err = s.isAnswered(c)
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

// isAnswered asks until all expected hosts have answered, or one if any may. It checks
// that no other host answers, and which source the servers saw.
func (s *scene) isAnswered(c cell) error {
	all := c.want.spread == each || c.want.spread == byPort
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
		if first := s.keeps(c, a); a.By != first {
			return fmt.Errorf("%s, want an answer by %s, as before", a, first)
		}
		right, err := s.sourceIs(c, a)
		if err != nil {
			return err
		}
		if right {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.By || !all })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("asked %d times, and never answered by %s with %s as the source", enough, strings.Join(missing, " and "), c.want.source)
	}
	return nil
}

// keeps returns the host whose answer the client must get: the first one that it got from
// the list, in any configuration, if it keeps that.
func (s *scene) keeps(c cell, a lab.Answer) string {
	if c.want.spread != same {
		return a.By
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := choice{list: c.list, client: a.Local.Addr()}
	if kubeProxy != "" {
		k.to = c.to
	}
	if s.kept[k] == "" {
		s.kept[k] = a.By
	}
	return s.kept[k]
}

// sourceIs checks the source that a server saw. A pod that reaches itself must see its
// node: otherwise it would answer itself directly, and the client would drop the
// answer.
//
// If the node asks from the address that it masquerades with, a server sees the same with
// masquerade and without. A port that is in use must be replaced: such an answer is not wrong,
// but proves nothing.
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
		return want == snat || a.Seen == a.Local, nil
	case want == own && a.Seen != a.Local:
		return false, fmt.Errorf("%s saw %s, want the client's own %s", a.By, a.Seen, a.Local)
	case want == snat && !slices.Contains(masquerades, a.Seen.Addr()):
		return false, fmt.Errorf("%s saw %s, want the node", a.By, a.Seen)
	}
	return true, nil
}

// masquerades returns the addresses of node-1 on its link towards a server.
func (s *scene) masquerades(server string, f model.Family) []netip.Addr {
	if strings.HasPrefix(server, "pod-") {
		return []netip.Addr{s.Node.Gateway(f)}
	}
	return s.nodeAddrs
}

// isRefused checks that the question is refused each time, and immediately: on a busy
// machine, the fastest of several refusals counts.
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
