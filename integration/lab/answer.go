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

// Outcome is what came of a question.
type Outcome uint8

// The zero value is none of them: it comes with an error.
const (
	_ Outcome = iota
	// Answered means that a server answered.
	Answered
	// Refused means that the port was refused: by a reset, an SCTP ABORT, or ICMP
	// port unreachable. To the client all are ECONNREFUSED.
	Refused
	// TimedOut means silence: nothing came in time.
	TimedOut
	// Unreachable means that there is no route, or that ICMP said anything else
	// but port unreachable; Answer.Reason tells.
	Unreachable
	// Reset means that a connection was made and then reset, aborted or hung up.
	Reset
)

// String is the outcome in words: "answered", "refused", "timed out",
// "unreachable", "reset".
func (o Outcome) String() string {
	switch o {
	case Answered:
		return "answered"
	case Refused:
		return "refused"
	case TimedOut:
		return "timed out"
	case Unreachable:
		return "unreachable"
	case Reset:
		return "reset"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Answer is what came of a question, as both sides saw it.
type Answer struct {
	Outcome Outcome
	// Took is the time to the answer, the refusal, or giving up, from the moment
	// the question was about to be sent; that includes making the connection.
	Took time.Duration
	// By is the name of the host that answered. Empty unless Answered.
	By string
	// Seen is the address and port the server saw as the client's. Invalid unless
	// Answered.
	Seen netip.AddrPort
	// Local is the address and port the client asked from. It differs from Seen if
	// the source was translated. Invalid if the question was not sent.
	Local netip.AddrPort
	// Reason is the error number behind anything but Answered, 0 if there is none.
	Reason syscall.Errno
}

// String is one line about the answer, without the time.
func (a Answer) String() string {
	switch a.Outcome {
	case Answered:
		return fmt.Sprintf("answered by %s, which saw %s", a.By, a.Seen)
	case Unreachable:
		return fmt.Sprintf("unreachable (%v)", a.Reason)
	}
	return a.Outcome.String()
}

// errGarbled says that something answered which is no server of a lab.
var errGarbled = errors.New("not an answer")

// A question is a number and a newline. The answer repeats the number, so that
// one that comes late is not taken for that of the next question.
func encodeQuestion(number uint32) []byte {
	return append(strconv.AppendUint(nil, uint64(number), 10), '\n')
}

// encodeAnswer answers a question: its number, the server's name, the source.
func encodeAnswer(question []byte, by string, seen netip.AddrPort) []byte {
	number := bytes.TrimSuffix(question, []byte("\n"))
	return fmt.Appendf(nil, "%s %s %s\n", number, by, netip.AddrPortFrom(seen.Addr().Unmap(), seen.Port()))
}

func decodeAnswer(b []byte) (number uint32, by string, seen netip.AddrPort, err error) {
	fields := bytes.Fields(b)
	if len(fields) != 3 {
		return 0, "", seen, fmt.Errorf("read %q: %w", b, errGarbled)
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 32)
	if err != nil {
		return 0, "", seen, fmt.Errorf("read %q: %w", b, errGarbled)
	}
	if seen, err = netip.ParseAddrPort(string(fields[2])); err != nil {
		return 0, "", seen, fmt.Errorf("read %q: %w", b, errGarbled)
	}
	return uint32(n), string(fields[1]), seen, nil
}

// judge turns the error of an exchange into an outcome. An error that says
// nothing about the network is returned.
func judge(err error) (Outcome, syscall.Errno, error) {
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
