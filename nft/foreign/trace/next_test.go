package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// TestWaitingEventIsReadAfterTheDeadline has a machine so busy that the deadline has passed before
// the socket is looked at. Then a path must not end while its next event waits.
func TestWaitingEventIsReadAfterTheDeadline(t *testing.T) {
	conn, err := netlink.Dial(unix.NETLINK_USERSOCK, nil)
	if err != nil {
		t.Fatal(err)
	}
	tracer := &Tracer{events: conn}
	t.Cleanup(func() { conn.Close() })
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, messages := range recorded(t) {
		for range 100 { // the deadline is noticed by another goroutine, sooner or later
			if _, err := tracer.next(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: nothing waits: %v", name, err)
			}
			send(t, conn.PID(), messages[0])
			if e, err := tracer.next(late); err != nil || e.Chain == "" {
				t.Fatalf("%s: an event waits: %+v, %v", name, e, err)
			}
		}
		send(t, conn.PID(), messages[0])
		if e, err := tracer.next(t.Context()); err != nil || e.Chain == "" {
			t.Fatalf("%s: after a deadline: %+v, %v", name, e, err)
		}
	}
}

// send sends a trace to a socket as the kernel does.
func send(t *testing.T, to uint32, message []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(message)))
	b = binary.NativeEndian.AppendUint16(b, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_TRACE)
	b = append(append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...), message...)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: to}); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EPERM: "run as root or with CAP_NET_ADMIN", unix.EPROTONOSUPPORT: "CONFIG_NF_TABLES", unix.ENOMEM: "trace packets: ",
	} {
		if err := explainError(&netlink.OpError{Op: "dial", Err: errno}); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
