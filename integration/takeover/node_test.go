package takeover

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/cmd/kube-vmap/node"
)

// sysctlNames are the sysctls of connection tracking, without their common prefix.
var sysctlNames = []string{
	"max", "buckets", "tcp_timeout_established", "tcp_timeout_close_wait", "udp_timeout", "udp_timeout_stream", "tcp_be_liberal",
}

// sysctls reads connection tracking's sysctls in the network namespace of the
// calling thread.
func sysctls() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range sysctlNames {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/netfilter", "nf_conntrack_"+name))
		if err != nil {
			return nil, err
		}
		values[name] = strings.TrimSpace(string(text))
	}
	return values, nil
}

// tracked returns a machine with connection tracking, which a rule enables.
func tracked(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.run("table ip t { chain c { ct state new; }; }", "nft", "-f", "-")
	return m
}

// settings differ from the kernel's defaults.
var settings = &v1alpha1.KubeProxyConntrackConfiguration{
	TCPEstablishedTimeout: &metav1.Duration{Duration: 7777 * time.Second}, TCPCloseWaitTimeout: &metav1.Duration{Duration: 3601 * time.Second},
	UDPTimeout: metav1.Duration{Duration: 31 * time.Second}, UDPStreamTimeout: metav1.Duration{Duration: 121 * time.Second}, TCPBeLiberal: true,
}

func TestConntrackSettingsAreSetInOurNamespace(t *testing.T) {
	m, other := tracked(t), tracked(t)
	var log bytes.Buffer
	var before, after, otherBefore, otherAfter map[string]string
	read := func(into *map[string]string) func() error {
		return func() (err error) { *into, err = sysctls(); return err }
	}
	set := func() error { return node.SetConntrack(settings, false, slog.New(slog.NewTextHandler(&log, nil))) }
	for _, step := range []struct {
		on *machine
		do func() error
	}{
		{m, read(&before)},
		{other, read(&otherBefore)},
		{m, set},
		{m, set},
		{m, read(&after)},
		{other, read(&otherAfter)},
	} {
		if err := step.on.host.Do(step.do); err != nil {
			t.Fatal(err)
		}
	}
	want := maps.Clone(before)
	want["tcp_timeout_established"], want["tcp_timeout_close_wait"] = "7777", "3601"
	want["udp_timeout"], want["udp_timeout_stream"], want["tcp_be_liberal"] = "31", "121", "1"
	if !maps.Equal(after, want) {
		t.Errorf("sysctls are %v, want %v", after, want)
	}
	if !maps.Equal(otherAfter, otherBefore) {
		t.Errorf("sysctls of another namespace are %v, were %v", otherAfter, otherBefore)
	}
	if n := strings.Count(log.String(), "sysctl set"); n != 5 {
		t.Errorf("%d settings in the log, want each of 5 once:\n%s", n, &log)
	}
}

// The limit belongs to the host, so it cannot be changed from another network namespace.
func TestConntrackLimitOfTheHostIsAWarning(t *testing.T) {
	m := tracked(t)
	var log bytes.Buffer
	err := m.host.Do(func() error {
		before, err := sysctls()
		if err != nil {
			return err
		}
		err = node.SetConntrack(&v1alpha1.KubeProxyConntrackConfiguration{MaxPerCore: new(int32(1)), Min: new(int32(1 << 30))}, false, slog.New(slog.NewTextHandler(&log, nil)))
		after, readErr := sysctls()
		if readErr == nil && !maps.Equal(before, after) {
			t.Errorf("sysctls were %v and are %v", before, after)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "level=WARN") || !strings.Contains(line, "nf_conntrack_max") {
		t.Errorf("log: %s", line)
	}
}
