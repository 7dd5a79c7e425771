package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"
)

// maxScaled is the maximum limit for MaxPerCore, to save memory on large machines
// (Kubernetes 1.37).
const maxScaled = 1 << 20

// connectionsPerBucket is the average length of the hash table's lists when it is full.
const connectionsPerBucket = 4

// SetConntrack writes the sysctls that differ; zero leaves one unchanged. It continues after an
// error; errors name the sysctl, the wanted and the current value, and the remedy. With
// continueOnError, settings that may not be written are only logged: a wrong time-out is better
// than no proxy.
//
// The sysctls exist once the kernel has connection tracking, which any rule that needs it loads.
func SetConntrack(
	c *v1alpha1.KubeProxyConntrackConfiguration, continueOnError bool, log *slog.Logger,
) error {
	h := host{root: "/", write: os.WriteFile, continueOnError: continueOnError, log: log}
	return h.setConntrack(c)
}

func (h *host) setConntrack(c *v1alpha1.KubeProxyConntrackConfiguration) error {
	err := h.setMax(c)
	liberal := 0 // which does not reset it
	if c.TCPBeLiberal {
		liberal = 1
	}
	for _, s := range []sysctl{
		{name: prefix + "tcp_timeout_established", want: seconds(c.TCPEstablishedTimeout), option: established},
		{name: prefix + "tcp_timeout_close_wait", want: seconds(c.TCPCloseWaitTimeout), option: closeWait},
		{name: prefix + "udp_timeout", want: seconds(&c.UDPTimeout), option: udp},
		{name: prefix + "udp_timeout_stream", want: seconds(&c.UDPStreamTimeout), option: udpStream},
		{name: prefix + "tcp_be_liberal", want: liberal, option: beLiberal},
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
	beLiberal   = "--conntrack-tcp-be-liberal=false (conntrack.tcpBeLiberal)"
)

// setMax raises the limit of connections, and the number of hash buckets for it; as in
// kube-proxy since 1.37, larger values stay, which the node's administrator or another
// program wants. kube-proxy
// uses the module parameter hashsize for the buckets; the sysctl is the same number, and
// does not need a writable /sys. Too few buckets only cost time, and are no error.
func (h *host) setMax(c *v1alpha1.KubeProxyConntrackConfiguration) error {
	perCore := ptr.Deref(c.MaxPerCore, 0)
	if perCore <= 0 {
		return nil
	}
	want := limit(perCore, ptr.Deref(c.Min, 0), h.cpus())
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
// CPUs even if least is more.
func limit(perCore, least int32, cpus int) int {
	if scaled := int(perCore) * cpus; scaled <= maxScaled {
		return max(scaled, int(least))
	}
	return maxScaled
}

// seconds rounds up, since 0 would not set the timeout.
func seconds(d *metav1.Duration) int {
	return int((ptr.Deref(d, metav1.Duration{}).Duration + time.Second - 1) / time.Second)
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

type host struct {
	root            string // the directory with proc and sys in it
	write           func(name string, data []byte, mode fs.FileMode) error
	continueOnError bool // see [SetConntrack]
	log             *slog.Logger
}

type sysctl struct {
	name string // "net.netfilter.nf_conntrack_max"
	want int
	// largerStays never lowers a limit.
	largerStays bool
	// option is the flag that disables the setting.
	option string
}

func (h *host) set(s sysctl) (is int, err error) {
	path := filepath.Join(h.root, "proc/sys", strings.ReplaceAll(s.name, ".", "/"))
	is, mode, err := readNumber(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%s cannot be set to %d, because it does not exist here: "+
			"the node needs connection tracking (modprobe nf_conntrack); otherwise use %s: %w", s.name, s.want, s.option, err)
	case err != nil:
		return 0, fmt.Errorf("read %s, to set it to %d: %w; or use %s", s.name, s.want, err, s.option)
	case is == s.want, s.largerStays && is > s.want:
		return is, nil
	case mode&0o222 == 0:
		// Limits of the machine are writable in its first network namespace only.
		h.log.Warn("sysctl left unchanged: only the host's network namespace can change it",
			"name", s.name, "value", is, "configured", s.want)
		return is, nil
	}
	err = h.write(path, []byte(strconv.Itoa(s.want)), 0)
	switch {
	case err == nil:
		h.log.Info("sysctl set", "name", s.name, "value", s.want, "previous", is)
		return s.want, nil
	case !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS): // the value is invalid
		return is, fmt.Errorf("%s is %d and cannot be set to %d; set it on the node, or use %s: %w",
			s.name, is, s.want, s.option, err)
	}
	err = fmt.Errorf("%s is %d and must not be set to %d from here; set it on the node, run kube-vmap --init-only before "+
		"in a privileged init container, or use %s: %w", s.name, is, s.want, s.option, err)
	if h.continueOnError {
		h.log.Error("sysctl differs from the configuration, continuing", "name", s.name, "err", err)
		return is, nil
	}
	return is, err
}

func readNumber(path string) (n int, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return n, info.Mode(), err
}
