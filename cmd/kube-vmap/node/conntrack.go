package node

import (
	"errors"
	"log/slog"
	"os"
	"time"
)

// Conntrack is how large the connection tracking table may grow and how long it
// keeps what is idle, with the meanings of KubeProxyConntrackConfiguration. What
// is zero is left as it is.
type Conntrack struct {
	// MaxPerCore is how many connections may be tracked for each CPU of the machine,
	// and Min how many at least.
	MaxPerCore, Min int32
	// Timeouts are written in seconds, a part of one counts as one.
	TCPEstablishedTimeout, TCPCloseWaitTimeout time.Duration
	UDPTimeout, UDPStreamTimeout               time.Duration
	// TCPBeLiberal keeps packets outside the TCP window from being called invalid.
	// False does not undo it.
	TCPBeLiberal bool
	// ContinueOnError makes what must not be written from here a line in the log, at the level
	// of errors, and no error: a wrong time-out is better than no proxy.
	ContinueOnError bool
}

// maxScaled is the most connections that are asked for because of the number of
// CPUs. Kubernetes 1.36 has it to spare memory on large machines.
const maxScaled = 1 << 20

// connectionsPerBucket is how long the lists of the table's hash may be.
const connectionsPerBucket = 4

// SetConntrack writes the sysctls that differ. It goes on after an error; errors
// name the sysctl, what it should be and is, and what can be done about it.
//
// The sysctls are there once the kernel has connection tracking, for which any
// rule that needs it is enough.
func SetConntrack(c Conntrack, log *slog.Logger) error {
	h := host{root: "/", write: os.WriteFile, continueOnError: c.ContinueOnError, log: log}
	return h.setConntrack(c)
}

func (h *host) setConntrack(c Conntrack) error {
	err := h.setMax(c)
	for _, s := range []sysctl{
		{name: prefix + "tcp_timeout_established", want: seconds(c.TCPEstablishedTimeout), option: established},
		{name: prefix + "tcp_timeout_close_wait", want: seconds(c.TCPCloseWaitTimeout), option: closeWait},
		{name: prefix + "udp_timeout", want: seconds(c.UDPTimeout), option: udp},
		{name: prefix + "udp_timeout_stream", want: seconds(c.UDPStreamTimeout), option: udpStream},
		{name: prefix + "tcp_be_liberal", want: number(c.TCPBeLiberal), option: liberal},
	} {
		if s.want > 0 {
			_, e := h.set(s)
			err = errors.Join(err, e)
		}
	}
	return err
}

// prefix begins the names of conntrack's sysctls.
const prefix = "net.netfilter.nf_conntrack_"

// Options that leave a sysctl as it is.
const (
	maxPerCore  = "--conntrack-max-per-core=0 (conntrack.maxPerCore)"
	established = "--conntrack-tcp-timeout-established=0s (conntrack.tcpEstablishedTimeout)"
	closeWait   = "--conntrack-tcp-timeout-close-wait=0s (conntrack.tcpCloseWaitTimeout)"
	udp         = "--conntrack-udp-timeout=0s (conntrack.udpTimeout)"
	udpStream   = "--conntrack-udp-timeout-stream=0s (conntrack.udpStreamTimeout)"
	liberal     = "--conntrack-tcp-be-liberal=false (conntrack.tcpBeLiberal)"
)

// setMax sets the number of connections, and the number of hash buckets to go
// with it. kube-proxy sets the buckets by the module parameter hashsize; the
// sysctl is the same number, and needs no writable /sys besides /proc/sys. Too few
// of them only cost time, so they are no reason not to start.
func (h *host) setMax(c Conntrack) error {
	if c.MaxPerCore <= 0 {
		return nil
	}
	want := limit(c, h.cpus())
	is, err := h.set(sysctl{name: prefix + "max", want: want, largerFits: true, option: maxPerCore})
	if err != nil || is < want {
		return err
	}
	buckets := sysctl{
		name: prefix + "buckets", want: want / connectionsPerBucket, largerFits: true, largerStays: true, option: maxPerCore,
	}
	if _, err := h.set(buckets); err != nil {
		h.log.Warn("connection tracking will be slower than it could be when its table fills up", "err", err)
	}
	return nil
}

// limit is how many connections to allow. As with kube-proxy, many CPUs give
// maxScaled even if Min is more.
func limit(c Conntrack, cpus int) int {
	if scaled := int(c.MaxPerCore) * cpus; scaled <= maxScaled {
		return max(scaled, int(c.Min))
	}
	return maxScaled
}

// seconds rounds up: a timeout that is asked for is never none.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
