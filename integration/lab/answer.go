package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

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
