package node

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// machine is a host in a temporary directory.
type machine struct {
	*host
	log    bytes.Buffer
	writes []string // "nf_conntrack_max=131072"
}

// newMachine has four CPUs and these files below proc/sys/net/netfilter, named without
// "nf_conntrack_". A value that begins with "r" is in a read-only file.
func newMachine(t *testing.T, values map[string]string) *machine {
	t.Helper()
	m := &machine{}
	m.host = &host{root: t.TempDir(), write: m.write, log: slog.New(slog.NewTextHandler(&m.log, nil))}
	m.put(t, "sys/devices/system/cpu/online", "0-2,5\n", 0o644)
	for name, value := range values {
		value, readOnly := strings.CutPrefix(value, "r")
		mode := fs.FileMode(0o644)
		if readOnly {
			mode = 0o444
		}
		m.put(t, "proc/sys/net/netfilter/nf_conntrack_"+name, value+"\n", mode)
	}
	return m
}

func (m *machine) put(t *testing.T, name, text string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) write(name string, data []byte, mode fs.FileMode) error {
	m.writes = append(m.writes, filepath.Base(name)+"="+string(data))
	return os.WriteFile(name, data, mode)
}

// forbid makes every write fail with the errno.
func (m *machine) forbid(errno unix.Errno) {
	m.host.write = func(name string, _ []byte, _ fs.FileMode) error {
		return &fs.PathError{Op: "open", Path: name, Err: errno}
	}
}

// fitting returns the files of a node that has kube-proxy's defaults, for 4 CPUs.
func fitting() map[string]string {
	return map[string]string{
		"max": "131072", "buckets": "32768",
		"tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600",
		"udp_timeout": "30", "udp_timeout_stream": "120", "tcp_be_liberal": "0",
	}
}

func with(values map[string]string, name, value string) map[string]string {
	values[name] = value
	return values
}

// defaults returns kube-proxy's defaults.
var defaults = &conntrack{
	MaxPerCore: new(int32(32768)), Min: new(int32(131072)),
	TCPEstablishedTimeout: &metav1.Duration{Duration: 24 * time.Hour}, TCPCloseWaitTimeout: &metav1.Duration{Duration: time.Hour},
}

type conntrack = v1alpha1.KubeProxyConntrackConfiguration

func TestSysctlsAreWrittenWhereTheyDiffer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values map[string]string
		want   *conntrack
		writes []string
	}{
		{"all as wanted", fitting(), defaults, nil},
		{"nothing wanted", fitting(), &conntrack{}, nil},
		{"a larger minimum alone", fitting(), &conntrack{Min: new(int32(1 << 20))}, nil},
		{"limit too small", with(fitting(), "max", "65536"), defaults, []string{"nf_conntrack_max=131072"}},
		{"larger limit stays", with(fitting(), "max", "2000000"), defaults, nil},
		{"larger limit with few buckets", with(with(fitting(), "max", "2000000"), "buckets", "16384"), defaults, []string{"nf_conntrack_buckets=32768"}},
		{"few buckets", with(fitting(), "buckets", "16384"), defaults, []string{"nf_conntrack_buckets=32768"}},
		{"many buckets", with(fitting(), "buckets", "262144"), defaults, nil},
		{
			"all timeouts", fitting(),
			&conntrack{
				TCPEstablishedTimeout: &metav1.Duration{Duration: 2 * time.Hour}, TCPCloseWaitTimeout: &metav1.Duration{Duration: time.Minute},
				UDPTimeout: metav1.Duration{Duration: 10 * time.Second}, UDPStreamTimeout: metav1.Duration{Duration: 300 * time.Millisecond},
				TCPBeLiberal: true,
			},
			[]string{
				"nf_conntrack_tcp_timeout_established=7200", "nf_conntrack_tcp_timeout_close_wait=60",
				"nf_conntrack_udp_timeout=10", "nf_conntrack_udp_timeout_stream=1", "nf_conntrack_tcp_be_liberal=1",
			},
		},
		{"liberal is not undone", with(fitting(), "tcp_be_liberal", "1"), defaults, nil},
		{"host's limit that fits", with(fitting(), "max", "r131072"), defaults, nil},
	} {
		m := newMachine(t, tc.values)
		if err := m.setConntrack(tc.want); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if !slices.Equal(m.writes, tc.writes) {
			t.Errorf("%s: wrote %v, want %v", tc.name, m.writes, tc.writes)
		}
		if n := strings.Count(m.log.String(), "sysctl set"); n != len(tc.writes) {
			t.Errorf("%s: %d lines of log for %d writes:\n%s", tc.name, n, len(tc.writes), &m.log)
		}
	}
}

