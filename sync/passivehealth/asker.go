package passivehealth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// discardPort is where endpoints of other protocols than TCP are asked. Hardly anything listens
// there, so a living host resets the connection (RFC 863).
const discardPort = 9

// target returns where to ask an endpoint.
func (e endpoint) target() netip.AddrPort {
	if e.protocol == model.TCP {
		return e.addr
	}
	return netip.AddrPortFrom(e.addr.Addr(), discardPort)
}

// Connect asks a TCP port whether it answers, with a connection or a reset. If there is no answer
// in time, or the network says that the host is unreachable, the error is
// [context.DeadlineExceeded]. Any other error means that the question could not be asked, for
// example because a policy of this node drops it.
func Connect(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", to.String())
	var timeout net.Error
	switch {
	case err == nil:
		// A reset leaves nothing behind, neither here nor there.
		_ = conn.(*net.TCPConn).SetLinger(0)
		return conn.Close()
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return nil
	case errors.As(err, &timeout) && timeout.Timeout(),
		errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EHOSTDOWN):
		return errors.Join(context.DeadlineExceeded, err)
	}
	return err
}

// outcomeOf returns what an error of [Connect] means.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcomeAnswer
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeSilence
	}
	return outcomeUnknown
}
