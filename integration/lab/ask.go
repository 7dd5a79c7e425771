package lab

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	stdsync "sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Ask asks one question over a new connection: which host answers, and which
// source address does it see? timeout bounds the wait for connection and answer.
// Refusal and silence are outcomes, not errors; see [Flow.Ask].
func (h *Host) Ask(p model.Protocol, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	return h.AskFrom(p, netip.AddrPort{}, to, timeout)
}

// AskFrom is [Host.Ask] from a given local address and port. An invalid address
// or port 0 leaves the choice to the host.
func (h *Host) AskFrom(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (answer Answer, err error) {
	err = h.Do(func() (err error) { answer, err = ask(p, from, to, timeout); return err })
	if err != nil {
		return answer, fmt.Errorf("ask %s/%s from %s: %w", to, p, h.Name, err)
	}
	return answer, nil
}

// AskTwice is [Host.AskFrom] with a second request over the same connection. The answer is the
// second one, if the first request was answered.
func (h *Host) AskTwice(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (answer Answer, err error) {
	err = h.Do(func() (err error) {
		flow, err := newFlow(p, from, to)
		if err != nil {
			answer.Outcome, answer.Reason, err = classify(err)
			return err
		}
		for n := 0; n < 2 && err == nil && (n == 0 || answer.Outcome == Answered); n++ {
			answer, err = flow.Ask(timeout)
		}
		return errors.Join(err, flow.Close())
	})
	if err != nil {
		return answer, fmt.Errorf("ask %s/%s from %s: %w", to, p, h.Name, err)
	}
	return answer, nil
}

// AskFresh is [Host.Ask] from a [Host.FreshPort] of a given local address. An
// invalid address leaves the choice to the host.
func (h *Host) AskFresh(p model.Protocol, from netip.Addr, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	for {
		a, err := h.AskFrom(p, netip.AddrPortFrom(from, h.FreshPort()), to, timeout)
		if !errors.Is(err, unix.EADDRINUSE) {
			return a, err
		}
	}
}

// Fresh ports are above those of servers, not in the range of node ports, and below the first port
// from which Linux does not connect by default (ip_local_port_range).
const (
	firstFreshPort  = 11000
	firstNodePort   = 30000
	portsBelow      = firstNodePort - firstFreshPort
	firstFreshAbove = 33000
	freshPorts      = portsBelow + 61000 - firstFreshAbove
)

// FreshPort returns a local port that nothing was asked from before, or not for
// long. For connection tracking, a port that is used again can be the connection
// from before, with its endpoint and source address. Hosts begin at ports of their own: of
// two packets from the same port in the same instant, a node that masquerades them can lose one.
func (h *Host) FreshPort() uint16 {
	n := h.fresh.Add(1) % freshPorts
	if n < portsBelow {
		return uint16(firstFreshPort + n)
	}
	return uint16(firstFreshAbove + n - portsBelow)
}

// ask asks in the network namespace of the calling thread.
func ask(p model.Protocol, from, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	flow, err := newFlow(p, from, to)
	if err != nil {
		// Raw sockets look for a route when they are opened.
		outcome, reason, err := classify(err)
		return Answer{Outcome: outcome, Reason: reason}, err
	}
	answer, err := flow.Ask(timeout)
	return answer, errors.Join(err, flow.Close())
}

// Outcome is the outcome of a question.
type Outcome uint8

// The zero value is no outcome: there was an error.
const (
	_ Outcome = iota
	// Answered means that a server answered.
	Answered
	// Refused means that the port was refused by a TCP reset, an SCTP ABORT, or ICMP
	// port unreachable. The client gets ECONNREFUSED.
	Refused
	// TimedOut means that nothing came back in time.
	TimedOut
	// Unreachable means that there is no route, or that an ICMP error other than port
	// unreachable came back; see Answer.Reason.
	Unreachable
	// Reset means that a connection was established and then reset, aborted or closed.
	Reset
)

// String returns "answered", "refused", "timed out", "unreachable", "reset", or "none".
func (o Outcome) String() string {
	return [...]string{"none", "answered", "refused", "timed out", "unreachable", "reset"}[o]
}

// Answer is the result of a question, as both sides saw it.
type Answer struct {
	Outcome Outcome
	// Took is the time to the answer, the refusal, or the timeout. It includes
	// establishing the connection.
	Took time.Duration
	// By is the name of the host that answered, or empty.
	By string
	// Seen is the client's address and port as the server saw them. Invalid unless
	// Answered.
	Seen netip.AddrPort
	// Local is the client's own address and port. It differs from Seen if the source
	// was translated. Invalid if nothing was sent.
	Local netip.AddrPort
	// Reason is the error number, 0 if Answered or if there is none.
	Reason syscall.Errno
}

// String returns one line without the time.
func (a Answer) String() string {
	switch a.Outcome {
	case Answered:
		return fmt.Sprintf("answered by %s, which saw %s", a.By, a.Seen)
	case Unreachable:
		return fmt.Sprintf("unreachable (%v)", a.Reason)
	}
	return a.Outcome.String()
}

// errGarbled is returned if the answer is not from a server of the lab.
var errGarbled = errors.New("not an answer")

// A question is a number and a newline. The answer repeats the number, so that a
// late answer is not taken for an answer to the next question.
func encodeQuestion(number uint32) []byte {
	return append(strconv.AppendUint(nil, uint64(number), 10), '\n')
}

// encodeAnswer returns the question's number, the server's name and the source.
func encodeAnswer(question []byte, by string, seen netip.AddrPort) []byte {
	number := bytes.TrimSuffix(question, []byte("\n"))
	return fmt.Appendf(nil, "%s %s %s\n", number, by, netip.AddrPortFrom(seen.Addr().Unmap(), seen.Port()))
}

func decodeAnswer(b []byte) (number uint32, by string, seen netip.AddrPort, err error) {
	var source string
	if _, err = fmt.Sscanf(string(b), "%d %s %s\n", &number, &by, &source); err == nil {
		seen, err = netip.ParseAddrPort(source)
	}
	if err != nil {
		err = fmt.Errorf("read %q: %w", b, errGarbled)
	}
	return number, by, seen, err
}

// classify returns the outcome for an error of an exchange. Errors that are not
// about the network are returned.
func classify(err error) (Outcome, syscall.Errno, error) {
	var errno syscall.Errno
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return TimedOut, 0, nil
	}
	if !errors.As(err, &errno) {
		return 0, 0, err
	}
	switch errno {
	case syscall.ECONNREFUSED:
		return Refused, errno, nil
	case syscall.ETIMEDOUT:
		return TimedOut, errno, nil
	case syscall.ECONNRESET, syscall.EPIPE:
		return Reset, errno, nil
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENONET,
		syscall.ENOPROTOOPT, syscall.EPROTO, syscall.EACCES:
		return Unreachable, errno, nil
	}
	return 0, 0, err
}

// Burst is many questions, each over a new connection and from another port, as fast
// as possible: about 8,000 TCP connections or 15,000 UDP exchanges a second on two
// cores, including the servers.
type Burst struct {
	Protocol model.Protocol
	To       netip.AddrPort
	Count    int
	Workers  int           // concurrent questions, each on a thread; at least 1
	Timeout  time.Duration // of each question
}

// Tally is the result of a [Burst].
type Tally struct {
	// Answered counts the answers by the name of the host.
	Answered map[string]int
	// Refused, TimedOut, Unreachable and Reset count the questions without an
	// answer.
	Refused, TimedOut, Unreachable, Reset int
	// Latencies are the latencies of the answered questions, sorted.
	Latencies []time.Duration
	// Took is the total time.
	Took time.Duration
}

// Burst asks all questions from the host. The first error (see [Flow.Ask]) ends the
// burst and is returned.
func (h *Host) Burst(b Burst) (Tally, error) {
	var left atomic.Int64
	left.Store(int64(b.Count))
	t, start := Tally{Answered: map[string]int{}}, time.Now()
	var mu stdsync.Mutex
	var group errgroup.Group
	work := func() error {
		for left.Add(-1) >= 0 {
			answer, err := ask(b.Protocol, netip.AddrPort{}, b.To, b.Timeout)
			if err != nil {
				left.Store(0)
				return err
			}
			mu.Lock()
			t.add(answer)
			mu.Unlock()
		}
		return nil
	}
	for range max(b.Workers, 1) {
		group.Go(func() error { return h.Do(work) }) // a worker enters the namespace only once
	}
	err := group.Wait()
	t.Took = time.Since(start)
	slices.Sort(t.Latencies)
	if err != nil {
		return t, fmt.Errorf("ask %s/%s from %s: %w", b.To, b.Protocol, h.Name, err)
	}
	return t, nil
}

func (t *Tally) add(a Answer) {
	switch a.Outcome {
	case Answered:
		t.Answered[a.By]++
		t.Latencies = append(t.Latencies, a.Took)
	case Refused:
		t.Refused++
	case TimedOut:
		t.TimedOut++
	case Unreachable:
		t.Unreachable++
	case Reset:
		t.Reset++
	}
}

// String returns one line with the counts, sorted by host.
func (t Tally) String() string {
	var s string
	for _, name := range slices.Sorted(maps.Keys(t.Answered)) {
		s += fmt.Sprintf("%s %d, ", name, t.Answered[name])
	}
	return s + fmt.Sprintf("refused %d, timed out %d, unreachable %d, reset %d",
		t.Refused, t.TimedOut, t.Unreachable, t.Reset)
}