func TestLimitGrowsWithTheCPUsUpToACap(t *testing.T) {
	for _, tc := range []struct {
		perCore, min int32
		cpus, want   int
	}{
		{32768, 131072, 1, 131072},
		{32768, 131072, 4, 131072},
		{32768, 131072, 8, 262144},
		{32768, 131072, 32, 1048576},
		{32768, 131072, 33, 1048576},
		{32768, 2000000, 33, 1048576},
		{32768, 2000000, 32, 2000000},
		{1 << 30, 0, 128, 1048576},
	} {
		if got := limit(tc.perCore, tc.min, tc.cpus); got != tc.want {
			t.Errorf("%d per CPU, at least %d, %d CPUs: %d, want %d", tc.perCore, tc.min, tc.cpus, got, tc.want)
		}
	}
}

func TestErrorsGiveReasonAndRemedy(t *testing.T) {
	const established, closeWait = "net.netfilter.nf_conntrack_tcp_timeout_established", "net.netfilter.nf_conntrack_tcp_timeout_close_wait"
	missing := fitting()
	delete(missing, "max")
	for _, tc := range []struct {
		name   string
		values map[string]string
		errno  unix.Errno
		says   []string
	}{
		{"limit too small and read-only", with(fitting(), "max", "65536"), unix.EROFS, []string{
			"net.netfilter.nf_conntrack_max", "65536", "131072", "read-only", "--init-only", "--conntrack-max-per-core=0",
		}},
		{"a larger timeout and no right", with(fitting(), "tcp_timeout_established", "432000"), unix.EACCES, []string{
			established, "432000", "86400", "permission denied", "--init-only", "--conntrack-tcp-timeout-established=0s",
		}},
		{"a value that the kernel refuses", with(fitting(), "tcp_timeout_close_wait", "60"), unix.EINVAL, []string{
			closeWait, "60", "3600", "invalid argument", "--conntrack-tcp-timeout-close-wait=0s",
		}},
		{"two errors", with(with(fitting(), "tcp_timeout_close_wait", "60"), "max", "1"), unix.EPERM, []string{
			"net.netfilter.nf_conntrack_max", closeWait,
		}},
		{"no connection tracking", missing, 0, []string{
			"net.netfilter.nf_conntrack_max", "131072", "modprobe nf_conntrack", "--conntrack-max-per-core=0",
		}},
		{"no number", with(fitting(), "tcp_timeout_established", "soon"), 0, []string{
			established, "86400", "soon", "--conntrack-tcp-timeout-established=0s",
		}},
	} {
		m := newMachine(t, tc.values)
		if tc.errno != 0 {
			m.forbid(tc.errno)
		}
		err := m.setConntrack(defaults)
		for _, word := range tc.says {
			if !strings.Contains(fmt.Sprint(err), word) {
				t.Errorf("%s: error does not say %q: %v", tc.name, word, err)
			}
		}
	}
}

