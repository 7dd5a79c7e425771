package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"k8s.io/utils/cpuset"
)

// Conntrack has the limits and timeouts of connection tracking, as in
// KubeProxyConntrackConfiguration. Zero leaves a setting unchanged.
type Conntrack struct {
	// MaxPerCore is the limit of tracked connections per CPU of the machine, Min the
	// minimum of the limit.
	MaxPerCore, Min int32
	// Timeouts are rounded up to seconds.
	TCPEstablishedTimeout, TCPCloseWaitTimeout time.Duration
	UDPTimeout, UDPStreamTimeout               time.Duration
	// TCPBeLiberal accepts packets outside the TCP window. False does not reset it.
	TCPBeLiberal bool
	// ContinueOnError logs settings that may not be written, instead of returning an
	// error: a wrong timeout is better than no proxy.
	ContinueOnError bool
}

// maxScaled is the maximum limit that MaxPerCore leads to, to save memory on large machines
// (Kubernetes 1.37).
const maxScaled = 1 << 20

// connectionsPerBucket is the average length of the hash table's lists when it is full.
const connectionsPerBucket = 4

// SetConntrack writes the sysctls that differ. It continues after an error; errors name
// the sysctl, the wanted and the current value, and the remedy.
//
// The sysctls exist once the kernel has connection tracking, which any rule that needs it
// loads.
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

// Flags that leave a sysctl unchanged.
const (
	maxPerCore  = "--conntrack-max-per-core=0 (conntrack.maxPerCore)"
	established = "--conntrack-tcp-timeout-established=0s (conntrack.tcpEstablishedTimeout)"
	closeWait   = "--conntrack-tcp-timeout-close-wait=0s (conntrack.tcpCloseWaitTimeout)"
	udp         = "--conntrack-udp-timeout=0s (conntrack.udpTimeout)"
	udpStream   = "--conntrack-udp-timeout-stream=0s (conntrack.udpStreamTimeout)"
	liberal     = "--conntrack-tcp-be-liberal=false (conntrack.tcpBeLiberal)"
)

// setMax raises the limit of connections, and the number of hash buckets for it; as in
// kube-proxy since 1.37, larger values stay, which the node's administrator or another
// program wants. kube-proxy
// uses the module parameter hashsize for the buckets; the sysctl is the same number, and
// does not need a writable /sys. Too few buckets only cost time, and are no error.
func (h *host) setMax(c Conntrack) error {
	if c.MaxPerCore <= 0 {
		return nil
	}
	want := limit(c, h.cpus())
	is, err := h.set(sysctl{name: prefix + "max", want: want, largerStays: true, option: maxPerCore})
	if err != nil || is < want {
		return err
	}
	buckets := sysctl{name: prefix + "buckets", want: want / connectionsPerBucket, largerStays: true, option: maxPerCore}
	if _, err := h.set(buckets); err != nil {
		h.log.Warn("too few hash buckets; connection tracking is slow when its table is full", "err", err)
	}
	return nil
}

// limit returns the limit of connections. As with kube-proxy, maxScaled applies to many
// CPUs even if Min is more.
func limit(c Conntrack, cpus int) int {
	if scaled := int(c.MaxPerCore) * cpus; scaled <= maxScaled {
		return max(scaled, int(c.Min))
	}
	return maxScaled
}

// seconds rounds up, since 0 would not set the timeout.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cpus returns the number of online CPUs of the machine, which all handle connections.
// runtime.NumCPU, the fallback, returns only those that this process may use, which kubelet
// may limit.
func (h *host) cpus() int {
	text, err := os.ReadFile(filepath.Join(h.root, "sys/devices/system/cpu/online"))
	online, parseErr := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil || online.IsEmpty() {
		return runtime.NumCPU()
	}
	return online.Size()
}