// TestSysctlsThatMayNotBeWritten has what is only logged, and what ends the process.
func TestSysctlsThatMayNotBeWritten(t *testing.T) {
	host := with(with(fitting(), "max", "r65536"), "buckets", "r16384")
	for _, tc := range []struct {
		name            string
		values          map[string]string
		continueOnError bool
		level, log      string // empty if nothing is logged
	}{
		{"all fit", fitting(), false, "", ""},
		{"a larger limit", with(fitting(), "max", "262144"), false, "", ""},
		{"few buckets", with(fitting(), "buckets", "16384"), false, "WARN", "nf_conntrack_buckets is 16384"},
		{"the host's limit", host, false, "WARN", "only the host's network namespace can change it\" name=net.netfilter.nf_conntrack_max value=65536 configured=131072"},
		{"a timeout", with(fitting(), "tcp_timeout_established", "432000"), true, "ERROR", "--init-only"},
	} {
		for _, errno := range []unix.Errno{unix.EROFS, unix.EACCES, unix.EPERM} {
			m := newMachine(t, tc.values)
			m.forbid(errno)
			m.continueOnError = tc.continueOnError
			err, log := m.setConntrack(defaults), m.log.String()
			if err != nil || strings.Count(log, "level=") != min(1, len(tc.log)) || !strings.Contains(log, tc.log) || !strings.Contains(log, tc.level) {
				t.Errorf("%s, %v: error %v, log %s", tc.name, errno, err, log)
			}
		}
	}
	m := newMachine(t, with(fitting(), "tcp_timeout_established", "432000"))
	m.forbid(unix.EINVAL)
	m.continueOnError = true
	if err := m.setConntrack(defaults); err == nil || strings.Contains(m.log.String(), "level=ERROR") {
		t.Errorf("of an invalid value: error %v, log %s", err, &m.log)
	}
}

func TestCPUsAreThoseOfTheMachine(t *testing.T) {
	m := newMachine(t, nil)
	if n := m.cpus(); n != 4 {
		t.Errorf("of 0-2,5: %d CPUs", n)
	}
	for list, want := range map[string]int{"0\n": 1, "0-3,8-11,16": 9, "": runtime.NumCPU(), "3-1": runtime.NumCPU(), "0,": runtime.NumCPU()} {
		m.put(t, "sys/devices/system/cpu/online", list, 0o644)
		if n := m.cpus(); n != want {
			t.Errorf("of %q: %d CPUs, want %d", list, n, want)
		}
	}
}

func TestOOMScoreIsWrittenWhereItDiffers(t *testing.T) {
	for _, tc := range []struct {
		is     string
		writes []string
	}{
		{"-999\n", nil},
		{"0\n", []string{"oom_score_adj=-999"}},
	} {
		m := newMachine(t, nil)
		m.put(t, "proc/self/oom_score_adj", tc.is, 0o644)
		if err := m.setOOMScoreAdj(-999); err != nil || !slices.Equal(m.writes, tc.writes) {
			t.Errorf("of %q: wrote %v, %v", tc.is, m.writes, err)
		}
	}
	m := newMachine(t, nil)
	m.put(t, "proc/self/oom_score_adj", "100\n", 0o644)
	m.forbid(unix.EACCES)
	err := fmt.Sprint(m.setOOMScoreAdj(-999))
	for _, word := range []string{"100", "-999", "CAP_SYS_RESOURCE", "permission denied"} {
		if !strings.Contains(err, word) {
			t.Errorf("error does not say %q: %s", word, err)
		}
	}
}

// TestReleasesAreCompared has those before which late packets are invalid, and which are too old.
func TestReleasesAreCompared(t *testing.T) {
	for release, want := range map[string][2]bool{
		"4.18.0-513.el8.x86_64": {true, true}, "5.10.0-28-amd64": {true, true}, "5.12.19": {true, true},
		"5.13.0": {false, true}, "5.15.0-91-generic": {false, true}, "6.0.19": {false, true},
		"6.1.0-18-amd64": {}, "6.18.44": {}, "10.0": {}, "": {}, "unknown": {},
	} {
		if got := [...]bool{before(release, 5, 13), before(release, 6, 1)}; got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}
